"""The inputs that an operator's outputs may overwrite, and the overlaps that result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator


@dataclass(frozen=True, slots=True)
class OverwritableInput:
    """An input, its `ties` (outputs with their byte shift after the input's start), and the tensors `inside` others.

    Inputs of one `group` would take the same bytes of an output, so only one can be overwritten.
    """

    tensor: str
    ties: tuple[tuple[str, int], ...]
    inside: tuple[str, ...]
    group: tuple[str, int]


def overwritable_inputs(operator: Operator, graph: Graph, alignment_bytes: int) -> tuple[OverwritableInput, ...]:
    """Return the overwritable inputs in order of the operator's pairs, without those that violate the alignment."""
    ties: dict[str, list[tuple[str, int]]] = {}
    for pair in operator.in_place:
        if pair.shift_bytes % alignment_bytes == 0:
            ties.setdefault(pair.input, []).append((pair.output, pair.shift_bytes))
    found = []
    for tensor, tied in ties.items():
        first, shift_bytes = tied[0]
        lie_within = graph.tensor[first].size_bytes <= graph.tensor[tensor].size_bytes
        inside = tuple(output for output, _ in tied) if lie_within else (tensor,)
        found.append(OverwritableInput(tensor, tuple(tied), inside, (first, max(0, -shift_bytes))))
    return tuple(found)


def inside_others(inputs: Iterable[OverwritableInput]) -> frozenset[str]:
    """Return the tensors inside others if the first input of each group is overwritten."""
    groups: dict[tuple[str, int], tuple[str, ...]] = {}
    for one in inputs:
        groups.setdefault(one.group, one.inside)
    return frozenset(tensor for tensors in groups.values() for tensor in tensors)
