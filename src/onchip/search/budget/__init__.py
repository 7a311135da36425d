"""Budgets of time, nodes and work."""
