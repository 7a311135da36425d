"""Why the array waits: for each gap between two operators the transfers that it follows from, and what they count as.

What begins last waits for what ends then, so behind each gap there is a chain of activities, one ending where the next
begins. Within the gap these are transfers, since the array runs nothing, or turns at DRAM that outlast their operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from onchip.cost.activity import Activity, ActivityKind, Wait


@dataclass(frozen=True, slots=True)
class LatencyParts:
    """Cycles that together are the latency: computing, and what the array waits for while it does not.

    `preload` passes before the first operator. Between operators the array waits for loads (and moves on the chip); for
    room, where the loads that it waits for could not begin before their places were free; for stores, those after the
    last operator among them; and for DRAM, while operators have it longer than they last.
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
        """The parts by their names, as they are written down."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def __add__(self, other: LatencyParts) -> LatencyParts:
        return LatencyParts(**{name: cycles + other.by_name[name] for name, cycles in self.by_name.items()})


NAMES = tuple(part.name for part in fields(LatencyParts))


@dataclass(frozen=True, slots=True)
class ArrayWait:
    """Cycles [start, stop) in which the array waits for `activity` to begin; None: all have run, and transfers end.

    `chain` are the activities that it follows from, by their places, the latest first; `parts` say what it counts as.
    """

    activity: int | None
    start: int
    stop: int
    chain: tuple[int, ...]
    parts: LatencyParts

    @property
    def cycles(self) -> int:
        """Return how long it waits."""
        return self.stop - self.start

    @property
    def greatest_part(self) -> str:
        """The name of the part that most of it counts as."""
        return max(NAMES, key=lambda name: int(getattr(self.parts, name)))


def array_waits(activities: Sequence[Activity]) -> Iterator[ArrayWait]:
    """Yield every gap in which the array runs nothing, in the order of time."""
    array_free, has_run = 0, False
    for place, one in enumerate(activities):
        if one.queue is not None:
            continue
        if one.start > array_free:
            wait = _wait(activities, place, array_free, one.start, one.waited_on)
            yield wait if has_run else replace(wait, parts=LatencyParts(preload=wait.cycles))
        array_free, has_run = one.stop, True
    last = max(range(len(activities)), key=lambda place: activities[place].end, default=None)
    if last is not None and activities[last].end > array_free:
        yield _wait(activities, None, array_free, activities[last].end, last)


def latency_parts(activities: Sequence[Activity]) -> LatencyParts:
    """What the time of a whole timeline goes by with."""
    parts = LatencyParts(computing=sum(one.cycles for one in activities if one.queue is None))
    for wait in array_waits(activities):
        parts += wait.parts
    return parts


def _wait(activities: Sequence[Activity], place: int | None, start: int, stop: int, waited_on: int | None) -> ArrayWait:
    chain = () if waited_on is None else tuple(_chain(activities, waited_on, start))
    counts = dict.fromkeys(NAMES, 0)
    lacks_room = place is not None and activities[place].waited_for is Wait.PLACE
    for name, cycles in _segments(activities, chain, (start, stop), lacks_room=lacks_room):
        counts[name] += cycles
    return ArrayWait(place, start, stop, chain, LatencyParts(**counts))


def _chain(activities: Sequence[Activity], last: int, start: int) -> Iterator[int]:
    """The activity that ends last, what that waited on, and so on, back to one that begins by `start`."""
    place: int | None = last
    while place is not None:
        yield place
        if activities[place].start <= start:
            return
        place = activities[place].waited_on


def _segments(
    activities: Sequence[Activity], chain: Sequence[int], cycles: tuple[int, int], *, lacks_room: bool
) -> Iterator[tuple[str, int]]:
    """What the cycles of a gap count as, the earliest first: a load counts as room from where room was waited for."""
    start, stop = cycles
    ends = [stop, *(activities[place].start for place in chain[:-1])]
    for place, end in zip(reversed(chain), reversed(ends), strict=True):
        one = activities[place]
        lacks_room = lacks_room or (one.waited_for is Wait.PLACE and one.queue is not None)
        yield _name_of(one, lacks_room=lacks_room), end - max(one.start, start)


def _name_of(one: Activity, *, lacks_room: bool) -> str:
    if one.kind is ActivityKind.STORE:
        return "waiting_for_stores"
    if one.kind is ActivityKind.COMPUTE:
        return "waiting_for_dram"
    return "waiting_for_room" if lacks_room else "waiting_for_loads"
