"""Addresses in order of time, without any search: what is in the way leaves, as far as it is idle."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from dataclasses import dataclass, replace

from onchip.facts.indexed import IndexedProblem
from onchip.solve.run.compose import OperatorSchedule, PlannedResidency


def place_or_cut_by_time(
    indexed: IndexedProblem, schedule: OperatorSchedule
) -> tuple[OperatorSchedule, tuple[int, ...]]:
    """Return a schedule that packs, and its offsets in bytes.

    Each residency goes into the smallest gap that takes it. Where there is none, the cheapest of the residencies
    that are there is cut at its idle stretch, again and again. If nothing is left to cut, all that is resident
    begins in this very step; it is one operator's operands, placed anew with the most padding last, which fits.
    """
    return _TimeOrder(indexed, schedule).placed()


@dataclass(slots=True)
class _Placed:
    residency: PlannedResidency
    offset: int
    end: int


class _TimeOrder:
    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        self._indexed = indexed
        self._order = schedule.order
        self._uses = indexed.uses(schedule.order)
        self._waiting = [self._entry(residency) for residency in schedule.residencies]
        heapq.heapify(self._waiting)
        self._live: list[_Placed] = []
        self._ended: list[_Placed] = []

    def placed(self) -> tuple[OperatorSchedule, tuple[int, ...]]:
        while self._waiting:
            residency = heapq.heappop(self._waiting)[-1]
            self._end_before(residency.start)
            offset = self._offset(residency)
            while offset is None and self._cut_cheapest(residency.start):
                offset = self._offset(residency)
            if offset is None:
                self._place_step_anew(residency)
            else:
                self._place(residency, offset)
        found = sorted((*self._ended, *self._live), key=lambda one: (one.residency.start, one.residency.tensor))
        return OperatorSchedule(self._order, tuple(one.residency for one in found)), tuple(one.offset for one in found)

    def _entry(self, residency: PlannedResidency) -> tuple[int, int, int, int, PlannedResidency]:
        """By step; then the least padding and the largest first."""
        tensor = residency.tensor
        padding, size = self._indexed.room.padding_bytes[tensor], self._indexed.sizes_bytes[tensor]
        return residency.start, padding, -size, tensor, residency

    def _end_before(self, step: int) -> None:
        self._ended += (one for one in self._live if one.residency.stop <= step)
        self._live = [one for one in self._live if one.residency.stop > step]

    def _offset(self, residency: PlannedResidency) -> int | None:
        """Return the start of the smallest gap that takes the residency, None if there is none."""
        memory, size = self._indexed.memory, self._indexed.sizes_bytes[residency.tensor]
        best: tuple[int, int] | None = None
        top = 0
        ranges = sorted((one.offset, one.end) for one in self._live)
        for start, end in (*ranges, (memory.capacity_bytes, 0)):
            gap = start - top
            if gap >= size and (best is None or gap < best[0]):
                best = (gap, top)
            top = max(top, -(-end // memory.alignment_bytes) * memory.alignment_bytes)
        return None if best is None else best[1]

    def _place(self, residency: PlannedResidency, offset: int) -> None:
        self._live.append(_Placed(residency, offset, offset + self._indexed.sizes_bytes[residency.tensor]))

    def _cut_cheapest(self, step: int) -> bool:
        """Let the cheapest of what began before leave after its last use; it comes back for the next one."""
        older = [one for one in self._live if one.residency.start < step]
        if not older:
            return False
        cut = min(older, key=lambda one: self._indexed.load_costs[one.residency.tensor])
        uses = self._uses[cut.residency.tensor]
        following = bisect_left(uses, step)
        heapq.heappush(self._waiting, self._entry(replace(cut.residency, start=uses[following])))
        cut.residency = replace(cut.residency, stop=uses[following - 1] + 1)
        self._end_before(step)
        return True

    def _place_step_anew(self, residency: PlannedResidency) -> None:
        """All that is there begins in this step: take it up again, and set one upon the other."""
        waiting = [self._entry(one) for one in (residency, *(placed.residency for placed in self._live))]
        while self._waiting and self._waiting[0][0] == residency.start:
            waiting.append(heapq.heappop(self._waiting))
        self._live = []
        offset, alignment = 0, self._indexed.memory.alignment_bytes
        for *_, one in sorted(waiting):
            self._place(one, offset)
            offset += -(-self._indexed.sizes_bytes[one.tensor] // alignment) * alignment
