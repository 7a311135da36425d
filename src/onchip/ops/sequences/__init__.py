"""Recurrences and other kinds that are computed in steps."""
