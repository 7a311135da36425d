"""Offsets at any price: if a schedule does not pack, tensors are evicted more often until it does."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import combinations, pairwise
from typing import Final

from onchip.memory.allocate.exact import Attempt, Knowledge, clipped, finding_of
from onchip.memory.allocate.residencies import chained
from onchip.memory.allocate.sections import has_too_many_pairs
from onchip.memory.decisions import OperatorSchedule, PlannedResidency
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.without_collecting import without_collecting


@without_collecting()
def place_or_cut_by_time(
    indexed: IndexedProblem, schedule: OperatorSchedule
) -> tuple[OperatorSchedule, tuple[int, ...]]:
    """Return a schedule that packs, and its offsets in bytes.

    Each residency takes the bytes of the tensor that it overwrites, if as many, or the smallest gap that takes it. If
    there is none, the residency that is cheapest to reload is cut at its idle stretch, again and again. If none can be
    cut, all residents begin in this step; they are the operands of one operator and fit if placed again with the most
    padding last.
    """
    return _TimeOrder(indexed, schedule).placed()


@dataclass(slots=True)
class _Placed:
    """A residency with its offset; `ties` are those requested, the residency has those realised."""

    residency: PlannedResidency
    offset: int
    end: int
    ties: tuple[tuple[int, int], ...] = ()
    is_live: bool = True


class FreeRanges:
    """Free ranges between taken ranges, as (bytes, first aligned address), the smallest first."""

    def __init__(self, capacity_bytes: int, alignment_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._alignment_bytes = alignment_bytes
        self._taken: list[tuple[int, int]] = []
        self._free = [(capacity_bytes, 0)]

    def smallest_for(self, size_bytes: int) -> int | None:
        """Return the start of the smallest free range of at least `size_bytes`, the lowest among equals, or None."""
        index = bisect_left(self._free, (size_bytes, -1))
        return self._free[index][1] if index < len(self._free) else None

    def take(self, start: int, end: int) -> None:
        """Take a range within one that is free."""
        index = bisect_left(self._taken, (start, end))
        self._forget(self._between(index))
        self._taken.insert(index, (start, end))
        insort(self._free, self._between(index))
        insort(self._free, self._between(index + 1))

    def give_back(self, start: int, end: int) -> None:
        """Give back a range that is taken."""
        index = bisect_left(self._taken, (start, end))
        self._forget(self._between(index))
        self._forget(self._between(index + 1))
        del self._taken[index]
        insort(self._free, self._between(index))

    def _between(self, index: int) -> tuple[int, int]:
        """Return the size and start of the free range before the taken range `index`, or after the last one."""
        alignment = self._alignment_bytes
        start = -(-self._taken[index - 1][1] // alignment) * alignment if index else 0
        stop = self._taken[index][0] if index < len(self._taken) else self._capacity_bytes
        return stop - start, start

    def _forget(self, free: tuple[int, int]) -> None:
        del self._free[bisect_left(self._free, free)]


class _TimeOrder:
    """Places residencies in order of time; heaps find those that end, and those that are cheapest to cut."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        self._indexed = indexed
        self._order = schedule.order
        self._uses = indexed.uses(schedule.order)
        self._waiting = [self._entry(residency) for residency in schedule.residencies]
        heapq.heapify(self._waiting)
        self._free = self._all_free()
        self._step = 0
        self._new: list[int] = []
        self._placed: list[_Placed] = []
        self._by_stop: list[tuple[int, int]] = []
        self._by_cost: list[tuple[int, int]] = []
        self._live: dict[int, int] = {}

    def placed(self) -> tuple[OperatorSchedule, tuple[int, ...]]:
        while self._waiting:
            residency = heapq.heappop(self._waiting)[-1]
            self._go_to(residency.start)
            size = self._indexed.sizes_bytes[residency.tensor]
            if self._overwrites(residency, size):
                continue
            offset = self._free.smallest_for(size)
            while offset is None and self._cut_cheapest():
                offset = self._free.smallest_for(size)
            if offset is None:
                self._place_step_anew(residency)
            else:
                self._place(replace(residency, ties=()), offset, residency.ties)
        found = sorted(self._placed, key=lambda one: (one.residency.start, one.residency.tensor))
        return OperatorSchedule(self._order, tuple(one.residency for one in found)), tuple(one.offset for one in found)

    def _all_free(self) -> FreeRanges:
        memory = self._indexed.memory
        return FreeRanges(memory.capacity_bytes, memory.alignment_bytes)

    def _entry(self, residency: PlannedResidency) -> tuple[int, bool, int, int, int, PlannedResidency]:
        """Return a residency with its rank: by step, overwriting ones last, then least padding and largest first."""
        tensor = residency.tensor
        padding, size = self._indexed.room.padding_bytes[tensor], self._indexed.sizes_bytes[tensor]
        return residency.start, bool(residency.ties), padding, -size, tensor, residency

    def _go_to(self, step: int) -> None:
        """End residencies that end by this step; those that began before it may be cut."""
        while self._by_stop and self._by_stop[0][0] <= step:
            _, number = heapq.heappop(self._by_stop)
            if self._placed[number].is_live:
                self._end(number)
        if step > self._step:
            for number in self._new:
                cost = self._indexed.load_costs[self._placed[number].residency.tensor]
                heapq.heappush(self._by_cost, (cost, number))
            self._new, self._step = [], step

    def _end(self, number: int) -> None:
        one = self._placed[number]
        one.is_live = False
        self._free.give_back(one.offset, one.end)

    def _place(self, residency: PlannedResidency, offset: int, ties: tuple[tuple[int, int], ...] = ()) -> None:
        number, end = len(self._placed), offset + self._indexed.sizes_bytes[residency.tensor]
        self._placed.append(_Placed(residency, offset, end, ties or residency.ties))
        self._live[residency.tensor] = number
        self._free.take(offset, end)
        self._new.append(number)
        heapq.heappush(self._by_stop, (residency.stop, number))

    def _overwrites(self, residency: PlannedResidency, size: int) -> bool:
        """Place the residency in the bytes of an input that ends with this step, if as large; return whether it is."""
        if len(residency.ties) != 1:
            return False
        number = self._live[residency.ties[0][0]]
        offset = self._placed[number].offset
        if self._placed[number].end - offset != size:
            return False
        self._end(number)
        self._place(residency, offset)
        return True

    def _cut_cheapest(self) -> bool:
        """Let the cheapest of what began before leave after its last use; it comes back for the next one."""
        while self._by_cost:
            _, number = heapq.heappop(self._by_cost)
            cut = self._placed[number]
            if cut.is_live:
                uses = self._uses[cut.residency.tensor]
                following = bisect_left(uses, self._step)
                heapq.heappush(self._waiting, self._entry(replace(cut.residency, start=uses[following], ties=())))
                cut.residency = replace(cut.residency, stop=uses[following - 1] + 1)
                self._end(number)
                return True
        return False

    def _place_step_anew(self, residency: PlannedResidency) -> None:
        """Stack the placed and waiting residencies of this step; no earlier residency may be active."""
        new = (self._placed[number] for number in self._new)
        waiting = [self._entry(one) for one in (residency, *(replace(one.residency, ties=one.ties) for one in new))]
        while self._waiting and self._waiting[0][0] == residency.start:
            waiting.append(heapq.heappop(self._waiting))
        del self._placed[len(self._placed) - len(self._new) :]
        self._free, self._new, self._by_stop, self._by_cost = self._all_free(), [], [], []
        self._stack(tuple(one for *_, one in sorted(waiting)))

    def _stack(self, residencies: tuple[PlannedResidency, ...]) -> None:
        """Stack residencies, tied ones as one; an overwritten tensor leaves its bytes at once."""
        chains = chained(self._indexed, OperatorSchedule(self._order, residencies))
        alignment, offset = chains.problem.alignment_bytes, 0
        buffers = chains.problem.buffers
        offsets = [0] * len(buffers)
        for at in sorted(range(len(buffers)), key=lambda at: -buffers[at].size_bytes % alignment):
            offsets[at] = offset
            offset += -(-buffers[at].size_bytes // alignment) * alignment
        overwritten = {tensor for one in chains.schedule.residencies for tensor, _ in one.ties}
        for one, start in zip(chains.schedule.residencies, chains.offsets_bytes(offsets), strict=True):
            if one.tensor in overwritten:
                self._new.append(len(self._placed))
                end = start + self._indexed.sizes_bytes[one.tensor]
                self._placed.append(_Placed(one, start, end, one.ties, is_live=False))
            else:
                self._place(one, start)


@dataclass(frozen=True, slots=True)
class RepairParams:
    """Constants of the repair of a schedule that does not pack."""

    window_nodes: int = 1_000
    """Nodes of the packing of a stretch that is mended."""
    single_cuts: int = 24
    """Residencies that are cut by themselves, the cheapest first."""
    paired_cuts: int = 8
    """Residencies that are cut in pairs."""
    repairs: int = 30
    """Stretches of steps that are mended."""


PARAMS: Final = RepairParams()


def place_or_cut(
    indexed: IndexedProblem, schedule: OperatorSchedule, run: Run | None = None, most_work: float = float("inf")
) -> tuple[OperatorSchedule, tuple[int, ...]]:
    """Return a schedule that packs, and its offsets in bytes.

    Repeatedly find a stretch of steps that does not pack, and the cheapest idle times of one or two tensors without
    which it packs. A schedule still open after `most_work` is placed in order of time, as are schedules with too many
    pairs of residencies.
    """
    run = run or Run()
    repair = Repair(indexed, schedule, run, most_work)
    for _ in range(PARAMS.repairs):
        if run.stop is not None or repair.is_spent(STEP.quick_nodes):
            break
        chains = chained(indexed, repair.schedule)
        if has_too_many_pairs(chains.problem.buffers):
            break
        attempt = Attempt(chains.problem, run)
        attempt.go_on(STEP.quick_nodes)
        if attempt.offsets_bytes is not None:
            return chains.schedule, chains.offsets_bytes(attempt.offsets_bytes)
        stretch = attempt.hard_stretch
        if not repair.mend(stretch):
            break
    by_time = place_or_cut_by_time(indexed, schedule)
    if repair.schedule is schedule:
        return by_time
    mended = place_or_cut_by_time(indexed, repair.schedule)
    return min(by_time, mended, key=lambda placed: _cost_of_returns(indexed, placed[0]))


def _cost_of_returns(indexed: IndexedProblem, schedule: OperatorSchedule) -> int:
    """Return the cost of reloads and their stores; the schedule may be of one of several scratchpads."""
    times = Counter(residency.tensor for residency in schedule.residencies)
    return sum(
        (count - 1) * indexed.load_costs[tensor]
        + (indexed.store_costs[tensor] if count > 1 and not indexed.backed >> tensor & 1 else 0)
        for tensor, count in times.items()
    )


@dataclass(frozen=True, slots=True)
class ResidencyCut:
    """A residency may end after the step `last_use` and begin again at `next_use`."""

    cost: int
    residency: PlannedResidency
    last_use: int
    next_use: int

    @property
    def parts(self) -> tuple[PlannedResidency, PlannedResidency]:
        """Return the two residencies that remain."""
        return replace(self.residency, stop=self.last_use + 1), replace(self.residency, start=self.next_use, ties=())


class Repair:
    """Repairs a schedule by cutting residencies, within a work limit."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule, run: Run, most_work: float) -> None:
        self.schedule = schedule
        self._indexed = indexed
        self._run = run
        self._uses = indexed.uses(schedule.order)
        self._work_left = most_work

    def is_spent(self, nodes: int) -> bool:
        """Charge a look at the schedule and a search of `nodes` nodes; return True if no work is left."""
        self._work_left -= len(self.schedule.residencies) + nodes // 2
        return self._work_left < 0

    def mend(self, stretch: range) -> bool:
        """Make the cheapest cuts known that let the stretch pack.

        False if none do, the work is done or the run has to stop.
        """
        for cuts in self._cuts_by_cost(stretch):
            if self._run.stop is not None or self.is_spent(PARAMS.window_nodes):
                break
            mended = self._with(cuts)
            problem = clipped(chained(self._indexed, mended).problem, stretch)
            if finding_of(problem, self._run, PARAMS.window_nodes) is Knowledge.PACKED:
                self.schedule = mended
                return True
        return False

    def _cuts_by_cost(self, stretch: range) -> Iterator[tuple[ResidencyCut, ...]]:
        """Yield single cuts and pairs of the cheapest, the cheapest first."""
        cuts = nsmallest(
            PARAMS.single_cuts, self._cuts(stretch), key=lambda cut: (cut.cost, -(cut.next_use - cut.last_use))
        )
        pairs = [pair for pair in combinations(cuts[: PARAMS.paired_cuts], 2) if pair[0].residency != pair[1].residency]
        yield from sorted([*((cut,) for cut in cuts), *pairs], key=lambda chosen: sum(cut.cost for cut in chosen))

    def _cuts(self, stretch: range) -> Iterator[ResidencyCut]:
        indexed = self._indexed
        times_resident: dict[int, int] = {}
        for residency in self.schedule.residencies:
            times_resident[residency.tensor] = times_resident.get(residency.tensor, 0) + 1
        for residency in self.schedule.residencies:
            tensor = residency.tensor
            if residency.start >= stretch.stop or residency.stop <= stretch.start:
                continue
            is_spilled = times_resident[tensor] > 1 or indexed.backed >> tensor & 1
            cost = indexed.load_costs[tensor] + (0 if is_spilled else indexed.store_costs[tensor])
            uses = [use for use in self._uses[tensor] if residency.start <= use < residency.stop]
            for last_use, next_use in pairwise(uses):
                if next_use > last_use + 1 and last_use + 1 < stretch.stop and next_use > stretch.start:
                    yield ResidencyCut(cost, residency, last_use, next_use)

    def _with(self, cuts: tuple[ResidencyCut, ...]) -> OperatorSchedule:
        parts = {cut.residency: cut.parts for cut in cuts}
        residencies = [part for r in self.schedule.residencies for part in parts.get(r, (r,))]
        return OperatorSchedule(
            self.schedule.order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor, r.stop)))
        )
