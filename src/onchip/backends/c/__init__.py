"""C programs of plans and schedules."""
