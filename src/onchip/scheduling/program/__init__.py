"""Composition of a schedule's program from placements: data movement, addresses and figures."""
