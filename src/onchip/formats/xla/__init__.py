"""What XLA dumps of where buffers lie, and when they live."""
