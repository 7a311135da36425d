"""Elementwise kinds, reductions, joins and strided copies."""
