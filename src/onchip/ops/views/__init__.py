"""Operators whose output shows elements of another tensor."""
