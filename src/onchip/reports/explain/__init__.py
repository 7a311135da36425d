"""Explanations of the costs of plans and schedules."""
