"""Nothing stays but what is pinned: every other tensor comes for each operator that uses it, and leaves after it."""

from __future__ import annotations

from collections.abc import Sequence

from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.model.capacity.fitting import places_of_operands
from onchip.model.lifetimes.indexed import IndexedProblem


def streamed_schedule(indexed: IndexedProblem, order: Sequence[int]) -> OperatorSchedule:
    """Return the schedule in which no tensor stays; every operator must fit by itself."""
    residencies = []
    for step, operator in enumerate(order):
        places = places_of_operands(indexed, operator) or {}
        residencies += [PlannedResidency(tensor, step, step + 1, places[tensor]) for tensor in sorted(places)]
    return OperatorSchedule(tuple(order), tuple(residencies))


def stacked(indexed: IndexedProblem, schedule: OperatorSchedule) -> tuple[int, ...]:
    """Return offsets in bytes for a streamed schedule: one upon the other, what ends unaligned on top."""
    top: dict[tuple[int, int], int] = {}
    offsets: dict[PlannedResidency, int] = {}
    views = indexed.views
    for residency in sorted(schedule.residencies, key=lambda r: views[r.memory].room.padding_bytes[r.tensor]):
        room, place = views[residency.memory].room, (residency.start, residency.memory)
        offsets[residency] = top.get(place, 0)
        top[place] = offsets[residency] + room.units[residency.tensor] * room.alignment_bytes
    return tuple(offsets[residency] for residency in schedule.residencies)
