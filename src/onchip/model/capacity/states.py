"""States that may stay on the chip: their scratchpads, the operator order they require, and their transfer cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.operator import InPlace, Operator
from onchip.ir.state import State


def states_updated_in_place(problem: Problem) -> tuple[State, ...]:
    """Return the states that may stay and then need their bytes once, not twice, in their writer's step.

    Other states need no fewer bytes in any step if they stay.
    """
    graph = problem.graph
    return tuple(
        state
        for state in graph.states
        if state.in_place
        and state.old in graph.producer[state.new].inputs
        and InPlace(state.old, state.new) not in graph.producer[state.new].in_place
        and memories_of_state(problem, state)
    )


def with_updates_in_place(problem: Problem) -> Problem:
    """Return a relaxation without states: each writer may overwrite the old value of a state that it updates.

    No plan needs fewer bytes in a step: a state that stays has its bytes in every step.
    """
    graph, pairs = problem.graph, dict[str, list[InPlace]]()
    for state in states_updated_in_place(problem):
        pairs.setdefault(graph.producer[state.new].name, []).append(InPlace(state.old, state.new))
    operators = tuple(replace(one, in_place=(*pairs.get(one.name, ()), *one.in_place)) for one in graph.operators)
    return replace(problem, graph=replace(graph, operators=operators, states=()))


def order_of_kept_states(problem: Problem, kept: Iterable[State]) -> tuple[Operator, ...]:
    """Return the operators so that all readers of an old value precede the writer of the new one.

    Otherwise they keep the graph's order. Empty if there is no such order.
    """
    graph = problem.graph
    befores = {one.name: {graph.producer[n].name for n in one.reads if n in graph.producer} for one in graph.operators}
    for state in kept:
        writer = graph.producer[state.new].name
        befores[writer] |= {reader.name for reader in graph.readers[state.old]} - {writer}
    number = {operator.name: index for index, operator in enumerate(graph.operators)}
    sorter = TopologicalSorter(befores)
    try:
        sorter.prepare()
    except CycleError:
        return ()
    ordered, ready = [], list[int]()
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, number[name])
        operator = graph.operators[heappop(ready)]
        ordered.append(operator)
        sorter.done(operator.name)
    return tuple(ordered)


def without_pairs_of_states(operator: Operator, kept: Iterable[State]) -> Operator:
    """Return the operator without in-place pairs of states that stay."""
    if not operator.in_place:
        return operator
    names = {name for state in kept for name in (state.old, state.new)}
    return replace(
        operator, in_place=tuple(one for one in operator.in_place if names.isdisjoint((one.input, one.output)))
    )


def loaded_cost(problem: Problem, state: State) -> int:
    """Return the least cost of loading a state (if it is read) and writing it back."""
    old, new = problem.graph.tensor[state.old], problem.graph.tensor[state.new]
    names = [memory.name for memory in problem.memories]
    store = min(problem.transfer_cost(new, name, DRAM) for name in names)
    if not problem.graph.readers[state.old]:
        return store
    return store + min(problem.transfer_cost(old, DRAM, name) for name in names)


def memories_of_state(problem: Problem, state: State) -> tuple[Memory, ...]:
    """Return the scratchpads in which the state may stay permanently: those that hold all its uses.

    Empty if its next value is also a network output, or if its writer reads the old value and cannot overwrite it. Also
    empty if the old value is read after the new one is written.
    """
    if set(problem.graph.tensor[state.new].aliases) - {state.alias} or not _may_be_overwritten(problem, state):
        return ()
    is_read = bool(problem.graph.readers[state.old] or problem.graph.readers[state.new])
    operands = {Operand.OUTPUT, Operand.INPUT} if is_read else {Operand.OUTPUT}
    return tuple(memory for memory in problem.memories if operands <= set(memory.holds))


def _may_be_overwritten(problem: Problem, state: State) -> bool:
    """Return True if all reads of the old value may precede the write of the new one."""
    graph = problem.graph
    writer = graph.producer[state.new]
    readers = graph.readers[state.old]
    if writer in readers and not state.in_place and InPlace(state.old, state.new) not in writer.in_place:
        return False
    others = {reader.name for reader in readers} - {writer.name}
    if problem.order is Order.GIVEN:
        before = graph.operators[: graph.operators.index(writer)]
        return others <= {operator.name for operator in before}
    return others.isdisjoint(_followers(problem, writer.name))


def _followers(problem: Problem, name: str) -> frozenset[str]:
    """Return the names of the operators that cannot run before another."""
    graph, found, waiting = problem.graph, set[str](), [name]
    while waiting:
        for output in graph.operator[waiting.pop()].outputs:
            for reader in graph.readers[output]:
                if reader.name not in found:
                    found.add(reader.name)
                    waiting.append(reader.name)
    return frozenset(found)
