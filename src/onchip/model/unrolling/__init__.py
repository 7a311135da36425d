"""Spatial unrollings of a loop nest on an array, utilisation, and fractional units."""
