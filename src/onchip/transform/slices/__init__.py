"""Operators cut into slices along one axis or several."""
