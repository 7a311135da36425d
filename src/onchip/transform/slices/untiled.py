"""The network behind a graph of tile operators, reconstructed from the tiles' descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Tile


def untiled(graph: Graph) -> Graph | None:
    """Return the network of whole operators, in the order of their first tiles; None if no operator is a tile.

    A concatenation that tiles read in parts is an operator with the name of its output, in front of its first reader.
    """
    tiles = {operator.name: operator.tile for operator in graph.operators if operator.tile is not None}
    if not tiles:
        return None
    operators: dict[str, Operator] = {}
    for operator in graph.operators:
        tile = tiles.get(operator.name)
        for joined in () if tile is None else _concatenations(tile):
            operators.setdefault(joined.name, joined)
        whole = operator if tile is None else _whole(operator, tile)
        operators.setdefault(whole.name, whole)
    shapes = {name: shape for tile in tiles.values() for name, shape in tile.shape.items()}
    named = {name for operator in operators.values() for name in (*operator.reads, *operator.outputs)}
    tensors: dict[str, Tensor] = {}
    for tensor in graph.tensors:
        name = tensor.part_of or tensor.name
        if name in named or tensor.role is not Role.ACTIVATION:
            tensors.setdefault(name, _whole_tensor(tensor, name, shapes.get(name, tensor.shape)))
    for one in (one for tile in tiles.values() for one in tile.joined):
        bits = tensors[one.part].bits
        if one.whole not in tensors and bits is not None:
            tensors[one.whole] = Tensor.of_shape(one.whole, shapes[one.whole], bits, Role.ACTIVATION)
    return Graph(graph.name, tuple(tensors.values()), tuple(operators.values()), graph.states_among(tensors.values()))


def _concatenations(tile: Tile) -> Iterator[Operator]:
    """Yield the concatenations that an operator reads in parts, along the channels."""
    for whole in dict.fromkeys(one.whole for one in tile.joined):
        parts = sorted((one for one in tile.joined if one.whole == whole), key=lambda one: one.first_channel)
        yield Operator(whole, "Concat", tuple(one.part for one in parts), (whole,), attributes={"axis": 1})


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
