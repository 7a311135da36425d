"""The planning methods by name."""
