"""Causes of array stalls: for each gap between two operators, its chain of transfers and its classification.

An activity starts when its last dependency ends, so behind each gap there is a chain of activities, each ending where
the next starts. Within the gap these are transfers, since the array is idle, or uses of DRAM that outlast their
operator. Transfers run in turns. If one is late for lack of space, all later ones are late by the same cycles, until
one waits for data anyway. These cycles count once, in the first gap that waits for any of these transfers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from onchip.model.timeline.activity import Activity, ActivityKind


@dataclass(frozen=True, slots=True)
class LatencyParts:
    """The parts of a latency in cycles: computation and stalls.

    `preload` passes before the first operator. Between operators the array waits for loads (and on-chip moves); for
    room, if loads came later because their space, or that of transfers before them, was occupied; for stores, including
    those after the last operator; and for DRAM, while operators occupy it longer than they last.
    """

    computing: int = 0
    preload: int = 0
    waiting_for_loads: int = 0
    waiting_for_room: int = 0
    waiting_for_stores: int = 0
    waiting_for_dram: int = 0

    @property
    def total(self) -> int:
        """Return the latency in cycles: all parts together."""
        return sum(getattr(self, part.name) for part in fields(self))

    @property
    def by_name(self) -> dict[str, int]:
        """Return the parts by name, as in files."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def __add__(self, other: LatencyParts) -> LatencyParts:
        return LatencyParts(**{name: cycles + other.by_name[name] for name, cycles in self.by_name.items()})


NAMES: Final = tuple(part.name for part in fields(LatencyParts))
LOADS: Final = "waiting_for_loads"
ROOM: Final = "waiting_for_room"


@dataclass(frozen=True, slots=True)
class ArrayWait:
    """A stall: cycles [start, stop) before `activity` starts; None for the stall after the last operator.

    `chain` lists the numbers of the activities that cause it, latest first; `parts` classifies it. If room is among the
    parts, `lacked_room` is the earlier transfer that waited longest for its space.
    """

    activity: int | None
    start: int
    stop: int
    chain: tuple[int, ...]
    parts: LatencyParts
    lacked_room: int | None = None

    @property
    def cycles(self) -> int:
        """Return its duration in cycles."""
        return self.stop - self.start

    @property
    def greatest_part(self) -> str:
        """Return the name of the largest part."""
        return max(NAMES, key=lambda name: int(getattr(self.parts, name)))


def array_waits(activities: Sequence[Activity]) -> Iterator[ArrayWait]:
    """Yield every gap in which the array is idle, in order of time."""
    account = _RoomAccount(activities)
    array_free, has_run = 0, False
    for place, one in enumerate(activities):
        if one.queue is not None:
            continue
        if one.start > array_free:
            wait = account.wait(place, (array_free, one.start), one.waited_on)
            yield wait if has_run else replace(wait, parts=LatencyParts(preload=wait.cycles))
        array_free, has_run = one.stop, True
    last = max(range(len(activities)), key=lambda place: activities[place].end, default=None)
    if last is not None and activities[last].end > array_free:
        yield account.wait(None, (array_free, activities[last].end), last)


def latency_parts(activities: Sequence[Activity]) -> LatencyParts:
    """Return the parts of the latency of a whole timeline."""
    parts = LatencyParts(computing=sum(one.cycles for one in activities if one.queue is None))
    for wait in array_waits(activities):
        parts += wait.parts
    return parts


class _RoomAccount:
    """The account of each transfer's delay for lack of space, and of the delays already counted."""

    def __init__(self, activities: Sequence[Activity]) -> None:
        self._activities = activities
        self._late: list[int] = []
        self._first: list[int] = []
        self._lacked: list[int | None] = []
        self._counted: dict[int, int] = {}
        for place, one in enumerate(activities):
            own = 0 if one.queue is None else one.place_cycles
            before = one.behind if one.queue is not None else None
            self._late.append(own + (0 if before is None else self._late[before]))
            self._first.append(place if before is None else self._first[before])
            self._lacked.append(self._longest(place if own else None, None if before is None else self._lacked[before]))

    def _longest(self, one: int | None, other: int | None) -> int | None:
        if one is None or other is None:
            return other if one is None else one
        return max(other, one, key=lambda place: self._activities[place].place_cycles)

    def wait(self, activity: int | None, cycles: tuple[int, int], waited_on: int | None) -> ArrayWait:
        """Return the stall of these cycles before an activity, which waits on another."""
        start, stop = cycles
        chain = () if waited_on is None else tuple(_chain(self._activities, waited_on, start))
        counts, lacked_room = dict.fromkeys(NAMES, 0), None
        ends = [stop, *(self._activities[place].start for place in chain[:-1])]
        for place, end in zip(reversed(chain), reversed(ends), strict=True):
            name, passed = _name_of(self._activities[place]), end - max(self._activities[place].start, start)
            if name == LOADS:
                missing = self._missing(place, passed)
                counts[ROOM] += missing
                passed -= missing
                lacked_room = self._lacked[place] if missing else lacked_room
            counts[name] += passed
        return ArrayWait(activity, start, stop, chain, LatencyParts(**counts), lacked_room)

    def _missing(self, place: int, most: int) -> int:
        """Return the cycles, up to `most`, that a transfer is late for lack of space; they are counted from then on."""
        first = self._first[place]
        counted = self._counted.get(first, 0)
        missing = max(0, min(most, self._late[place] - counted))
        self._counted[first] = counted + missing
        return missing


def _chain(activities: Sequence[Activity], last: int, start: int) -> Iterator[int]:
    """Yield the activity that ends last, its last dependency, and so on, back to one that starts by `start`."""
    place: int | None = last
    while place is not None:
        yield place
        if activities[place].start <= start:
            return
        place = activities[place].waited_on


def _name_of(one: Activity) -> str:
    if one.kind is ActivityKind.STORE:
        return "waiting_for_stores"
    return "waiting_for_dram" if one.kind is ActivityKind.COMPUTE else LOADS
