"""Operators cut into slices along one or several axes."""
