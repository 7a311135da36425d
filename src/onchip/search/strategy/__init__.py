"""Strategies that improve an incumbent step by step, and the workers that run them."""
