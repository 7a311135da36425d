"""Convolutions, transposed convolutions and pooling."""
