"""The loop nests of one operator of a network, tiled or not, with the bits of its operands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.contractions.attention import ATTENTION
from onchip.ops.contractions.products import PACKED_PRODUCT
from onchip.ops.derive.layers_of import PLAIN_BITS, Precision, layers_of
from onchip.ops.derive.operands import precise
from onchip.ops.sequences.recurrences import RECURRENT

_OF_OTHER_TENSORS: Final = RECURRENT | ATTENTION | {PACKED_PRODUCT}
"""Kinds whose nests read more than the network's tensors: elements are as wide as those of the first tensor read."""


def nests_of_operator(graph: Graph, operator: Operator, precision: Precision) -> Iterator[tuple[Layer, int]]:
    """Yield the loop nests of an operator, of a tile those of the whole operator, with their number of executions.

    Yields nothing if no loop nest describes the operator.
    """
    alone = whole_operator(graph, operator)
    (whole,) = alone.operators
    found = layers_of(alone)
    if not found.layers:
        return
    for name, layer in found.layers.items():
        if whole.kind in _OF_OTHER_TENSORS:
            source = alone.tensor[whole.reads[0]]
            own = precision.of_tensors(layer, source, None, alone.tensor[whole.outputs[0]])
        else:
            own = precise(alone, whole, layer, precision)
        yield own, found.times.get(name, 1)


def whole_operator(graph: Graph, operator: Operator) -> Graph:
    """Return an operator as a separate network; a tile becomes its whole operator, as wide as the tile's operands."""
    tile = operator.tile
    if tile is None:
        names = dict.fromkeys((*operator.reads, *operator.outputs))
        return _alone({name: graph.tensor[name] for name in names}, replace(operator, in_place=()))
    bits: dict[str, int] = {}
    for name in (*operator.reads, *operator.outputs):
        tensor = graph.tensor[name]
        bits.setdefault(tensor.part_of or name, tensor.bits or PLAIN_BITS)
    widest = max(bits.values())
    tensors = {
        name: Tensor.of_shape(name, shape, bits.get(name, widest), Role.ACTIVATION)
        for name, shape in tile.shape.items()
    }
    whole = replace(
        operator,
        inputs=tile.inputs,
        parameters=tile.parameters,
        outputs=tile.outputs,
        tile=None,
        in_place=(),
    )
    return _alone(tensors, whole)


def _alone(tensors: dict[str, Tensor], operator: Operator) -> Graph:
    roles = dict.fromkeys(operator.outputs, Role.OUTPUT) | dict.fromkeys(operator.parameters, Role.PARAMETER)
    named = (replace(tensor, role=roles.get(tensor.name, Role.INPUT)) for tensor in tensors.values())
    return Graph(operator.name, tuple(named), (operator,))
