"""Executes programs on real bytes, with kernels that are handed in."""
