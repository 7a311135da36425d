"""Intervals of tile sizes, and lower bounds of memory boundaries in energy and time."""
