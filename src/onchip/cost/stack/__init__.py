"""What layers cost that run together tile by tile, after DeFiNES (docs/fused.md).

It asks a mapper for each layer of each kind of tile and adds copies and caches.
Which tiles to use is for `solve/stacks`.
"""
