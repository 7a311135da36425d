"""Which layers run together in which tiles (docs/fusion.md): bounds, search, mappers, workers.

Bounds are proven below the costs and tested alone.
What a stack costs is for `cost/stack`.
"""
