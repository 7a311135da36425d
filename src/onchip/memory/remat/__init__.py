"""Operators that may run again."""
