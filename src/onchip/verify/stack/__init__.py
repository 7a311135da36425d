"""Checks of a fusion strategy's cost, recomputed from its mappings."""
