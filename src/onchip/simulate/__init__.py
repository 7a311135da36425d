"""Functional simulation: programs executed on real data, with interchangeable kernels."""
