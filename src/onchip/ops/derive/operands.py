"""Which of an operator's operands a loop nest reads: its input and its weight, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.operator_kinds import nests_of_plugin
from onchip.ops.derive.layers_of import Precision, shapes_of
from onchip.ops.registry.entries import ENTRIES
from onchip.ops.windows.sliding_windows import NoLayerError


@dataclass(frozen=True, slots=True)
class NestOperands:
    """The tensors that a loop nest reads, by name; `weight` is None for one that has none."""

    input: str
    weight: str | None


def nest_operands(graph: Graph, operator: Operator) -> NestOperands:
    """What the loop nests of an operator read; raises NoLayerError for one that has none."""
    shapes = shapes_of(graph, operator)
    names = (operator.outputs[0], *operator.inputs, *operator.parameters)
    if len(names) < 2:
        raise NoLayerError("it reads less than its kind does")
    if operator.kind in ENTRIES:
        places = ENTRIES[operator.kind](operator, shapes).factors
    else:
        outside = nests_of_plugin(operator, tuple(shapes))
        places = () if outside is None else tuple(filter(None, (outside.input, outside.weight)))
    if not places:
        raise NoLayerError("it has no loop nest")
    return NestOperands(names[places[0]], names[places[1]] if len(places) > 1 else None)


def precise(graph: Graph, operator: Operator, layer: Layer, precision: Precision) -> Layer:
    """Return a nest of the operator with the bits that are asked for, or those of the operands that it reads."""
    if precision.bits is not None:
        return precision.of(layer)
    tensor, operands = graph.tensor, nest_operands(graph, operator)
    weight = None if operands.weight is None else tensor[operands.weight]
    return precision.of_tensors(layer, tensor[operands.input], weight, tensor[operator.outputs[0]])


def largest_first(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    """Return tensors in the order in which a nest has them element by element; equal ones stay in theirs."""
    return tuple(sorted(names, key=lambda name: -prod(graph.tensor[name].shape or ())))
