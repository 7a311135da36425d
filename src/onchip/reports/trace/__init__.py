"""Timelines in the format of Chrome traces."""
