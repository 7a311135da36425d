"""Decomposition into steps of operators too large to tile; reductions over all elements come first.

A normalisation reads everything that it normalises together before it writes an element. So its statistics become
operators, sums that can be split, and a second pass over the input follows. Attention becomes scores, their softmax,
and sums of values. docs/tiling.md lists the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import (
    NOTHING_STATED,
    SEEN_ORDERS,
    SEEN_PARTS,
    SEEN_SHAPES,
    WRITTEN_ORDERS,
    AttributeValue,
    Operator,
)
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import Shape, integer
from onchip.ops.pointwise import (
    ATTENTION_SCORES,
    ATTENTION_WEIGHTS,
    BY_CHANNEL,
    NORMALISED,
    NORMALISES,
    STATISTICS_OF,
)
from onchip.ops.slicing import ATTENTION_VALUES, GROUP_MEAN, GROUP_MEAN_SQUARE, GROUP_VARIANCE, Outline

ATTENTION: Final = "Attention"
_LEAST_BITS: Final = 32
"""Minimum width of a statistic, the sum of many elements."""
_FIRST_PIXELS: Final = 2
_VALUES: Final = 2
"""Index of the values among the inputs of an attention."""
_CHANGED_SCORES: Final = ("is_causal", "softcap", "qk_matmul_output_mode")
"""Attributes of an attention that changes its scores other than by a mask."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The operators into which one operator is decomposed, in order, and the tensors between them."""

    operators: tuple[Operator, ...]
    tensors: tuple[Tensor, ...]


def with_steps(graph: Graph, steps: dict[str, Steps]) -> Graph:
    """Return the graph with steps in place of the named operators."""
    operators = (
        step
        for operator in graph.operators
        for step in (steps[operator.name].operators if operator.name in steps else (operator,))
    )
    between = (tensor for each in steps.values() for tensor in each.tensors)
    return Graph(graph.name, (*graph.tensors, *between), tuple(operators), graph.states)


def steps_of(operator: Operator, graph: Graph, *, is_model: bool) -> Steps | None:
    """Return the operator in steps; None if its kind has none, or shapes and attributes are insufficient.

    Costs or workspaces that a file states do not apply to steps: an operator that has them is not decomposed.
    """
    has_own_cost = operator.stated != NOTHING_STATED or operator.workspace_bytes
    tensors = [graph.tensor[name] for name in (*operator.reads, *operator.outputs)]
    is_sized = all(tensor.shape is not None and tensor.bits for tensor in tensors)
    if operator.tile is not None or has_own_cost or not is_sized or len(operator.outputs) > 1 or not operator.inputs:
        return None
    outline = Outline(operator, graph, is_model)
    if any(outline.parts) or WRITTEN_ORDERS in operator.attributes:
        return None
    if operator.kind in STATISTICS_OF:
        return _normalisation(outline)
    return _attention(outline) if operator.kind == ATTENTION else None


# Normalisations


def _normalisation(outline: Outline) -> Steps | None:
    """Return the steps of a normalisation: mean and variance, or the mean square; then the normalisation."""
    operator, source = outline.operator, outline.shapes()[0]
    grouped = _grouped(operator, source) if source == outline.written else None
    if grouped is None:
        return None
    shape, first = grouped
    groups = tuple(size if at < first else 1 for at, size in enumerate(shape))
    kinds = (GROUP_MEAN, GROUP_VARIANCE) if STATISTICS_OF[operator.kind] > 1 else (GROUP_MEAN_SQUARE,)
    words = {GROUP_MEAN: "mean", GROUP_VARIANCE: "variance", GROUP_MEAN_SQUARE: "mean square"}
    bits = max(outline.graph.tensor[operator.outputs[0]].bits or 0, _LEAST_BITS)
    found: list[Tensor] = []
    steps: list[Operator] = []
    for kind in kinds:
        tensor = Tensor.of_shape(f"{operator.name} ({words[kind]})", groups, bits, Role.ACTIVATION)
        inputs = (operator.inputs[0], *(one.name for one in found))
        attributes = _seen(outline, [(0, shape), *((None, groups) for _ in found)])
        steps.append(Operator(tensor.name, kind, inputs, (tensor.name,), attributes=attributes))
        found.append(tensor)
    return Steps((*steps, _last(outline, found)), tuple(found))


def _grouped(operator: Operator, source: Shape) -> tuple[Shape, int] | None:
    """Return the source shape with groups as separate dimensions, and the first reduced dimension."""
    if operator.kind in BY_CHANNEL and len(source) <= _FIRST_PIXELS:
        return None
    if operator.kind == "InstanceNormalization":
        return source, _FIRST_PIXELS
    if operator.kind == "GroupNormalization":
        groups = integer(operator, "num_groups", 0)
        if groups < 1 or source[1] % groups:
            return None
        return (source[0], groups, source[1] // groups, *source[2:]), _FIRST_PIXELS
    axis = integer(operator, "axis", -1)
    return (source, axis % len(source)) if source and -len(source) <= axis < len(source) else None


def _last(outline: Outline, found: list[Tensor]) -> Operator:
    """Return the step that writes the operator's output, including everything fused behind it."""
    operator, shapes = outline.operator, outline.shapes()
    between = [(None, tensor.shape or ()) for tensor in found]
    others = [(at, shapes[at]) for at in range(1, len(operator.inputs))]
    attributes = {**_seen(outline, [(0, shapes[0]), *between, *others]), NORMALISES: operator.kind}
    inputs = (operator.inputs[0], *(tensor.name for tensor in found), *operator.inputs[1:])
    return replace(operator, kind=NORMALISED, inputs=inputs, attributes=attributes, in_place=())


def _seen(outline: Outline, operands: Sequence[tuple[int | None, Shape]]) -> dict[str, AttributeValue]:
    """Return the operator's attributes for a step, with the views of its operands.

    An operand of the operator is given by its index and its shape in element order; an intermediate tensor, which has
    no view, by its shape.
    """
    listed = outline.operator.attributes
    attributes = {name: each for name, each in listed.items() if name not in (SEEN_SHAPES, SEEN_ORDERS, SEEN_PARTS)}
    stored = outline.stored_shapes()
    if any(place is not None and shape != stored[place] for place, shape in operands):
        attributes[SEEN_SHAPES] = [[*shape] for _, shape in operands]
    orders = listed.get(SEEN_ORDERS)
    if isinstance(orders, list):
        own: list[AttributeValue] = [
            [*range(len(shape))] if place is None else orders[place] for place, shape in operands
        ]
        attributes[SEEN_ORDERS] = own
    return attributes


# Attention


def _attention(outline: Outline) -> Steps | None:
    """Return the steps of an attention whose operands have a head axis and at most one additive mask."""
    operator, shapes, written = outline.operator, outline.shapes(), outline.written
    if (
        len(operator.inputs) not in (3, 4)
        or operator.parameters
        or any(len(shape) != 4 for shape in (*shapes, written))
    ):
        return None
    queries, keys, values, *masks = shapes
    do_fit = queries[:3] == written[:3] and keys[:3] == values[:3] and values[3] == written[3]
    if not do_fit or (keys[0], keys[3]) != (queries[0], queries[3]) or written[1] % keys[1]:
        return None
    if outline.is_model and any(operator.attributes.get(name) for name in _CHANGED_SCORES):
        return None
    scored = (*written[:3], keys[2])
    if any(size not in (1, whole) for mask in masks for size, whole in zip(mask, scored, strict=True)):
        return None
    bits = outline.graph.tensor[operator.outputs[0]].bits or 0
    scores, weights = (
        Tensor.of_shape(f"{operator.name} ({what})", scored, bits, Role.ACTIVATION) for what in ("scores", "weights")
    )
    return Steps(tuple(_steps_of_attention(outline, scores, weights)), (scores, weights))


def _steps_of_attention(outline: Outline, scores: Tensor, weights: Tensor) -> Iterator[Operator]:
    """Yield the three steps; intermediate tensors have no view."""
    operator, shapes = outline.operator, outline.shapes()
    queries, keys, values, *masks = operator.inputs
    scored = [(at, shapes[at]) for at in range(len(shapes)) if at != _VALUES]
    of_scores = _seen(outline, scored)
    yield Operator(scores.name, ATTENTION_SCORES, (queries, keys, *masks), (scores.name,), attributes=of_scores)
    yield Operator(weights.name, ATTENTION_WEIGHTS, (scores.name,), (weights.name,))
    of_values = _seen(outline, [(None, weights.shape or ()), (_VALUES, shapes[_VALUES])])
    yield replace(operator, kind=ATTENTION_VALUES, inputs=(weights.name, values), attributes=of_values, in_place=())
