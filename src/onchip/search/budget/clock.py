"""The one place that reads a clock: since when something runs, and until when it may."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Final

LEAST_PROCESSOR_SECONDS: Final = 0.1
"""Of less nobody can tell how busy the machine is."""
TOO_SLOW: Final = 2.0
"""Times the time that is left: work that would take longer is halved."""


def _now() -> float:
    """Looked up each time, so that a benchmark may count another clock's seconds."""
    return time.perf_counter()


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Tells the seconds since it was made."""

    began: float = field(default_factory=_now, kw_only=True)

    @property
    def seconds(self) -> float:
        """Return how long it has run."""
        return _now() - self.began


@dataclass(slots=True)
class WorkClock:
    """Goes on with what is done, by the seconds that it mostly takes: the same on every machine, however busy."""

    seconds: float = 0.0
    is_cut: bool = False
    """Whether something was left undone because of the time."""


@dataclass(frozen=True, slots=True)
class Deadline(Stopwatch):
    """A time limit that counts from when it was made; infinite where there is none.

    A verb makes one when it begins, and hands it down.
    """

    limit_seconds: float = inf
    processor_began: float = field(default_factory=time.process_time, kw_only=True)

    @classmethod
    def after(cls, seconds: float | None, *, seconds_ago: float = 0.0) -> Deadline:
        """After so many seconds from now, or from so long ago; None is never."""
        return cls(inf if seconds is None else seconds, began=_now() - seconds_ago)

    @property
    def seconds_left(self) -> float:
        """Return how long until it; below 0 once it is past."""
        return self.limit_seconds - self.seconds

    @property
    def is_set(self) -> bool:
        """Whether there is a limit at all."""
        return isfinite(self.limit_seconds)

    @property
    def is_past(self) -> bool:
        """Whether no time is left."""
        return self.seconds_left <= 0

    @property
    def counts_work(self) -> bool:
        """Whether its seconds are those of a work clock."""
        return False

    @property
    def is_cut(self) -> bool:
        """Return whether less than the whole work is done because of the time; never where none is counted."""
        return False

    @property
    def has_time_beyond_work(self) -> bool:
        """Whether all work is done that was to be, and there would be time for more; never where none is counted."""
        return False

    @property
    def at_pace(self) -> Deadline:
        """Return the same, as a clock keeps its pace."""
        return self

    def spend(self, seconds: float) -> None:
        """So many seconds of work are done; where a clock tells the time, it does without being told."""

    def stopwatch(self) -> Stopwatch:
        """Return one that begins now, by the same clock."""
        return Stopwatch()

    @property
    def unlimited(self) -> Deadline:
        """The same clock without a limit."""
        return Deadline()

    def for_work(self, seconds: float) -> WorkDeadline:
        """Return when so many seconds of work are done, or this deadline is past."""
        return WorkDeadline(seconds, began=0.0, clock=WorkClock(), latest=self, latest_began=self.seconds)

    def seconds_for(self, processor_seconds: float) -> float:
        """Return how long so much work takes, if the machine stays as busy as it was since this was made."""
        had = time.process_time() - self.processor_began
        waited = self.seconds / had if had > LEAST_PROCESSOR_SECONDS else 1.0
        return processor_seconds * max(1.0, waited)

    def is_too_short_for(self, processor_seconds: float) -> bool:
        """Whether the time is over before so much work is done, the machine being as busy as it was so far."""
        return self.seconds_left < self.seconds_for(processor_seconds)

    def cut(self) -> None:
        """Less was done than there would be with more time; where no work is counted, nobody asks."""

    def within(self, seconds: float) -> Deadline:
        """The same, or earlier: at most so many seconds from now."""
        return replace(self, limit_seconds=self.seconds + min(seconds, self.seconds_left))


@dataclass(frozen=True, slots=True)
class WorkStopwatch(Stopwatch):
    """Tells the seconds of work that were done since it was made."""

    clock: WorkClock = field(kw_only=True)

    @property
    def seconds(self) -> float:
        """Return how much was done."""
        return self.clock.seconds - self.began


@dataclass(frozen=True, slots=True)
class WorkDeadline(Deadline):
    """A limit of work: the same is done before it on every machine, unless the latest deadline is past before that.

    `latest_began` are the seconds of the latest deadline when work began.
    """

    clock: WorkClock = field(kw_only=True)
    latest: Deadline = field(kw_only=True)
    latest_began: float = field(kw_only=True)
    is_less: bool = field(default=False, kw_only=True)
    """Whether it was more work at first."""

    @property
    def seconds(self) -> float:
        """Return how many seconds of work were done since it was made."""
        return self.clock.seconds - self.began

    @property
    def seconds_left(self) -> float:
        """Return how much work is left; below 0 once that, or the time, is over."""
        left = self.limit_seconds - self.seconds
        return min(left, self.latest.seconds_left) if self.latest.is_past else left

    @property
    def counts_work(self) -> bool:
        """Its seconds are those of its clock."""
        return True

    @property
    def is_cut(self) -> bool:
        """Return whether less than the whole work is done because of the time."""
        return self.is_less or self.clock.is_cut or (self.latest.is_past and self.seconds < self.limit_seconds)

    @property
    def has_time_beyond_work(self) -> bool:
        """Whether all work is done that was to be, and there would be time for more."""
        return self.seconds >= self.limit_seconds and not self.latest.is_past

    @property
    def at_pace(self) -> Deadline:
        """Return the same; or half as much work, or a quarter, where at the pace so far there is no time for more.

        It is only so coarse that two runs on one machine mostly agree.
        """
        took, left = self.latest.seconds - self.latest_began, self.limit_seconds - self.seconds
        if min(took, self.seconds) < LEAST_PROCESSOR_SECONDS:
            return self
        less = left
        while less * took > TOO_SLOW * self.seconds * max(self.latest.seconds_left, LEAST_PROCESSOR_SECONDS):
            less /= 2
        return replace(self, limit_seconds=self.seconds + less, is_less=less < left)

    @property
    def unlimited(self) -> Deadline:
        """The same clock without a limit."""
        return replace(self, limit_seconds=inf, latest=Deadline())

    def is_too_short_for(self, processor_seconds: float) -> bool:
        """Whether the time, not the work, is over before so much work is done."""
        return self.latest.is_too_short_for(processor_seconds)

    def cut(self) -> None:
        """Less was done than there would be with more time."""
        self.clock.is_cut = True

    def spend(self, seconds: float) -> None:
        """So many seconds of work are done."""
        self.clock.seconds += seconds

    def stopwatch(self) -> Stopwatch:
        """Return one of work, which begins now."""
        return WorkStopwatch(began=self.clock.seconds, clock=self.clock)
