"""Differences of ZigZag and DeFiNES from the cost of a layer and of a group."""
