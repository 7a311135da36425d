"""Fused groups, tiles and the whole program."""
