"""The capacity that a network needs at least, with its states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import Final, Self

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.graph import State
from onchip.ir.operator import InPlace, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.lifetimes.indexed import inside_others, overwritable_inputs


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


MOST_VISITS_FOR_M_R: Final = 500_000
"""Operators visited in the search of M_R, some seconds; beyond it, M_R is an upper bound."""


@dataclass(frozen=True, slots=True)
class OperatorNeed:
    """The bytes that all operands of an operator take together, packed at the alignment.

    `is_proven` is False for an M_R that suffices, but is not proven minimal.
    """

    operator: Operator
    need_bytes: int
    is_proven: bool = True


def packed_bytes(sizes_bytes: Iterable[int], alignment_bytes: int) -> int:
    """Return the minimum arena that holds all sizes at once, each at a multiple of the alignment.

    All but the topmost are rounded up; the size with the most padding goes on top.
    """
    sizes = tuple(sizes_bytes)
    if alignment_bytes == 1:
        return sum(sizes)
    padding = [-size % alignment_bytes for size in sizes]
    return sum(sizes) + sum(padding) - max(padding, default=0)


def operator_need(problem: Problem, operator: Operator) -> OperatorNeed:
    """Return an operator's need in bytes in the problem's first scratchpad, with overwritable inputs overwritten."""
    alignment_bytes = problem.memories[0].alignment_bytes
    inside = inside_others(overwritable_inputs(operator, problem.graph, alignment_bytes))
    sizes = [tensor.size_bytes for tensor in problem.operands(operator) if tensor.name not in inside]
    return OperatorNeed(operator, packed_bytes(sizes, alignment_bytes))


def greatest_need(problem: Problem) -> OperatorNeed:
    """Return M_R, the minimum capacity of one scratchpad in which every operator can run, and the first to set it.

    A state that its writer updates in place may stay on the chip: then it takes its bytes once, but in every step.
    """
    return greatest_needs(problem)[0]


def greatest_needs(problem: Problem) -> tuple[OperatorNeed, ...]:
    """Return M_R with every operator that sets it, in the given order."""
    return _LeastRoom(problem).needs()


def states_of_least_need(problem: Problem) -> tuple[State, ...]:
    """Return the states that stay on the chip in a scratchpad of M_R bytes."""
    search = _LeastRoom(problem)
    search.needs()
    return search.kept


class _LeastRoom:
    """Branch and bound over the states kept on chip: only states that the neediest operator updates can lower M_R."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._visits_left = MOST_VISITS_FOR_M_R
        self._alignment_bytes = problem.memories[0].alignment_bytes
        self._alone = [operator_need(problem, operator) for operator in problem.graph.operators]
        self._best_bytes, self.kept = max(need.need_bytes for need in self._alone), tuple[State, ...]()
        self._updated: dict[str, list[State]] = {}
        for state in states_updated_in_place(problem):
            self._updated.setdefault(problem.graph.producer[state.new].name, []).append(state)

    def needs(self) -> tuple[OperatorNeed, ...]:
        self._search((), frozenset())
        rests = [self._rest_bytes(self.kept, one) for one in self._alone]
        most = max(rests)
        neediest = (one.operator for one, rest in zip(self._alone, rests, strict=True) if rest == most)
        return tuple(OperatorNeed(operator, self._best_bytes, self._visits_left > 0) for operator in neediest)

    def _search(self, kept: tuple[State, ...], excluded: frozenset[State]) -> None:
        """Try all choices that keep these states and none of the excluded ones, within the visit limit."""
        self._visits_left -= len(self._alone) if kept else 0
        if self._visits_left <= 0:
            return
        rests = [self._rest_bytes(kept, one) for one in self._alone]
        neediest = self._alone[rests.index(max(rests))].operator
        need_bytes = self._arena_bytes(kept, max(rests))
        if need_bytes < self._best_bytes:
            self._best_bytes, self.kept = need_bytes, kept
        for state in self._updated.get(neediest.name, ()):
            if state in kept or state in excluded:
                continue
            longer = (*kept, state)
            if self._bound(longer, excluded) < self._best_bytes and order_of_kept_states(self._problem, longer):
                self._search(longer, excluded)
            excluded |= self._alike(state)

    def _bound(self, kept: tuple[State, ...], excluded: frozenset[State]) -> int:
        """Return a lower bound on M_R: each operator alone with all states kept that it updates and may keep."""
        bound = 0
        for one in self._alone:
            updated = self._updated.get(one.operator.name, ())
            most = (*kept, *(state for state in updated if state not in kept and state not in excluded))
            bound = max(bound, self._arena_bytes(most, self._rest_bytes(most, one)))
        return bound

    def _arena_bytes(self, kept: tuple[State, ...], rest_bytes: int) -> int:
        """Return the minimum arena of the kept states and `rest_bytes` others."""
        sizes = {state.old: self._problem.graph.tensor[state.old].size_bytes for state in kept}
        return StateLayout.of_least_arena(sizes, self._alignment_bytes, rest_bytes).arena_bytes(sizes)

    def _rest_bytes(self, kept: tuple[State, ...], alone: OperatorNeed) -> int:
        """Return the packed bytes of an operator's operands, without those of kept states."""
        names = {name for state in kept for name in (state.old, state.new)}
        if not names or names.isdisjoint((*alone.operator.inputs, *alone.operator.outputs)):
            return alone.need_bytes
        operator = without_pairs_of_states(alone.operator, kept)
        inside = inside_others(overwritable_inputs(operator, self._problem.graph, self._alignment_bytes)) | names
        operands = (tensor for tensor in self._problem.operands(operator) if tensor.name not in inside)
        return packed_bytes((tensor.size_bytes for tensor in operands), self._alignment_bytes)

    def _alike(self, state: State) -> frozenset[State]:
        """Return the states with equal size and equal readers and updates."""
        graph = self._problem.graph

        def use(one: State) -> tuple[object, ...]:
            pairs = any({one.old, one.new} & {pair.input, pair.output} for pair in graph.producer[one.new].in_place)
            readers = (tuple(reader.name for reader in graph.readers[name]) for name in (one.old, one.new))
            return (one.old if pairs else None, graph.tensor[one.old].size_bytes, *readers)

        return frozenset(one for one in self._updated[graph.producer[state.new].name] if use(one) == use(state))


def compulsory_bytes(problem: Problem) -> int:
    """Return the bytes of the first load of each input that an operator reads and of the write of each output."""
    return sum(tensor.size_bytes for tensor in (*_loaded(problem), *_written(problem)))


def compulsory_bytes_without_states(problem: Problem) -> int:
    """Return the compulsory bytes of a plan in which all states stay on the chip."""
    names = {name for state in problem.graph.states for name in (state.old, state.new)}
    moved = (*_loaded(problem), *_written(problem))
    return sum(tensor.size_bytes for tensor in moved if tensor.name not in names)


def compulsory_cost(problem: Problem) -> int:
    """Return the compulsory cost in the objective's unit, each transfer at its cheapest scratchpad."""
    names = [memory.name for memory in problem.memories]
    loads = (min(problem.transfer_cost(tensor, DRAM, name) for name in names) for tensor in _loaded(problem))
    writes = (min(problem.transfer_cost(tensor, name, DRAM) for name in names) for tensor in _written(problem))
    return sum(loads) + sum(writes)


def _loaded(problem: Problem) -> list[Tensor]:
    read = {name for operator in problem.graph.operators for name in operator.reads}
    roles = (Role.INPUT, Role.PARAMETER)
    return [tensor for tensor in problem.counted_tensors if tensor.role in roles and tensor.name in read]


def _written(problem: Problem) -> list[Tensor]:
    return [tensor for tensor in problem.counted_tensors if tensor.role is Role.OUTPUT]


@dataclass(frozen=True, slots=True)
class StateLayout:
    """Offsets of kept states in a scratchpad; other tensors get the range `[start_bytes, stop_bytes)`.

    States start at address 0, except that one may be behind all else. No tensor crosses a kept state, so states lose
    nothing by lying together. `offsets_bytes` is by the names of the old tensors.
    """

    offsets_bytes: Mapping[str, int]
    start_bytes: int
    stop_bytes: int

    @classmethod
    def of(cls, sizes_bytes: Mapping[str, int], memory: Memory) -> Self:
        """Return the layout that leaves the largest range: a state may end at an unaligned scratchpad end."""
        alignment = memory.alignment_bytes
        most_beyond = memory.capacity_bytes % alignment
        top = next((name for name, size in sizes_bytes.items() if (size - 1) % alignment < most_beyond), None)
        if top is None:
            return cls._stacked(sizes_bytes, None, alignment, memory.capacity_bytes)
        stop = (memory.capacity_bytes - sizes_bytes[top]) // alignment * alignment
        return cls._stacked(sizes_bytes, top, alignment, stop)

    @classmethod
    def of_least_arena(cls, sizes_bytes: Mapping[str, int], alignment_bytes: int, rest_bytes: int) -> Self:
        """Return the layout around `rest_bytes` other bytes with the lowest highest address."""
        below = cls._stacked(sizes_bytes, None, alignment_bytes, 0)
        padding = {name: -size % alignment_bytes for name, size in sizes_bytes.items()}
        top = max(padding, key=padding.__getitem__, default=None)
        if top is None or padding[top] <= -rest_bytes % alignment_bytes:
            return cls(below.offsets_bytes, below.start_bytes, below.start_bytes + rest_bytes)
        start = below.start_bytes - sizes_bytes[top] - padding[top]
        return cls._stacked(sizes_bytes, top, alignment_bytes, start + _up(rest_bytes, alignment_bytes))

    @classmethod
    def _stacked(cls, sizes_bytes: Mapping[str, int], top: str | None, alignment: int, stop_bytes: int) -> Self:
        offsets, start = {}, 0
        for name, size in sizes_bytes.items():
            offsets[name] = stop_bytes if name == top else start
            start += 0 if name == top else _up(size, alignment)
        return cls(offsets, start, stop_bytes)

    @property
    def rest_bytes(self) -> int:
        """Return the bytes left for other tensors; negative if the states alone exceed the capacity."""
        return self.stop_bytes - self.start_bytes

    def arena_bytes(self, sizes_bytes: Mapping[str, int]) -> int:
        """Return the highest end address of a state or of the range for others."""
        ends = (offset + sizes_bytes[name] for name, offset in self.offsets_bytes.items())
        return max(self.stop_bytes, *ends) if self.offsets_bytes else self.stop_bytes


def _up(size_bytes: int, alignment_bytes: int) -> int:
    return -(-size_bytes // alignment_bytes) * alignment_bytes
