"""Offsets for tensors with given live ranges."""
