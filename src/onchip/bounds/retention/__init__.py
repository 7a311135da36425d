"""Gaps and needs that every order of the operators has."""
