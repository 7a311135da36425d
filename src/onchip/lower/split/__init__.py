"""Operators that do not fit in tiles that do (docs/tiling.md).

It knows along which axes which kinds can be cut, and emits the tiles as operators on bands.
Which cut is best is counted here, as it follows from the graph and the scratchpads alone.
"""
