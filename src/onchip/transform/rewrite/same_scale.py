"""Removal of quantisations with the scale of the preceding dequantisation, which reproduce the same integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES, AttributeValue, Operator
from onchip.ir.tensor import Role

QUANTISE: Final = frozenset({"QuantizeLinear", "com.microsoft::QuantizeLinear"})
DEQUANTISE: Final = frozenset({"DequantizeLinear", "com.microsoft::DequantizeLinear"})
_SCALE: Final = "scale"
_GREATEST_BITS: Final = 16
"""Most bits of integers that survive a round trip through float32 at any scale."""


@dataclass(frozen=True, slots=True)
class SameScaleFold:
    """The transform that removes such quantisations, which files write around views of a map.

    Their readers then read the integers themselves, and list the viewed shapes if these differ.
    """

    def __call__(self, graph: Graph) -> Graph:
        """Return the same network, with the same inputs, outputs and parameters."""
        dropped = {one.outputs[0]: source for one in graph.operators if (source := _source(graph, one)) is not None}
        if not dropped:
            return graph
        same = {name: _origin(name, dropped) for name in dropped}
        kept = [one for one in graph.operators if dropped.keys().isdisjoint(one.outputs)]
        tensors = tuple(tensor for tensor in graph.tensors if tensor.name not in dropped)
        operators = tuple(_reading(graph, one, same) for one in kept)
        return Graph(graph.name, tensors, operators, graph.states_among(tensors))


def _source(graph: Graph, operator: Operator) -> str | None:
    """Return the integers that a quantisation reproduces, or None if it makes other ones."""
    if operator.kind not in QUANTISE or len(operator.inputs) != 1 or len(operator.members) > 1:
        return None
    before = graph.producer.get(operator.inputs[0])
    if before is None or before.kind not in DEQUANTISE or len(before.inputs) != 1 or len(before.members) > 1:
        return None
    made, source = graph.tensor[operator.outputs[0]], graph.tensor[before.inputs[0]]
    alike = made.bits == source.bits and made.size_bytes == source.size_bytes and (made.bits or 64) <= _GREATEST_BITS
    is_free = made.role is Role.ACTIVATION and made.part_of is None
    return source.name if alike and is_free and _have_one_scale(graph, before, operator) else None


def _have_one_scale(graph: Graph, before: Operator, after: Operator) -> bool:
    """Return True if both state the same scales, along the same axes if there are several."""
    stated = [{**one.attributes, SEEN_SHAPES: None} for one in (before, after)]
    if before.parameters != after.parameters or stated[0] != stated[1]:
        return False
    if not before.parameters:
        return _SCALE in before.attributes
    is_single = all(_elements(graph, name) == 1 for name in before.parameters)
    shapes = [graph.tensor[name].shape for name in (before.inputs[0], after.outputs[0])]
    return is_single or (shapes[0] == shapes[1] and SEEN_SHAPES not in before.attributes)


def _elements(graph: Graph, name: str) -> int | None:
    shape = graph.tensor[name].shape
    return None if shape is None else prod(shape)


def _origin(name: str, dropped: Mapping[str, str]) -> str:
    while name in dropped:
        name = dropped[name]
    return name


def _reading(graph: Graph, operator: Operator, same: Mapping[str, str]) -> Operator:
    """Return the operator with the integers in place of the removed tensors."""
    if same.keys().isdisjoint(operator.inputs):
        return operator
    inputs = tuple(same.get(name, name) for name in operator.inputs)
    attributes: dict[str, AttributeValue] = dict(operator.attributes)
    shapes = [graph.tensor[name].shape for name in operator.inputs]
    stored = [graph.tensor[name].shape for name in inputs]
    if SEEN_SHAPES not in attributes and shapes != stored and None not in shapes:
        attributes[SEEN_SHAPES] = [list(shape or ()) for shape in shapes]
    return replace(operator, inputs=inputs, attributes=attributes)
