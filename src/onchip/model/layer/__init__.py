"""Accesses, energy and cycles of a mapping: one by one and in batches."""
