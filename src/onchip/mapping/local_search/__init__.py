"""Greedy start and moves of factors."""
