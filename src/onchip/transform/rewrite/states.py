"""States declared by the reader of a network: inputs that are outputs of the previous inference."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Final

from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.state import State

UPDATES: Final = frozenset(
    {
        *("ScatterND", "ScatterElements", "TensorScatter"),
        *("index_put", "index_copy", "scatter", "slice_scatter", "select_scatter"),
    }
)
"""Kinds, of ONNX and of torch, that overwrite some elements of their first input."""


def state_written_by(writer: Operator, old: str, new: str) -> State:
    """Return the state; an operator that updates its first input may do so in place."""
    return State(old, new, in_place=writer.kind in UPDATES and writer.inputs[:1] == (old,))


def with_states(graph: Graph, declared: Mapping[str, str], listed: Container[str] | None = None) -> Graph:
    """Return the graph with the declared states, from each input to the output that is its next value.

    States that the graph already has are kept. `listed` are the names that the file lists as outputs, or None if every
    name is one. Raises GraphError unless each pair is a network input and a network output of equal size.
    """
    states = []
    shown = {alias: tensor.name for tensor in graph.tensors for alias in tensor.aliases}
    for old, said in declared.items():
        new = shown.get(said, said)
        if new not in graph.producer:
            what = f"no operator writes {said!r}, its next value"
            raise GraphError(what, place=f"state {old!r}", expected="a network output, as --state INPUT=OUTPUT")
        state = state_written_by(graph.producer[new], old, new)
        states.append(state if new == said or listed is None or new in listed else replace(state, alias=said))
    known = {(state.old, state.new) for state in graph.states}
    return replace(graph, states=(*graph.states, *(one for one in states if (one.old, one.new) not in known)))
