"""Candidate groups, tilings and slices of single operators."""
