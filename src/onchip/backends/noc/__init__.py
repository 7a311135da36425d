"""Simulation of a network on chip."""
