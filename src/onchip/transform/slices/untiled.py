"""The network behind a graph of tile operators, reconstructed from the tiles' descriptions."""

from __future__ import annotations

from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Tile


def untiled(graph: Graph) -> Graph | None:
    """Return the network of whole operators, in the order of their first tiles; None if no operator is a tile."""
    tiles = {operator.name: operator.tile for operator in graph.operators if operator.tile is not None}
    if not tiles:
        return None
    operators: dict[str, Operator] = {}
    for operator in graph.operators:
        whole = _whole(operator, tiles[operator.name]) if operator.name in tiles else operator
        operators.setdefault(whole.name, whole)
    shapes = {name: shape for tile in tiles.values() for name, shape in tile.shape.items()}
    named = {name for operator in operators.values() for name in (*operator.reads, *operator.outputs)}
    tensors: dict[str, Tensor] = {}
    for tensor in graph.tensors:
        name = tensor.part_of or tensor.name
        if name in named or tensor.role is not Role.ACTIVATION:
            tensors.setdefault(name, _whole_tensor(tensor, name, shapes.get(name, tensor.shape)))
    return Graph(graph.name, tuple(tensors.values()), tuple(operators.values()), graph.states_among(tensors.values()))


def _whole(operator: Operator, tile: Tile) -> Operator:
    return replace(
        operator,
        name=tile.operator,
        inputs=tile.inputs,
        parameters=tile.parameters,
        outputs=tile.outputs,
        tile=None,
        in_place=(),
    )


def _whole_tensor(tensor: Tensor, name: str, shape: tuple[int, ...] | None) -> Tensor:
    if tensor.part_of is None or shape is None or tensor.bits is None:
        return tensor
    return Tensor.of_shape(name, shape, tensor.bits, tensor.role)
