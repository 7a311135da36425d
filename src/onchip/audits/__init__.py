"""Searches for an answer below a claimed bound, with models that share no code with the engines."""
