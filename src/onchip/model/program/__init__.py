"""Cost of each Compute and Copy, and the figures of a whole program."""
