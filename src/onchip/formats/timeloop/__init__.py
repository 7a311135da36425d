"""Architectures and problems of Timeloop, version 4.

What has no counterpart here is refused by name.
Nothing is written in its format.
"""
