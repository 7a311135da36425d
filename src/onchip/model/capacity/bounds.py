"""The capacity that a network needs at least, with its states, and the operators that do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import accumulate
from typing import Final, Self

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.graph import Graph, State
from onchip.ir.operator import InPlace, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.lifetimes.indexed import IndexedProblem, bits, inside_others, overwritable_inputs


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


def places_of_operands(
    indexed: IndexedProblem, operator: int, pinned_in: Sequence[Collection[int]] | None = None
) -> Mapping[int, int] | None:
    """Return a scratchpad number for each operand so that all fit at once, or None if there is no assignment.

    `pinned_in` lists the tensors already resident in each scratchpad; operands among them are not in the result.
    """
    return _Fitting(indexed, operator, pinned_in or ((),) * len(indexed.views)).places()


def operators_that_do_not_fit(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return the operators whose operands do not fit together, in the given order."""
    if len(indexed.views) == 1:
        return tuple(o for o in range(indexed.operator_count) if not _fit_into_the_only_one(indexed, o))
    return tuple(o for o in range(indexed.operator_count) if places_of_operands(indexed, o) is None)


def _fit_into_the_only_one(indexed: IndexedProblem, operator: int) -> bool:
    """Return True if the only scratchpad may hold each operand, and all of them together."""
    inside, written = indexed.inside_others(operator), indexed.write_lists[operator]
    apart = [tensor for tensor in indexed.operand_lists[operator] if tensor not in inside]
    takes_each = all((indexed.written_in if one in written else indexed.read_in)[one] for one in apart)
    return takes_each and indexed.room.holds_all(apart, indexed.room.units_of_all(apart))


class _Fitting:
    """A bin packing search, most constrained and largest operands first; equal scratchpads are tried once.

    An operand that may lie inside another takes no space. A scratchpad's fill is its used units, and True if a tensor
    in it may end short.
    """

    def __init__(self, indexed: IndexedProblem, operator: int, pinned_in: Sequence[Collection[int]]) -> None:
        self._rooms = [view.room for view in indexed.views]
        self._alike = indexed.first_alike
        self._pinned_in = pinned_in
        written = indexed.write_lists[operator]
        inside = indexed.inside_others(operator)
        self._taken_in = {
            tensor: (indexed.written_in if tensor in written else indexed.read_in)[tensor]
            for tensor in indexed.operand_lists[operator]
            if tensor not in inside and not any(tensor in pinned for pinned in pinned_in)
        }
        self._tensors = sorted(self._taken_in, key=lambda t: (self._taken_in[t].bit_count(), -indexed.sizes_bytes[t]))
        self._hopeless: set[tuple[object, ...]] = set()

    def places(self) -> Mapping[int, int] | None:
        held = zip(self._rooms, self._pinned_in, strict=True)
        filled = tuple((room.units_of_all(pinned), room.ends_short(pinned)) for room, pinned in held)
        if not all(room.takes(*full) for room, full in zip(self._rooms, filled, strict=True)):
            return None
        found = self._place(0, filled)
        return None if found is None else dict(zip(self._tensors, found, strict=True))

    def _place(self, index: int, filled: tuple[tuple[int, bool], ...]) -> tuple[int, ...] | None:
        if index == len(self._tensors):
            return ()
        tensor = self._tensors[index]
        if (index, *filled) in self._hopeless:
            return None
        tried = []
        for memory in bits(self._taken_in[tensor]):
            room, alike = self._rooms[memory], (self._alike[memory], *filled[memory])
            units, ends_short = filled[memory]
            full = units + room.units[tensor], ends_short or room.ends_short((tensor,))
            if alike in tried or not room.takes(*full):
                continue
            tried.append(alike)
            rest = self._place(index + 1, (*filled[:memory], full, *filled[memory + 1 :]))
            if rest is not None:
                return (memory, *rest)
        self._hopeless.add((index, *filled))
        return None


@dataclass(frozen=True, slots=True)
class Oversize:
    """A tensor larger than every scratchpad that may hold the operand; `largest` is the largest of these, or None."""

    tensor: Tensor
    operand: Operand
    largest: Memory | None

    @property
    def largest_bytes(self) -> int:
        """Return the largest scratchpad's bytes, or 0 if none may hold the operand."""
        return 0 if self.largest is None else self.largest.capacity_bytes

    @property
    def excess_bytes(self) -> int:
        """Return the bytes that the tensor exceeds the largest scratchpad by, at least 1."""
        return self.tensor.size_bytes - self.largest_bytes


@dataclass(frozen=True, slots=True)
class InfeasibleOperator:
    """An operator whose operands do not fit; they take `need_bytes` packed, of `capacity_bytes` in all scratchpads.

    `oversize` is the operand that exceeds its largest scratchpad by the most bytes; None if each fits alone.
    """

    operator: Operator
    operands: tuple[Tensor, ...]
    need_bytes: int
    capacity_bytes: int
    oversize: Oversize | None

    @property
    def excess_bytes(self) -> int:
        """Return the bytes beyond all scratchpads together, else of the oversize operand, else 0."""
        beyond_all = self.need_bytes - self.capacity_bytes
        return beyond_all if beyond_all > 0 else self.oversize.excess_bytes if self.oversize else 0


def infeasible_operator(problem: Problem) -> InfeasibleOperator | None:
    """Return the first of the operators that do not fit with the greatest need, or None if all fit."""
    need = max(_needs_of_unfit(problem), key=lambda need: need.need_bytes, default=None)
    if need is None:
        return None
    operator = problem.graph.operator[need.operator.name]
    capacity_bytes = sum(memory.capacity_bytes for memory in problem.memories)
    operands, oversize = problem.operands(operator), _oversize(problem, operator)
    return InfeasibleOperator(operator, operands, need.need_bytes, capacity_bytes, oversize)


def _needs_of_unfit(problem: Problem) -> tuple[OperatorNeed, ...]:
    """Return the needs of operators that do not fit, with states updated in place counted once."""
    if problem.graph.states and len(problem.memories) == 1:
        needs = greatest_needs(problem)
        if needs[0].is_proven and needs[0].need_bytes > problem.memories[0].capacity_bytes:
            return needs
    in_place = with_updates_in_place(problem) if problem.graph.states else problem
    unfit = operators_that_do_not_fit(IndexedProblem.of(in_place))
    return tuple(operator_need(in_place, in_place.graph.operators[index]) for index in unfit)


def _oversize(problem: Problem, operator: Operator) -> Oversize | None:
    each = (_beside_largest(problem, operator, tensor) for tensor in problem.operands(operator))
    return max(
        (one for one in each if one.excess_bytes > 0), key=lambda one: (one.excess_bytes, one.tensor.name), default=None
    )


def _beside_largest(problem: Problem, operator: Operator, tensor: Tensor) -> Oversize:
    operand = problem.operand(operator, tensor)
    takes_it = (memory for memory in problem.memories if operand in memory.holds)
    return Oversize(tensor, operand, max(takes_it, key=lambda memory: memory.capacity_bytes, default=None))


_WITHIN = frozenset({Role.ACTIVATION})


def inner_peak_bytes(graph: Graph) -> int:
    """Return the peak bytes of activations and workspaces over the steps of the given order.

    The graph's inputs, outputs and parameters are excluded: they are the operands of the enclosing operator.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for step, operator in enumerate(graph.operators):
        first |= dict.fromkeys(operator.outputs, step)
        last |= dict.fromkeys((*operator.outputs, *operator.inputs), step)
    changes = [0] * (len(graph.operators) + 1)
    for tensor in graph.tensors:
        if tensor.role in _WITHIN and tensor.name in first:
            changes[first[tensor.name]] += tensor.size_bytes
            changes[last[tensor.name] + 1] -= tensor.size_bytes
    live = list(accumulate(changes))
    return max((live[step] + operator.workspace_bytes for step, operator in enumerate(graph.operators)), default=0)
