"""Proven lower bounds as pure functions."""
