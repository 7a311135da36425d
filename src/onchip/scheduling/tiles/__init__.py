"""Tilings of a network: fused groups of operators in tiles, searched for the bytes that they hold."""
