"""From graph to graph: each transform takes a network and gives one that runs the same values in another shape.

A room for each kind: folding, splitting, stacks in tiles, operators as loop nests.
Which transform to apply is decided elsewhere.
"""
