"""The least traffic, or arena, if outputs may overwrite inputs: every state of a tiny scratchpad.

A state is the executed operators, the residencies, and the tensors with a copy in DRAM. Before an operator runs any
tensor may be evicted; missing inputs are loaded at any offset. An output is placed at any free offset, or over one or
several inputs paired with it, which leave when the operator has run. States are visited once, cheapest first; there is
no other optimisation. States of a network may stay at a fixed offset throughout.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations, count
from typing import TypeVar

from onchip.answer.problem import Order, Problem
from onchip.ir.graph import Graph
from onchip.ir.graph import State as Kept
from onchip.ir.operator import InPlace, Operator
from onchip.ir.tensor import Role, Tensor
from oracles.packing import TooLargeError

Places = frozenset[tuple[str, int]]
"""Pairs of (tensor, offset in bytes); without addresses every offset is 0."""


def random_sharing_graph(seed: int, operators: int = 5, greatest_size: int = 3) -> Graph:
    """Return a seeded graph: half of the operators compute in place, some join or split tensors."""
    chance = random.Random(seed)
    tensors = [Tensor(f"in{at}", chance.randint(1, greatest_size), Role.INPUT) for at in range(chance.randint(1, 2))]
    made: list[Operator] = []
    for at in range(chance.randint(2, operators)):
        kind = chance.choice(("plain", "in place", "in place", "join", "part"))
        names = [tensor.name for tensor in tensors[-4:]]
        inputs = tuple(dict.fromkeys(chance.choice(names) for _ in range(chance.choice((1, 2, 2)))))
        outputs, pairs = _written(kind, at, [one for one in tensors if one.name in inputs], chance)
        tensors += outputs
        made.append(Operator(f"op{at}", "Op", inputs, tuple(one.name for one in outputs), in_place=tuple(pairs)))
    read = {name for operator in made for name in operator.reads}
    is_output = [one.role is not Role.INPUT and (one.name not in read or chance.random() < 0.1) for one in tensors]
    whole = tuple(
        Tensor(one.name, one.size_bytes, Role.OUTPUT if is_one else one.role)
        for one, is_one in zip(tensors, is_output, strict=True)
    )
    return Graph(f"sharing{seed}", whole, tuple(made))


def _written(kind: str, at: int, inputs: list[Tensor], chance: random.Random) -> tuple[list[Tensor], list[InPlace]]:
    name = f"t{at}"
    if kind == "join":
        starts = [sum(one.size_bytes for one in inputs[:place]) for place in range(len(inputs))]
        pairs = [InPlace(one.name, name, -start) for one, start in zip(inputs, starts, strict=True)]
        return [Tensor(name, sum(one.size_bytes for one in inputs), Role.ACTIVATION)], pairs
    whole = chance.choice(inputs)
    if kind == "part" and whole.size_bytes > 1:
        cut = chance.randint(1, whole.size_bytes - 1)
        parts = [Tensor(name, cut, Role.ACTIVATION), Tensor(f"{name}b", whole.size_bytes - cut, Role.ACTIVATION)]
        starts = [0, cut]
        if chance.random() < 0.3:
            parts, starts = parts[1:], starts[1:]
        return parts, [InPlace(whole.name, one.name, start) for one, start in zip(parts, starts, strict=True)]
    if kind == "in place":
        pairs = [InPlace(one.name, name) for one in inputs if one.size_bytes == whole.size_bytes]
        return [Tensor(name, whole.size_bytes, Role.ACTIVATION)], pairs
    return [Tensor(name, chance.randint(1, 3), Role.ACTIVATION)], []


@dataclass(frozen=True, slots=True)
class State:
    """The state between two operators."""

    done: frozenset[str]
    places: Places
    stored: frozenset[str]


def least_shared_traffic(problem: Problem, *, with_addresses: bool = True) -> int | None:
    """Return the least non-compulsory bytes of a plan for the only scratchpad; None if there is none.

    Raises TooLargeError if trying everything would take minutes.
    """
    return TinyMachine(problem, with_addresses, may_move=True).least(problem.memories[0].capacity_bytes)


def least_shared_arena(problem: Problem) -> int | None:
    """Return the least arena of a plan with compulsory traffic only; None if the capacity is too small."""
    machine = TinyMachine(problem, with_addresses=True, may_move=False)
    capacities = range(1, problem.memories[0].capacity_bytes + 1)
    return next((capacity for capacity in capacities if machine.least(capacity) is not None), None)


@dataclass(slots=True)
class Patience:
    """The number of places that machines may still try in total; more would take minutes."""

    tries: int = 10_000_000

    def try_one(self) -> None:
        """Count one try; raises TooLargeError if none are left."""
        self.tries -= 1
        if self.tries < 0:
            raise TooLargeError


@dataclass(slots=True)
class TinyMachine:
    """A machine that runs operators in turn; raises TooLargeError when its patience is exhausted."""

    problem: Problem
    with_addresses: bool
    may_move: bool
    kept: Mapping[Kept, int] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)
    graph: Graph = field(init=False)
    capacity: int = field(default=0, init=False)
    settled: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.graph = self.problem.graph
        self.settled = frozenset(name for state in self.kept for name in (state.old, state.new))

    def least(self, capacity: int) -> int | None:
        """Return the least cost, by Dijkstra's algorithm over all states."""
        self.capacity = capacity
        start = State(frozenset(), frozenset(), frozenset())
        number = count()
        least, waiting = {start: 0}, [(0, next(number), start)]
        while waiting:
            cost, _, state = heapq.heappop(waiting)
            if cost > least[state]:
                continue
            if len(state.done) == len(self.graph.operators):
                return cost
            for more, following in self._steps(state):
                if cost + more < least.get(following, cost + more + 1):
                    least[following] = cost + more
                    heapq.heappush(waiting, (cost + more, next(number), following))
        return None

    def _steps(self, state: State) -> Iterator[tuple[int, State]]:
        for at, operator in enumerate(self.graph.operators):
            is_next = at == len(state.done) if self.problem.order is Order.GIVEN else operator.name not in state.done
            producers = (self.graph.producer.get(name) for name in operator.inputs)
            is_ready = all(one is None or one.name in state.done for one in producers)
            if is_next and is_ready and self._nobody_reads_what_it_replaces(state, operator):
                yield from self._runs(state, operator)

    def _nobody_reads_what_it_replaces(self, state: State, operator: Operator) -> bool:
        """Return True if all other readers of a kept state's old value have run before its new value is written."""
        old = {one.old for one in self.kept if one.new in operator.outputs}
        readers = {one.name for one in self.graph.operators if old & set(one.inputs)}
        return readers - {operator.name} <= state.done

    def _inputs(self, operator: Operator) -> list[str]:
        return [name for name in operator.inputs if name not in self.settled]

    def _outputs(self, operator: Operator) -> tuple[str, ...]:
        return tuple(name for name in operator.outputs if name not in self.settled)

    def _runs(self, state: State, operator: Operator) -> Iterator[tuple[int, State]]:
        following = [one for one in self.graph.operators if one.name not in state.done | {operator.name}]
        later = {name for one in following for name in self._inputs(one)}
        for leaving in subsets(sorted(state.places)):
            kept, left = state.places - {*leaving}, {name for name, _ in leaving}
            missing = [name for name in self._inputs(operator) if name not in {one for one, _ in kept}]
            loads = sum(self._size(name) for name in missing if self._has_been_there(state, name))
            for placed in self._placed(kept, missing):
                for there, overwritten in self._written(placed, operator, self._outputs(operator)):
                    needed = {name for name in left if name in later or name in operator.inputs} | overwritten & later
                    unsaved = {name for name in needed if self._is_activation(name)} - state.stored
                    cost = loads + sum(map(self._size, unsaved))
                    if self.may_move or not cost:
                        places = frozenset(one for one in there if one[0] in later and one[0] not in overwritten)
                        yield cost, State(state.done | {operator.name}, places, (state.stored | unsaved) & later)

    def _placed(self, places: Places, missing: list[str]) -> Iterator[Places]:
        """Yield the placements of missing tensors at every free offset."""
        if not missing:
            yield places
            return
        name, *rest = missing
        for offset in self._offsets(name):
            if not self._overlapped(places, name, offset):
                yield from self._placed(places | {(name, offset)}, rest)

    def _written(
        self, places: Places, operator: Operator, outputs: tuple[str, ...]
    ) -> Iterator[tuple[Places, frozenset[str]]]:
        """Yield the placements of outputs at free offsets or over paired inputs, with the overwritten names."""
        if not self.with_addresses:
            yield from self._overwriting(places, operator)
            return
        if not outputs:
            yield places, frozenset()
            return
        shifts = {pair.input: pair.shift_bytes for pair in operator.in_place if pair.output == outputs[0]}
        for offset in self._offsets(outputs[0]):
            overlapped = self._overlapped(places, outputs[0], offset)
            if all(name in shifts and at + shifts[name] == offset for name, at in overlapped):
                for there, more in self._written(places, operator, outputs[1:]):
                    if all(
                        offset >= at + self._size(o) or at >= offset + self._size(outputs[0])
                        for o, at in there - places
                    ):
                        yield there | {(outputs[0], offset)}, more | {name for name, _ in overlapped}

    def _overwriting(self, places: Places, operator: Operator) -> Iterator[tuple[Places, frozenset[str]]]:
        """Yield every set of pairs that may share bytes at once and fit, without addresses."""
        there = places | {(name, 0) for name in operator.outputs}
        for pairs in subsets(operator.in_place):
            apart = all(
                one.output != other.output or self._starts(one) != self._starts(other)
                for one, other in combinations(pairs, 2)
            )
            shared = sum(min(self._size(one.input), self._size(one.output)) for one in pairs)
            if apart and sum(self._size(name) for name, _ in there) - shared <= self.capacity:
                yield there, frozenset(one.input for one in pairs)

    def _starts(self, pair: InPlace) -> int:
        return max(0, -pair.shift_bytes)

    def _offsets(self, name: str) -> Iterable[int]:
        if not self.with_addresses:
            return range(1)
        offsets = range(0, self.capacity - self._size(name) + 1, self.problem.memories[0].alignment_bytes)
        taken = frozenset((state.old, offset) for state, offset in self.kept.items())
        return [offset for offset in offsets if not self._overlapped(taken, name, offset)]

    def _overlapped(self, places: Places, name: str, offset: int) -> list[tuple[str, int]]:
        if not self.with_addresses:
            return []
        self.patience.try_one()
        stop = offset + self._size(name)
        return [(other, at) for other, at in places if offset < at + self._size(other) and at < stop]

    def _has_been_there(self, state: State, name: str) -> bool:
        """Return True if its load is not compulsory: it was read before, or an operator wrote it."""
        is_input = self.graph.tensor[name].role is Role.INPUT
        return not is_input or any(name in one.inputs for one in self.graph.operators if one.name in state.done)

    def _is_activation(self, name: str) -> bool:
        return self.graph.tensor[name].role is Role.ACTIVATION

    def _size(self, name: str) -> int:
        return self.graph.tensor[name].size_bytes


T = TypeVar("T")


def subsets(items: Iterable[T]) -> Iterator[tuple[T, ...]]:
    listed = tuple(items)
    return chain.from_iterable(combinations(listed, size) for size in range(len(listed) + 1))
