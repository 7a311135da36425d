"""Which of an operator's operands a loop nest reads: its input and its weight, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.operator_kinds import nests_of_plugin
from onchip.ops.contractions.contractions import element_places
from onchip.ops.derive.layers_of import REDUCTIONS, shapes_of
from onchip.ops.registry.entries import ENTRIES
from onchip.ops.windows.sliding_windows import NoLayerError, Shape


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
    outside = nests_of_plugin(operator, tuple(shapes))
    source, weight = (outside.input, outside.weight) if outside else _places(operator, shapes)
    return NestOperands(names[source], None if weight is None else names[weight])


def largest_first(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    """Return tensors in the order in which a nest has them element by element; equal ones stay in theirs."""
    return tuple(sorted(names, key=lambda name: -prod(graph.tensor[name].shape or ())))


def _places(operator: Operator, shapes: Sequence[Shape]) -> tuple[int, int | None]:
    """Where input and weight stand among the operands, the output at place 0."""
    kind = operator.kind
    if kind in ENTRIES:
        source, weight, *_ = (*ENTRIES[kind](operator, shapes).factors, None)
        return source, weight
    if kind in REDUCTIONS | {"LRN"}:
        return 1, None
    if kind == "Einsum":
        return 1, 2 if len(shapes) > 2 else None
    return _of_elements(operator, shapes)


def _of_elements(operator: Operator, shapes: Sequence[Shape]) -> tuple[int, int | None]:
    """Of two operands element by element the larger is the input; a single element beside it is a constant."""
    first, *others = element_places(operator, shapes)
    is_weight = bool(others) and (prod(shapes[others[0]]) > 1 or prod(shapes[0]) == 1)
    return first, others[0] if is_weight else None
