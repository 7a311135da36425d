"""Faults that are planted one at a time, to see that the adversary finds each: `make planted`.

Each level has a file of its own here, with its FAULTS.
"""
