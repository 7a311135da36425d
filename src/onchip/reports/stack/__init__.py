"""Fusion strategies: tables and the page of a strategy.

Figures are those of `cost/stack`.
Maps and tiles are drawn as they are back-calculated.
"""
