"""Costs of candidate groups, as fronts."""
