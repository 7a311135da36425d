"""Minimum latency: slices, orders and transfers that overlap computation."""
