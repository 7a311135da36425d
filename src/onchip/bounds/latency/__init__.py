"""Minimum latency over all orders, slices and transfer times."""
