"""Folding, decomposition, declared workspaces, shared bytes and states."""
