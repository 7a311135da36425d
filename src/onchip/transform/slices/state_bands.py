"""State of which the operators are in tiles: bands of the old tensor and of the new one, pair by pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.state import State
from onchip.transform.slices.bands import Bands


def cuts_of_states_alike(
    graph: Graph, cuts: Mapping[str, Sequence[AbstractSet[int]]]
) -> dict[str, Sequence[AbstractSet[int]]]:
    """Return the cuts of the tensors of states that are not cut alike, each with those of the other one, too.

    Tensors of other shapes or elements than their partners are not among them.
    """
    found: dict[str, Sequence[AbstractSet[int]]] = {}
    for state in graph.states:
        old, new = graph.tensor[state.old], graph.tensor[state.new]
        if (old.shape, old.bits) == (new.shape, new.bits) and list(cuts[state.old]) != list(cuts[state.new]):
            both = [one | other for one, other in zip(cuts[state.old], cuts[state.new], strict=True)]
            found |= {state.old: both, state.new: both}
    return found


def states_of_bands(graph: Graph, bands: Mapping[str, Bands], operators: Sequence[Operator]) -> tuple[State, ...]:
    """Return the states whose tensors are whole, and those that bands of both make, which are as many and as large."""
    return tuple(each for state in graph.states for each in _states(state, bands, operators))


def _states(state: State, bands: Mapping[str, Bands], operators: Sequence[Operator]) -> Iterator[State]:
    old, new = bands[state.old], bands[state.new]
    if old.is_whole and new.is_whole:
        yield state
    elif old.edges == new.edges and old.base.bits == new.base.bits:
        names = {band.name for band in old.all}
        read_by_writer = {name: names & {*each.reads} for each in operators for name in each.outputs}
        place = new.base.aliases.index(state.alias) if state.alias in new.base.aliases else None
        for one, other in zip(old.all, new.all, strict=True):
            in_place = state.in_place and read_by_writer[other.name] == {one.name}
            alias = "" if place is None else other.aliases[place]
            yield replace(state, old=one.name, new=other.name, in_place=in_place, alias=alias)
