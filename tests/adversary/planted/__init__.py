"""Faults that are planted one at a time, to test that the adversary finds each: `make planted`.

Each level has its own file here, with its FAULTS.
"""
