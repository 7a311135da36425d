"""Operators whose output is a view of another tensor's elements."""
