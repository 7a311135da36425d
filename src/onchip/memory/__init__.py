"""Order, residencies and offsets of tensors."""
