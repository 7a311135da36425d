"""The tile graph with biases and all that its loop nests do not read, so that it can be executed."""

from __future__ import annotations

from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.transform.groups.tile_graph import TileGraph


def with_all_parameters(tiles: TileGraph, network: Graph) -> Graph:
    """The tile graph's operators with every parameter that they have in the network of which it was made.

    A schedule moves and counts none of those that it lacks: they are there where an operator runs.
    """
    operators = (
        replace(operator, parameters=network.operator[tiles.operators[operator.name].operator].parameters)
        for operator in tiles.graph.operators
    )
    is_not_counted = set(tiles.not_counted)
    missing = tuple(tensor for tensor in network.tensors if tensor.name in is_not_counted)
    return Graph(tiles.graph.name, (*tiles.graph.tensors, *missing), tuple(operators))
