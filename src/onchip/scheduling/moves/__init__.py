"""Moves that improve a schedule."""
