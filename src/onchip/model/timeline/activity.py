"""The elements of a timeline: activities with their times and last dependency, and residencies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
