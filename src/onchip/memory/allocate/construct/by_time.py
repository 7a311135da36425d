"""Addresses in order of time, without any search: what is in the way leaves, as far as it is idle."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass, replace

from onchip.memory.allocate.construct.chains import chained
from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.without_collecting import without_collecting


@without_collecting()
def place_or_cut_by_time(
    indexed: IndexedProblem, schedule: OperatorSchedule
) -> tuple[OperatorSchedule, tuple[int, ...]]:
    """Return a schedule that packs, and its offsets in bytes.

    Each residency goes into the bytes of what it overwrites, if that is as large, or into the smallest gap that takes
    it. Where there is none, the cheapest of the residencies that are there is cut at its idle stretch, again and again.
    If nothing is left to cut, all that is resident begins in this very step; it is one operator's operands, placed anew
    with the most padding last, which fits.
    """
    return _TimeOrder(indexed, schedule).placed()


@dataclass(slots=True)
class _Placed:
    """`ties` are those that were asked for; the residency has those that it has got."""

    residency: PlannedResidency
    offset: int
    end: int
    ties: tuple[tuple[int, int], ...] = ()
    is_live: bool = True


class FreeRanges:
    """What is free between ranges of bytes that do not overlap: (bytes, first aligned address), the smallest first."""

    def __init__(self, capacity_bytes: int, alignment_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._alignment_bytes = alignment_bytes
        self._taken: list[tuple[int, int]] = []
        self._free = [(capacity_bytes, 0)]

    def smallest_for(self, size_bytes: int) -> int | None:
        """Return the start of the smallest that takes so many bytes, the lowest of equals; None if there is none."""
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
        """Return what is free before the taken range of that number, or behind the last."""
        alignment = self._alignment_bytes
        start = -(-self._taken[index - 1][1] // alignment) * alignment if index else 0
        stop = self._taken[index][0] if index < len(self._taken) else self._capacity_bytes
        return stop - start, start

    def _forget(self, free: tuple[int, int]) -> None:
        del self._free[bisect_left(self._free, free)]


class _TimeOrder:
    """Steps only go on, so that what is live is found by heaps: by its end, and what began before by its price."""

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
        """By step; then what overwrites others last; then the least padding and the largest first."""
        tensor = residency.tensor
        padding, size = self._indexed.room.padding_bytes[tensor], self._indexed.sizes_bytes[tensor]
        return residency.start, bool(residency.ties), padding, -size, tensor, residency

    def _go_to(self, step: int) -> None:
        """What ends by this step ends; what began before it may be cut."""
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
        """Whether it takes over the bytes of an input that ends with this step, and is as large."""
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
        """All that is there begins in this step: take it up again, and set one upon the other."""
        new = (self._placed[number] for number in self._new)
        waiting = [self._entry(one) for one in (residency, *(replace(one.residency, ties=one.ties) for one in new))]
        while self._waiting and self._waiting[0][0] == residency.start:
            waiting.append(heapq.heappop(self._waiting))
        del self._placed[len(self._placed) - len(self._new) :]
        self._free, self._new, self._by_stop, self._by_cost = self._all_free(), [], [], []
        self._stack(tuple(one for *_, one in sorted(waiting)))

    def _stack(self, residencies: tuple[PlannedResidency, ...]) -> None:
        """Set one upon the other, what is tied as one; what is overwritten leaves its bytes to that at once."""
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
