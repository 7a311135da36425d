"""What follows from a graph, a layer or a plan alone: M_R, compulsory traffic, live ranges, windows, what tiles see.

A fact is calculated and never chosen.
What decides something belongs to `solve`, what changes a graph to `lower`.
"""
