"""The verbs: read, solve, verify and save."""
