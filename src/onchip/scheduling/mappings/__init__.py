"""Mappings of loop nests at given placements."""
