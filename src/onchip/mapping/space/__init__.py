"""Even, uneven and padded mapping spaces."""
