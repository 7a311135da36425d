"""Stacks of layers that run tile by tile, as operators on bands (docs/fusion.md, section 6).

It is given the stacks and their tiles, and emits each layer of each tile.
Which stacks and tiles are best is for `solve/stacks`.
"""
