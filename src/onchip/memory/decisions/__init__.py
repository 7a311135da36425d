"""Order, residencies and offsets as one record, and the plan written from it."""
