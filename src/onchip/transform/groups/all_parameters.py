"""The tile graph with biases and all that its loop nests do not read, so that it can be executed."""

from __future__ import annotations

from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.transform.groups.tile_graph import TileGraph


def with_all_parameters(tiles: TileGraph, network: Graph) -> Graph:
    """Return the tile graph with every parameter that its operators have in the original network.

    A schedule neither moves nor counts the added parameters: they are available when an operator runs.
    """
    operators = (
        replace(operator, parameters=network.operator[tiles.operators[operator.name].operator].parameters)
        for operator in tiles.graph.operators
    )
    is_not_counted = set(tiles.not_counted)
    missing = tuple(tensor for tensor in network.tensors if tensor.name in is_not_counted)
    return Graph(tiles.graph.name, (*tiles.graph.tensors, *missing), tuple(operators))
