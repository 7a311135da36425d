"""Searches over orders and spills."""
