"""Kernels that run operators of model files."""
