"""Runs anytime strategies within a budget; knows no network."""
