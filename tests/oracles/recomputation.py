"""The least cost of tiny problems with rematerialisation: Dijkstra's search over single instructions.

A state is the executed operators, the residents (and their offsets, with addresses), the tensors with a copy in DRAM,
and those ever loaded. Allocate, Copy, Compute and Free are separate moves; outputs are allocated with their Compute,
loads with their Copy. Only data types are shared with the methods that are checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count, pairwise, product
from typing import TypeAlias

from onchip.answer.problem import Objective, Order, Problem
from onchip.arch.memory import DRAM
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role

Residents: TypeAlias = "frozenset[tuple[str, int]]"
"""Tensors with their offsets in bytes; -1 if addresses do not count."""
Position: TypeAlias = "tuple[frozenset[str], Residents, frozenset[str], frozenset[str]]"
"""The executed operators, the residents, the tensors in DRAM, and those that have been on chip."""


def least_cost_with_recomputation(problem: Problem, *, with_addresses: bool) -> int | None:
    """Return the least cost beyond the compulsory of any legal plan, or None if there is none."""
    return _Everything(problem, with_addresses).least()


class _Everything:
    def __init__(self, problem: Problem, with_addresses: bool) -> None:
        (self.memory,) = problem.memories
        self.problem, self.graph, self.with_addresses = problem, problem.graph, with_addresses
        self.sizes = {tensor.name: tensor.size_bytes for tensor in problem.counted_tensors}
        self.may_move = problem.objective is not Objective.RECOMPUTATION
        self.everything = frozenset(operator.name for operator in self.graph.operators)

    def least(self) -> int | None:
        stored = frozenset(
            tensor.name for tensor in self.problem.counted_tensors if tensor.role in (Role.INPUT, Role.PARAMETER)
        )
        nobody: Residents = frozenset()
        begin: Position = frozenset(), nobody, stored, frozenset()
        number = count()
        heap: list[tuple[int, int, Position]] = [(0, next(number), begin)]
        settled: set[Position] = set()
        while heap:
            cost, _, position = heappop(heap)
            if position[0] == self.everything:
                return cost
            if position in settled:
                continue
            settled.add(position)
            for more, following in self._moves(position):
                if following not in settled:
                    heappush(heap, (cost + more, next(number), following))
        return None

    def _moves(self, position: Position) -> Iterator[tuple[int, Position]]:
        run, residents, stored, seen = position
        here = dict(residents)
        for name, offset in residents:
            yield 0, (run, residents - {(name, offset)}, stored, seen)
            if name not in stored and self.may_move:
                yield self._cost(name, DRAM, to=True), (run, residents, stored | {name}, seen)
        for name in stored - here.keys():
            is_first = self.graph.tensor[name].role is not Role.OUTPUT and name not in seen
            is_first = is_first and name not in self.graph.producer
            if is_first or self.may_move:
                for placed in self._placed(here, (name,)):
                    cost = 0 if is_first else self._cost(name, DRAM, to=False)
                    yield cost, (run, placed, stored, seen | {name})
        for operator in self.graph.operators:
            yield from self._computes(operator, position, here)

    def _computes(self, operator: Operator, position: Position, here: dict[str, int]) -> Iterator[tuple[int, Position]]:
        run, _, stored, seen = position
        reads = [name for name in operator.reads if name in self.sizes]
        writes = [name for name in operator.outputs if name in self.sizes]
        if not set(reads) <= here.keys() or set(writes) & here.keys():
            return
        has_run = operator.name in run
        if has_run and not self.problem.may_run_again(operator):
            return
        first = next(one.name for one in self.graph.operators if one.name not in run)
        if not has_run and self.problem.order is Order.GIVEN and operator.name != first:
            return
        cost = self.problem.cost_again(operator) if has_run else 0
        outputs = {name for name in writes if self.graph.tensor[name].role is Role.OUTPUT}
        for placed in self._placed(here, tuple(writes)):
            yield cost, (run | {operator.name}, placed, stored | outputs, seen | set(writes))

    def _placed(self, here: dict[str, int], names: tuple[str, ...]) -> Iterator[Residents]:
        """Yield the residents with more tensors, in every placement that fits."""
        capacity = self.memory.capacity_bytes
        if not self.with_addresses:
            if sum(self.sizes[name] for name in (*here, *names)) <= capacity:
                yield frozenset((here | dict.fromkeys(names, -1)).items())
            return
        ranges = [range(capacity - self.sizes[name] + 1) for name in names]
        for offsets in product(*ranges):
            places = here | dict(zip(names, offsets, strict=True))
            if self._is_apart(places):
                yield frozenset(places.items())

    def _is_apart(self, places: dict[str, int]) -> bool:
        taken = sorted((offset, offset + self.sizes[name]) for name, offset in places.items())
        return all(one[1] <= other[0] for one, other in pairwise(taken))

    def _cost(self, name: str, memory: str, *, to: bool) -> int:
        ends = (self.memory.name, memory) if to else (memory, self.memory.name)
        return self.problem.transfer_cost(self.graph.tensor[name], *ends)
