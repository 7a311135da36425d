"""The operands that a loop nest reads: the input and the weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import RIGHT, SEEN_SHAPES, WEIGHT_FACTOR, Operator
from onchip.ir.operator_kinds import nests_of_plugin
from onchip.ir.window import stated_factors
from onchip.ops.contractions.products import MATRIX_KINDS
from onchip.ops.derive.fusable import OF_ROWS
from onchip.ops.derive.layers_of import Precision, shapes_of
from onchip.ops.registry.entries import ENTRIES
from onchip.ops.windows.sliding_windows import NoLayerError


@dataclass(frozen=True, slots=True)
class NestOperands:
    """The names of the tensors that a loop nest reads; `weight` is None without a weight."""

    input: str
    weight: str | None


def nest_operands(graph: Graph, operator: Operator) -> NestOperands:
    """Return the operands of an operator's loop nests; raises NoLayerError if it has none."""
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
    """Return a nest of the operator with the requested bits, or with the bits of its operands."""
    if precision.bits is not None:
        return precision.of(layer)
    tensor, operands = graph.tensor, nest_operands(graph, operator)
    weight = None if operands.weight is None else tensor[operands.weight]
    return precision.of_tensors(layer, tensor[operands.input], weight, tensor[operator.outputs[0]])


def largest_first(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    """Return tensors in the operand order of an element-wise nest: by descending size; ties keep their order."""
    return tuple(sorted(names, key=lambda name: -prod(graph.tensor[name].shape or ())))


def multiplies_rows(graph: Graph, operator: Operator) -> bool:
    """Return True if each row of the output is a row of the only input times one matrix of weights.

    Square matrices may stand in the other order, unless the operator states that its weights are the right factor.
    """
    if operator.kind not in MATRIX_KINDS or len(operator.inputs) != 1 or SEEN_SHAPES in operator.attributes:
        return False
    try:
        operands = nest_operands(graph, operator)
    except (NoLayerError, InputError):
        return False
    if operands.input not in operator.inputs or operands.weight not in operator.parameters:
        return False
    names = operands.input, operands.weight, operator.outputs[0]
    source, weight, written = (graph.tensor[name].shape or () for name in names)
    others = [prod(graph.tensor[name].shape or ()) for name in operator.parameters if name != operands.weight]
    if len(weight) != 2 or min(weight) < 2 or any(size not in (1, written[-1]) for size in others):
        return False
    if len(source) != len(written) or source[:-1] != written[:-1] or operator.attributes.get("transA"):
        return False
    is_left = weight[0] == written[-2] and weight[1] == source[-2] and source[-1] == written[-1]
    return sorted(weight) == sorted((source[-1], written[-1])) and (
        not is_left or operator.kind == "FULLY_CONNECTED" or operator.attributes.get(WEIGHT_FACTOR) == RIGHT
    )


def multiplies_matrices(graph: Graph, operator: Operator) -> bool:
    """Return True if the operator multiplies its two inputs, matrices with the same batch and heads, if any."""
    if operator.kind != "MatMul" or operator.parameters or SEEN_SHAPES in operator.attributes:
        return False
    if len(set(operator.inputs)) != 2 or stated_factors(operator):
        return False
    left, right, written = (graph.tensor[name].shape or () for name in (*operator.inputs, operator.outputs[0]))
    return len(left) > 1 and right[:-1] == (*left[:-2], left[-1]) and written == (*left[:-1], right[-1])


def works_on_rows(graph: Graph, operator: Operator) -> bool:
    """Return True if the operator normalises along the last dimension of its only input."""
    if operator.kind not in OF_ROWS or len(operator.inputs) != 1 or SEEN_SHAPES in operator.attributes:
        return False
    source, written = (graph.tensor[name].shape for name in (operator.inputs[0], operator.outputs[0]))
    axis = operator.attributes.get("axis", -1)
    if source is None or source != written or len(operator.outputs) > 1:
        return False
    return isinstance(axis, int) and axis in (-1, len(source) - 1)
