"""Readers and writers of files; nothing is executed."""
