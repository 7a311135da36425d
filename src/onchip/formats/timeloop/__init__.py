"""Timeloop's architectures and problems, version 4."""
