"""Checks the cost of a fusion strategy, recomputed from its mappings."""
