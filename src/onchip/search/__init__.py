"""Anytime strategies and their budgets; independent of networks."""
