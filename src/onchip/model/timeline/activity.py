"""Activities of the array and of DMA queues over time, and the waits of the array.

An activity starts when its last dependency ends, so behind each gap there is a chain of activities, each ending where
the next starts. Within the gap these are transfers, since the array is idle, or uses of DRAM that outlast their
operator. Transfers run in turns. If one is late for lack of space, all later ones are late by the same cycles, until
one waits for data anyway. These cycles count once, in the first gap that waits for any of these transfers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final, TypeAlias

from onchip.arch.memory import DRAM


class Wait(StrEnum):
    """The last dependency of a Compute or a Copy; of several that end together, the first in this list counts.

    DRAM stands for the exclusive resource of a transfer: DRAM, its ports of one direction, or a link.
    """

    TURN = "turn"
    DATA = "data"
    PLACE = "place"
    DRAM = "dram"


_RANK: Final = {wait: rank for rank, wait in enumerate(Wait)}


class ActivityKind(StrEnum):
    """The kind of a Compute or a Copy."""

    COMPUTE = "compute"
    LOAD = "load"
    STORE = "store"
    MOVE = "move"


Moment: TypeAlias = tuple[int, int]
"""A cycle, and the number of the activity that ends then."""
START: Final[Moment] = (0, -1)
"""The start of the program, after no activity."""

Way: TypeAlias = tuple[int | None, str | None, str | None]
"""A Copy's queue, source and target."""
ON_THE_ARRAY: Final[Way] = (None, None, None)


@dataclass(frozen=True, slots=True)
class Activity:
    """A Compute (`queue` None) or a Copy on a queue, in cycles [start, stop); `instruction` is its number in the plan.

    `subject` names the operator or the tensor. `idle_cycles` passed between its turn and its start, until the
    dependency `waited_for`; `waited_on` is the number of the activity that ended then. From `start` on it occupies DRAM
    for `dram_cycles`, possibly longer than it lasts, if that is counted.
    """

    instruction: int
    subject: str
    start: int
    stop: int
    queue: int | None = None
    source: str | None = None
    target: str | None = None
    waited_for: Wait = Wait.TURN
    waited_on: int | None = None
    idle_cycles: int = 0
    place_cycles: int = 0
    behind: int | None = None
    dram_cycles: int = 0

    @property
    def cycles(self) -> int:
        """Return its duration in cycles."""
        return self.stop - self.start

    @property
    def end(self) -> int:
        """Return the cycle in which it, and its use of DRAM, have ended."""
        return max(self.stop, self.start + self.dram_cycles)

    @property
    def kind(self) -> ActivityKind:
        """Return its kind: a Compute, or the direction of a Copy."""
        if self.queue is None:
            return ActivityKind.COMPUTE
        if self.source == DRAM:
            return ActivityKind.LOAD
        return ActivityKind.STORE if self.target == DRAM else ActivityKind.MOVE


@dataclass(frozen=True, slots=True)
class ActivityStart:
    """The start of an activity, and its last dependency since its turn."""

    start: int
    waited_for: Wait
    waited_on: int | None
    idle_cycles: int
    place_cycles: int
    behind: int | None

    def activity(
        self, instruction: int, subject: str, cycles: int, way: Way = ON_THE_ARRAY, dram_cycles: int = 0
    ) -> Activity:
        """Return the activity that starts there and lasts `cycles`; `way` is a Copy's."""
        queue, source, target = way
        return Activity(
            instruction,
            subject,
            self.start,
            self.start + cycles,
            queue,
            source,
            target,
            self.waited_for,
            self.waited_on,
            self.idle_cycles,
            self.place_cycles,
            self.behind,
            dram_cycles,
        )


def begin_after(turn: Moment, moments: Iterable[tuple[Moment, Wait]]) -> ActivityStart:
    """Return the start after the turn and all moments; of those that come last together the first of Wait counts."""
    (last, cause), (other, other_cause) = (turn, Wait.TURN), (turn, Wait.TURN)
    for moment, wait in moments:
        if _is_later(moment, wait, last, cause):
            last, cause = moment, wait
        if wait is not Wait.PLACE and _is_later(moment, wait, other, other_cause):
            other, other_cause = moment, wait
    behind = None if other_cause is Wait.DATA else _place_of(other)
    return ActivityStart(last[0], cause, _place_of(last), last[0] - turn[0], last[0] - other[0], behind)


def _is_later(moment: Moment, wait: Wait, last: Moment, cause: Wait) -> bool:
    return moment[0] > last[0] or (moment[0] == last[0] and _RANK[wait] < _RANK[cause])


def _place_of(moment: Moment) -> int | None:
    return None if moment[1] < 0 else moment[1]


@dataclass(slots=True)
class PlaceUse:
    """A residency: bytes [offset, offset + size) of a memory, and the cycles from its first use to its last.

    `begun` is the number of its Allocate in the program. It has no use while `stop` is None.
    """

    begun: int
    tensor: str
    memory: str
    offset_bytes: int
    size_bytes: int
    start: int = 0
    stop: int | None = None

    def use(self, start: int, stop: int) -> None:
        """Extend the use to these cycles."""
        self.start = start if self.stop is None else min(self.start, start)
        self.stop = stop if self.stop is None else max(self.stop, stop)


def most_bytes_at_once(uses: Iterable[PlaceUse]) -> int:
    """Return the maximum bytes in use in one cycle."""
    changes = [(one.start, one.size_bytes) for one in uses if one.stop is not None]
    changes += [(one.stop, -one.size_bytes) for one in uses if one.stop is not None]
    most = live = 0
    for _, change in sorted(changes):
        live += change
        most = max(most, live)
    return most


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
