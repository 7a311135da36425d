"""A plan's decisions (order, residencies, offsets), the best of them so far, and the program written from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.result import SearchResult
from onchip.arch.memory import DRAM
from onchip.ir.tensor import Role
from onchip.model.lifetimes.indexed import IndexedProblem, Overwritable
from onchip.search.budget.limits import Run
from onchip.search.strategy import portfolio as incumbent
from onchip.without_collecting import without_collecting


@dataclass(frozen=True, slots=True)
class PlannedResidency:
    """A tensor in scratchpad number `memory` over the half-open range of steps [start, stop).

    It begins with the Compute of its producer in step `start`, or with a load. With `ties` (tensor, bytes) it begins in
    the bytes of inputs of its operator, at these distances from their addresses; the inputs leave after the operator.
    """

    tensor: int
    start: int
    stop: int
    memory: int = 0
    ties: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorSchedule:
    """Operators in execution order and residencies by tensor and time, without addresses.

    An operator that runs again occurs once for each run, and its outputs begin again each time.
    """

    order: tuple[int, ...]
    residencies: tuple[PlannedResidency, ...]

    def in_memory(self, memory: int) -> OperatorSchedule:
        """Return the part of the schedule in one scratchpad."""
        return OperatorSchedule(self.order, tuple(one for one in self.residencies if one.memory == memory))


@dataclass(frozen=True, slots=True)
class SearchMove:
    """Step of a search: tensors are evicted (by number), the operator runs, and overwritten inputs leave.

    An evicted operand is loaded again for the operator.
    """

    operator: int
    evicted: tuple[int, ...] = ()
    overwritten: tuple[int, ...] = ()


@without_collecting()
def schedule_of_moves(indexed: IndexedProblem, moves: Iterable[SearchMove]) -> OperatorSchedule:
    """Turn steps with evictions into residencies as short as their uses allow.

    The residency of an evicted tensor ends with its last use. Tensors without further readers are overwritten where
    they may be.
    """
    order: list[int] = []
    residencies: list[PlannedResidency] = []
    began: dict[int, int] = {}
    last_use: dict[int, int] = {}
    ties = _Ties(indexed)

    def end(tensor: int) -> None:
        residencies.append(PlannedResidency(tensor, began.pop(tensor), last_use[tensor] + 1, 0, ties.of(tensor)))

    for step, move in enumerate(moves):
        for tensor in move.evicted:
            end(tensor)
        for tensor in indexed.write_lists[move.operator]:
            if tensor in began:  # the operator runs again
                end(tensor)
        for tensor in indexed.operand_lists[move.operator]:
            began.setdefault(tensor, step)
            last_use[tensor] = step
        ties.run(move)
        for tensor in move.overwritten:
            end(tensor)
        order.append(move.operator)
    for tensor in tuple(began):
        end(tensor)
    return OperatorSchedule(tuple(order), tuple(sorted(residencies, key=lambda r: (r.start, r.tensor, r.stop))))


class _Ties:
    """Outputs in the bytes of inputs, as operators run; a tensor has its ties in its first residency."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self._indexed = indexed
        self._unread = [len(readers) for readers in indexed.reader_lists]
        self._ties: dict[int, list[tuple[int, int]]] = {}

    def run(self, move: SearchMove) -> None:
        """Overwrite one input of each group: the one that leaves for it, or the first without further readers."""
        for tensor in self._indexed.read_lists[move.operator]:
            self._unread[tensor] -= 1
        groups: dict[int, Overwritable] = {}
        for one in self._indexed.overwritable_lists[move.operator]:
            if one.tensor in move.overwritten or (self._unread[one.tensor] == 0 and one.group not in groups):
                groups[one.group] = one
        for one in groups.values():
            for written, shift_bytes in one.ties:
                self._ties.setdefault(written, []).append((one.tensor, shift_bytes))

    def of(self, tensor: int) -> tuple[tuple[int, int], ...]:
        """Return the ties of a residency that ends, once."""
        return tuple(self._ties.pop(tensor, ()))


def non_compulsory_cost(indexed: IndexedProblem, schedule: OperatorSchedule) -> int:
    """Return what a schedule's transfers cost beyond the compulsory ones at their cheapest (COSMA, Eq. 12)."""
    views, cost = indexed.views, 0
    for tensor, residencies in _by_tensor(schedule.residencies).items():
        if (stored := _stored_from(indexed, schedule, residencies)) is not None:
            cost += views[stored.memory].store_costs[tensor]
        if indexed.tensors[tensor].role is Role.OUTPUT:
            cost -= indexed.store_costs[tensor]
        elif indexed.producer[tensor] < 0 and indexed.reader_lists[tensor]:
            cost -= indexed.load_costs[tensor]
        cost += sum(
            views[residency.memory].load_costs[tensor]
            for residency in residencies
            if _is_loaded(indexed, schedule, residency)
        )
    return cost


def _is_loaded(indexed: IndexedProblem, schedule: OperatorSchedule, residency: PlannedResidency) -> bool:
    """True if the residency begins with a load."""
    return indexed.producer[residency.tensor] != schedule.order[residency.start]


def _stored_from(
    indexed: IndexedProblem, schedule: OperatorSchedule, residencies: Sequence[PlannedResidency]
) -> PlannedResidency | None:
    """Return during which residency of a tensor it is stored, if it is: the last one before it is loaded.

    A network output is stored from the first, which its operator began.
    """
    tensor = residencies[0].tensor
    if indexed.producer[tensor] < 0:
        return None
    if indexed.tensors[tensor].role is Role.OUTPUT:
        return residencies[0]
    loaded = next((at for at, one in enumerate(residencies) if _is_loaded(indexed, schedule, one)), 0)
    return residencies[loaded - 1] if loaded else None


def _by_tensor(residencies: Iterable[PlannedResidency]) -> dict[int, list[PlannedResidency]]:
    """Return each tensor's residencies as they begin."""
    by_tensor: dict[int, list[PlannedResidency]] = {}
    for residency in sorted(residencies, key=lambda r: r.start):
        by_tensor.setdefault(residency.tensor, []).append(residency)
    return by_tensor


@without_collecting()
def compose(indexed: IndexedProblem, schedule: OperatorSchedule, offsets_bytes: Sequence[int]) -> Plan:
    """Write the straight-line program; `offsets_bytes[i]` belongs to `schedule.residencies[i]`.

    A step has loads and allocations of outputs, Compute, compulsory writes, the one spill of a tensor that is loaded
    again, and Free. Overwritten tensors are spilled before the Compute, and freed first.
    """
    return _Composer(indexed, schedule, offsets_bytes).plan()


class _Composer:
    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule, offsets_bytes: Sequence[int]) -> None:
        self._indexed = indexed
        self._schedule = schedule
        self._offsets = dict(zip(schedule.residencies, offsets_bytes, strict=True))
        self._memories = [memory.name for memory in indexed.problem.memories]
        self._names = [tensor.name for tensor in indexed.tensors]
        self._stored_after = self._stores()
        self._instructions: list[Instruction] = []

    def plan(self) -> Plan:
        starting: list[list[PlannedResidency]] = [[] for _ in self._schedule.order]
        ending: list[list[PlannedResidency]] = [[] for _ in self._schedule.order]
        for residency in self._schedule.residencies:
            starting[residency.start].append(residency)
            ending[residency.stop - 1].append(residency)
        for step, operator in enumerate(self._schedule.order):
            overwritten = {tensor for residency in starting[step] for tensor, _ in residency.ties}
            self._begin(operator, [residency for residency in starting[step] if not residency.ties])
            stores = self._stored_after.get(step, ())
            self._store(stored for stored in stores if stored.tensor in overwritten)
            self._begin(operator, [residency for residency in starting[step] if residency.ties])
            self._instructions.append(Compute(self._indexed.problem.graph.operators[operator].name))
            for residency in ending[step]:
                if residency.tensor in overwritten:
                    self._free(residency)
            self._store(stored for stored in stores if stored.tensor not in overwritten)
            for residency in ending[step]:
                if residency.tensor not in overwritten:
                    self._free(residency)
        return Plan(self._indexed.problem.memories, tuple(self._instructions))

    def _begin(self, operator: int, residencies: list[PlannedResidency]) -> None:
        for residency in residencies:
            self._allocate(residency)
            if self._indexed.producer[residency.tensor] != operator:
                self._copy(residency.tensor, DRAM, self._memories[residency.memory])

    def _store(self, residencies: Iterable[PlannedResidency]) -> None:
        for residency in residencies:
            self._copy(residency.tensor, self._memories[residency.memory], DRAM)

    def _stores(self) -> dict[int, list[PlannedResidency]]:
        """Map each step to the tensors stored after it: network outputs at once, a spill when the tensor leaves.

        A spill cannot wait that long if the tensor is loaded elsewhere before.
        """
        stores: dict[int, list[PlannedResidency]] = {}
        for tensor, residencies in _by_tensor(self._schedule.residencies).items():
            stored = _stored_from(self._indexed, self._schedule, residencies)
            if stored is not None:
                loads = (one.start for one in residencies if _is_loaded(self._indexed, self._schedule, one))
                is_output = self._indexed.tensors[tensor].role is Role.OUTPUT
                can_wait = not is_output and stored.stop <= min(loads)
                stores.setdefault(stored.stop - 1 if can_wait else stored.start, []).append(stored)
        return stores

    def _allocate(self, residency: PlannedResidency) -> None:
        name, memory = self._names[residency.tensor], self._memories[residency.memory]
        self._instructions.append(Allocate(name, memory, self._offsets[residency]))

    def _free(self, residency: PlannedResidency) -> None:
        self._instructions.append(Free(self._names[residency.tensor], self._memories[residency.memory]))

    def _copy(self, tensor: int, source: str, target: str) -> None:
        self._instructions.append(Copy(self._names[tensor], source, target))


class PlanIncumbent(incumbent.Incumbent[Plan]):
    """Collects plans, or schedules with offsets; only the best schedule is written down as a plan, at the end."""

    def __init__(self, indexed: IndexedProblem, run: Run) -> None:
        super().__init__(run)
        self.indexed = indexed
        self.schedule: OperatorSchedule | None = None
        self._offsets_bytes: tuple[int, ...] = ()
        known = run.warm_start
        if known is not None and known.problem is indexed.problem:
            self.raise_bound(known.lower_bound)
            if known.plan is not None and known.value is not None:
                self.keep(known.plan, known.value, "known before")

    def keep(self, answer: Plan | None, value: int, phase: str) -> bool:
        """Keep a plan if it is better than the best so far, and forget the schedule."""
        is_better = super().keep(answer, value, phase)
        if is_better:
            self.schedule = None
        return is_better

    def offer(self, schedule: OperatorSchedule, offsets_bytes: Sequence[int], value: int, phase: str) -> None:
        """Keep a schedule with its offsets if it is better than the best so far."""
        if self.keep(None, value, phase):
            self.schedule, self._offsets_bytes = schedule, tuple(offsets_bytes)

    def result(self, method: str) -> SearchResult[Plan]:
        """Return the state of the search as a result."""
        if self.answer is None and self.schedule is not None:
            self.answer = compose(self.indexed, self.schedule, self._offsets_bytes)
        return super().result(method)
