"""What a timeline consists of: who runs from when to when, and what the last thing was that it waited for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Wait(StrEnum):
    """What the beginning of a Compute or a Copy waited for longest; of several that ended together, the first here."""

    TURN = "turn"
    DATA = "data"
    PLACE = "place"
    DRAM = "dram"


@dataclass(frozen=True, slots=True)
class ScheduledActivity:
    """Cycles [start, stop) of a Compute (`queue` None) or of a Copy, number `instruction` of the program.

    `subject` names the operator or the tensor. `idle_cycles` passed since its turn came until it began; what it
    waited for until then is `waited_for`. From `start` on it has DRAM for `dram_cycles`, maybe longer than it lasts.
    """

    instruction: int
    subject: str
    start: int
    stop: int
    waited_for: Wait
    idle_cycles: int
    dram_cycles: int = 0
    queue: int | None = None
    source: str | None = None
    target: str | None = None

    @property
    def cycles(self) -> int:
        """Return for how many cycles it lasts."""
        return self.stop - self.start


@dataclass(frozen=True)
class ScheduleTimeline:
    """`activities` in the program's order, in cycles from 0, when the program begins."""

    activities: tuple[ScheduledActivity, ...]

    @cached_property
    def latency_cycles(self) -> int:
        """Until every instruction and every turn at DRAM has ended."""
        ends = (max(each.stop, each.start + each.dram_cycles) for each in self.activities)
        return max(ends, default=0)

    @cached_property
    def parts(self) -> LatencyParts:
        """What the time goes by with."""
        computes = [each for each in self.activities if each.queue is None]
        idle = dict.fromkeys(Wait, 0)
        for each in computes:
            idle[each.waited_for] += each.idle_cycles
        last = computes[-1].stop if computes else 0
        return LatencyParts(
            sum(each.cycles for each in computes),
            idle[Wait.DATA],
            idle[Wait.PLACE],
            idle[Wait.DRAM],
            self.latency_cycles - last,
        )


@dataclass(frozen=True, slots=True)
class LatencyParts:
    """Cycles that together are the latency: computing, and what the array waits for while it does not.

    Until the next Compute begins it waits for its data, for its place, or for its turn at DRAM, whichever ends last;
    `after_last_compute` the last Copies are under way.
    """

    computing: int
    waiting_for_data: int
    waiting_for_places: int
    waiting_for_dram: int
    after_last_compute: int

    @property
    def total(self) -> int:
        """Return the latency in cycles: all parts together."""
        waiting = self.waiting_for_data + self.waiting_for_places + self.waiting_for_dram
        return self.computing + waiting + self.after_last_compute
