"""What a layer costs when its loops run as a mapping says (docs/layer_cost.md).

Plain functions read like the definition, compiled ones price millions of mappings alike.
Four accountings live here: ours, ZigZag's, DeFiNES's and CoSA's.
"""
