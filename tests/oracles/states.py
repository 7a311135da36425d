"""The least traffic, or arena, of a network with states: each stays at each offset, or is loaded and written."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product

from onchip.answer.problem import Problem
from onchip.ir.graph import Graph, State
from onchip.ir.operator import InPlace
from onchip.ir.tensor import Role, Tensor
from oracles.shared_bytes import Patience, TinyMachine, random_sharing_graph, subsets


def random_graph_with_states(seed: int, operators: int = 4, greatest_size: int = 3) -> Graph:
    """Return a seeded graph: one or two outputs are kept, and read by some operators in the next inference."""
    chance = random.Random(seed + 31)
    graph = random_sharing_graph(seed, operators, greatest_size)
    if chance.random() < 0.5:
        graph = replace(graph, operators=tuple(replace(one, in_place=()) for one in graph.operators))
    outputs = list(graph.with_role(Role.OUTPUT))
    for at, new in enumerate(chance.sample(outputs, min(len(outputs), chance.choice((1, 1, 2))))):
        old = Tensor(f"state{at}", new.size_bytes, Role.INPUT)
        readers = chance.sample(graph.operators, chance.choice((0, 1, 1, 2)))
        made = tuple(replace(one, inputs=(*one.inputs, old.name)) if one in readers else one for one in graph.operators)
        states = (*graph.states, State(old.name, new.name, in_place=chance.random() < 0.4))
        graph = replace(graph, tensors=(old, *graph.tensors), operators=made, states=states)
    return graph


def least_traffic_with_states(problem: Problem) -> int | None:
    """Return the least bytes beyond the compulsory; each state stays on chip, or is loaded and written.

    Raises TooLargeError if trying everything would take minutes.
    """
    capacity, patience = problem.memories[0].capacity_bytes, Patience()
    costs = []
    for kept in _kept(problem, capacity):
        machine = TinyMachine(problem, with_addresses=True, may_move=True, kept=kept, patience=patience)
        rest = machine.least(capacity)
        if rest is not None:
            costs.append(
                rest + sum(_moved_bytes(problem.graph, one) for one in problem.graph.states if one not in kept)
            )
    return min(costs, default=None)


def least_arena_with_states(problem: Problem) -> int | None:
    """Return the least arena of a plan with only compulsory traffic and the transfers of states that do not stay.

    Raises TooLargeError if trying everything would take minutes.
    """
    patience = Patience()
    for capacity in range(1, problem.memories[0].capacity_bytes + 1):
        for kept in _kept(problem, capacity):
            machine = TinyMachine(problem, with_addresses=True, may_move=False, kept=kept, patience=patience)
            if machine.least(capacity) is not None:
                return capacity
    return None


def _kept(problem: Problem, capacity: int) -> Iterator[Mapping[State, int]]:
    """Yield every choice of states that may stay, at all offsets without overlaps."""
    graph, alignment = problem.graph, problem.memories[0].alignment_bytes
    sizes = {state: graph.tensor[state.old].size_bytes for state in graph.states}
    for chosen in subsets(state for state in graph.states if _may_be_overwritten(graph, state)):
        for offsets in product(*(range(0, capacity - sizes[one] + 1, alignment) for one in chosen)):
            kept = dict(zip(chosen, offsets, strict=True))
            if all(at + sizes[a] <= b or b + sizes[o] <= at for (a, at), (o, b) in combinations(kept.items(), 2)):
                yield kept


def _may_be_overwritten(graph: Graph, state: State) -> bool:
    writer = graph.producer[state.new]
    return state.in_place or state.old not in writer.inputs or InPlace(state.old, state.new) in writer.in_place


def _moved_bytes(graph: Graph, state: State) -> int:
    is_read = any(state.old in operator.inputs for operator in graph.operators)
    return graph.tensor[state.new].size_bytes * (1 + is_read)
