"""Fused groups and their tiles, counted and emitted as operators."""
