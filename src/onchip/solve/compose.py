"""From decisions (order, residencies, offsets) to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onchip.analysis.indexed import IndexedProblem, bits
from onchip.arch.memory import DRAM
from onchip.ir.tensor import Role
from onchip.plan.plan import Allocate, Compute, Copy, Free, Instruction, Plan


@dataclass(frozen=True, slots=True)
class Residency:
    """One tensor in scratchpad number `memory` over the half-open range of steps [start, stop).

    It begins with the tensor's Compute if `start` is that step, else with a load, or, where a `source` is
    given, with a copy over the link from that scratchpad, in which the tensor is in the step before.
    """

    tensor: int
    start: int
    stop: int
    memory: int = 0
    source: int | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of the operators and the residencies, by tensor and time; no addresses yet."""

    order: tuple[int, ...]
    residencies: tuple[Residency, ...]

    def in_memory(self, memory: int) -> Schedule:
        """Return what of it happens in one scratchpad."""
        return Schedule(self.order, tuple(one for one in self.residencies if one.memory == memory))


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a search: these tensors leave, then the operator runs."""

    operator: int
    evicted: int


def schedule_of_moves(indexed: IndexedProblem, moves: Iterable[Move]) -> Schedule:
    """Turn steps with evictions into residencies as short as their uses allow.

    A tensor that is evicted has been useless since its last use, so its residency ends there.
    """
    order: list[int] = []
    residencies: list[Residency] = []
    began: dict[int, int] = {}
    last_use: dict[int, int] = {}
    for step, move in enumerate(moves):
        residencies.extend(Residency(t, began.pop(t), last_use[t] + 1) for t in bits(move.evicted))
        for tensor in indexed.operand_lists[move.operator]:
            began.setdefault(tensor, step)
            last_use[tensor] = step
        order.append(move.operator)
    residencies.extend(Residency(tensor, start, last_use[tensor] + 1) for tensor, start in began.items())
    return Schedule(tuple(order), tuple(sorted(residencies, key=lambda r: (r.start, r.tensor, r.stop))))


def non_compulsory_cost(indexed: IndexedProblem, schedule: Schedule) -> int:
    """Return what a schedule's transfers cost beyond the compulsory ones at their cheapest (COSMA, Eq. 12)."""
    views, cost = indexed.views, 0
    for tensor, residencies in _by_tensor(schedule.residencies).items():
        if (stored := _stored_from(indexed, schedule, residencies)) is not None:
            cost += views[stored.memory].store_costs[tensor]
        if indexed.tensors[tensor].role is Role.OUTPUT:
            cost -= indexed.store_costs[tensor]
        elif indexed.producer[tensor] < 0 and indexed.readers[tensor]:
            cost -= indexed.load_costs[tensor]
        for residency in residencies:
            if residency.source is not None:
                cost += indexed.link_cost(tensor, residency.source, residency.memory)
            elif _is_loaded(indexed, schedule, residency):
                cost += views[residency.memory].load_costs[tensor]
    return cost


def _is_loaded(indexed: IndexedProblem, schedule: Schedule, residency: Residency) -> bool:
    """Whether it begins with a load: it is not computed, and comes over no link."""
    return residency.source is None and indexed.producer[residency.tensor] != schedule.order[residency.start]


def _stored_from(indexed: IndexedProblem, schedule: Schedule, residencies: Sequence[Residency]) -> Residency | None:
    """Return during which residency of a tensor it is stored, if it is: the cheapest that begins before any load."""
    tensor = residencies[0].tensor
    loads = [one.start for one in residencies if _is_loaded(indexed, schedule, one)]
    is_output = indexed.tensors[tensor].role is Role.OUTPUT
    if indexed.producer[tensor] < 0 or not (loads or is_output):
        return None
    early = [one for one in residencies if one.start < min(loads, default=len(schedule.order))]
    return min(early, key=lambda one: indexed.views[one.memory].store_costs[tensor])


def _by_tensor(residencies: Iterable[Residency]) -> dict[int, list[Residency]]:
    """Return each tensor's residencies as they begin."""
    by_tensor: dict[int, list[Residency]] = {}
    for residency in sorted(residencies, key=lambda r: r.start):
        by_tensor.setdefault(residency.tensor, []).append(residency)
    return by_tensor


def compose(indexed: IndexedProblem, schedule: Schedule, offsets_bytes: Sequence[int]) -> Plan:
    """Write the straight-line program; `offsets_bytes[i]` belongs to `schedule.residencies[i]`.

    In a step: copies over links (each as soon as its place is free, then Free of what it leaves), loads and
    allocations of outputs, Compute, compulsory writes, the one spill of a tensor that is loaded again, Free.
    Raises StuckMovesError.
    """
    return _Composer(indexed, schedule, offsets_bytes).plan()


class StuckMovesError(Exception):
    """The tensor named is to go where no link leads, or copies over links wait for each other's places."""


class _Composer:
    def __init__(self, indexed: IndexedProblem, schedule: Schedule, offsets_bytes: Sequence[int]) -> None:
        self._indexed = indexed
        self._schedule = schedule
        self._offsets = dict(zip(schedule.residencies, offsets_bytes, strict=True))
        self._memories = [memory.name for memory in indexed.problem.memories]
        self._names = [tensor.name for tensor in indexed.tensors]
        self._stored_after = self._stores()
        self._held: dict[tuple[int, int], Residency] = {}
        self._instructions: list[Instruction] = []

    def plan(self) -> Plan:
        starting: list[list[Residency]] = [[] for _ in (*self._schedule.order, None)]
        ending: list[list[Residency]] = [[] for _ in self._schedule.order]
        for residency in self._schedule.residencies:
            starting[residency.start].append(residency)
            ending[residency.stop - 1].append(residency)
        leaving: list[Residency] = []
        for step, operator in enumerate(self._schedule.order):
            self._move([residency for residency in starting[step] if residency.source is not None], leaving)
            self._begin(operator, [residency for residency in starting[step] if residency.source is None])
            self._run(step, operator)
            sources = {(residency.tensor, residency.source) for residency in starting[step + 1]}
            leaving = [residency for residency in ending[step] if (residency.tensor, residency.memory) in sources]
            for residency in ending[step]:
                if residency not in leaving:
                    self._free(residency)
        return Plan(self._indexed.problem.memories, tuple(self._instructions))

    def _move(self, moved: list[Residency], leaving: list[Residency]) -> None:
        """Copy over links, as soon as no place is in the way; what has only waited for that is freed."""
        waiting = list(moved)
        for residency in moved:
            if (residency.source, residency.memory) not in self._indexed.links:
                raise StuckMovesError(self._names[residency.tensor])
        while waiting:
            ready = next((residency for residency in waiting if self._is_free_for(residency)), None)
            if ready is None:
                raise StuckMovesError(self._names[waiting[0].tensor])
            waiting.remove(ready)
            self._allocate(ready)
            self._copy(ready.tensor, self._memories[ready.source or 0], self._memories[ready.memory])
            sources = {(residency.tensor, residency.source) for residency in waiting}
            for residency in [one for one in leaving if (one.tensor, one.memory) not in sources]:
                leaving.remove(residency)
                self._free(residency)

    def _is_free_for(self, residency: Residency) -> bool:
        start = self._offsets[residency]
        stop = start + self._indexed.sizes_bytes[residency.tensor]
        return not any(
            one.memory == residency.memory
            and (
                one.tensor == residency.tensor
                or (self._offsets[one] < stop and start < self._offsets[one] + self._indexed.sizes_bytes[one.tensor])
            )
            for one in self._held.values()
        )

    def _begin(self, operator: int, residencies: list[Residency]) -> None:
        for residency in residencies:
            self._allocate(residency)
            if self._indexed.producer[residency.tensor] != operator:
                self._copy(residency.tensor, DRAM, self._memories[residency.memory])

    def _run(self, step: int, operator: int) -> None:
        self._instructions.append(Compute(self._indexed.problem.graph.operators[operator].name))
        for residency in self._stored_after.get(step, ()):
            self._copy(residency.tensor, self._memories[residency.memory], DRAM)

    def _stores(self) -> dict[int, list[Residency]]:
        """Return what is stored after which step: network outputs at once, a spill when the tensor leaves.

        A spill cannot wait that long where the tensor is loaded elsewhere before.
        """
        stores: dict[int, list[Residency]] = {}
        for tensor, residencies in _by_tensor(self._schedule.residencies).items():
            stored = _stored_from(self._indexed, self._schedule, residencies)
            if stored is not None:
                loads = (one.start for one in residencies if _is_loaded(self._indexed, self._schedule, one))
                is_output = self._indexed.tensors[tensor].role is Role.OUTPUT
                can_wait = not is_output and stored.stop <= min(loads)
                stores.setdefault(stored.stop - 1 if can_wait else stored.start, []).append(stored)
        return stores

    def _allocate(self, residency: Residency) -> None:
        self._held[residency.tensor, residency.memory] = residency
        name, memory = self._names[residency.tensor], self._memories[residency.memory]
        self._instructions.append(Allocate(name, memory, self._offsets[residency]))

    def _free(self, residency: Residency) -> None:
        del self._held[residency.tensor, residency.memory]
        self._instructions.append(Free(self._names[residency.tensor], self._memories[residency.memory]))

    def _copy(self, tensor: int, source: str, target: str) -> None:
        self._instructions.append(Copy(self._names[tensor], source, target))
