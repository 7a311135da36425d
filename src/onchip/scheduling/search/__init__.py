"""The portfolio of the schedule search."""
