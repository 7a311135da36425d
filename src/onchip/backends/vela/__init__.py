"""Allocations of Vela."""
