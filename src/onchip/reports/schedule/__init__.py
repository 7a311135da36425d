"""Tables and pages of schedules."""
