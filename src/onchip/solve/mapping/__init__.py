"""How a layer's loops run on the array: the registry, the cache and what mappers share.

A room for each family of mappers.
Costs come from `cost/layer`.
"""
