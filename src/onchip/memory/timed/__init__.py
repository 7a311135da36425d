"""Minimum latency: slices, orders and transfers beside computation."""
