"""Stopwatches and deadlines: the only module that reads a clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Final

LEAST_PROCESSOR_SECONDS: Final = 0.1
"""Shortest processor time from which the load of the machine can be estimated."""
TOO_SLOW: Final = 2.0
"""Factor by which the expected time may exceed the time left before the work is halved."""


def _now() -> float:
    """Return the time of the performance counter; a benchmark may replace `time.perf_counter`."""
    return time.perf_counter()


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """A stopwatch of the seconds since its creation."""

    began: float = field(default_factory=_now, kw_only=True)

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return _now() - self.began


@dataclass(slots=True)
class WorkClock:
    """A clock of counted work, in typical seconds per piece of work: equal on every machine under any load."""

    seconds: float = 0.0
    is_cut: bool = False
    """True if work was skipped for lack of time."""


@dataclass(frozen=True, slots=True)
class Deadline(Stopwatch):
    """A time limit counted from its creation; infinite by default.

    A verb creates one at its start and passes it on.
    """

    limit_seconds: float = inf
    processor_began: float = field(default_factory=time.process_time, kw_only=True)

    @classmethod
    def after(cls, seconds: float | None, *, seconds_ago: float = 0.0) -> Deadline:
        """Return a deadline `seconds` after now, or after `seconds_ago`; None means no limit."""
        return cls(inf if seconds is None else seconds, began=_now() - seconds_ago)

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the deadline; negative once it is past."""
        return self.limit_seconds - self.seconds

    @property
    def is_set(self) -> bool:
        """Return True if a time limit is set."""
        return isfinite(self.limit_seconds)

    @property
    def is_past(self) -> bool:
        """Return True if no time is left."""
        return self.seconds_left <= 0

    @property
    def counts_work(self) -> bool:
        """Return True if the seconds are those of a work clock."""
        return False

    @property
    def is_cut(self) -> bool:
        """Return True if work was skipped for lack of time; always False if no work is counted."""
        return False

    @property
    def has_time_beyond_work(self) -> bool:
        """Return True if all work is done and time is left; always False if no work is counted."""
        return False

    @property
    def at_pace(self) -> Deadline:
        """Return the same deadline, because a clock keeps its pace."""
        return self

    def spend(self, seconds: float) -> None:
        """Account for `seconds` of work; does nothing if a clock measures the time."""

    def stopwatch(self) -> Stopwatch:
        """Return a new stopwatch on the same clock."""
        return Stopwatch()

    @property
    def unlimited(self) -> Deadline:
        """Return the same clock without a limit."""
        return Deadline()

    def for_work(self, seconds: float) -> WorkDeadline:
        """Return a deadline that ends after `seconds` of work or at this deadline, whichever is first."""
        return WorkDeadline(seconds, began=0.0, clock=WorkClock(), latest=self, latest_began=self.seconds)

    def seconds_for(self, processor_seconds: float) -> float:
        """Return the expected duration of that much work, if the load of the machine stays as since the creation."""
        had = time.process_time() - self.processor_began
        waited = self.seconds / had if had > LEAST_PROCESSOR_SECONDS else 1.0
        return processor_seconds * max(1.0, waited)

    def is_too_short_for(self, processor_seconds: float) -> bool:
        """Return True if the time ends before the work does, at the load of the machine so far."""
        return self.seconds_left < self.seconds_for(processor_seconds)

    def cut(self) -> None:
        """Record that work was skipped for lack of time; does nothing if no work is counted."""

    def within(self, seconds: float) -> Deadline:
        """Return the deadline, at most `seconds` from now."""
        return replace(self, limit_seconds=self.seconds + min(seconds, self.seconds_left))


@dataclass(frozen=True, slots=True)
class WorkStopwatch(Stopwatch):
    """A stopwatch of the seconds of work done since its creation."""

    clock: WorkClock = field(kw_only=True)

    @property
    def seconds(self) -> float:
        """Return the seconds of work done."""
        return self.clock.seconds - self.began


@dataclass(frozen=True, slots=True)
class WorkDeadline(Deadline):
    """A limit of work, equal on every machine unless the `latest` deadline passes earlier.

    `latest_began` is the reading in seconds of the latest deadline when the work began.
    """

    clock: WorkClock = field(kw_only=True)
    latest: Deadline = field(kw_only=True)
    latest_began: float = field(kw_only=True)
    is_less: bool = field(default=False, kw_only=True)
    """True if the amount of work has been reduced."""

    @property
    def seconds(self) -> float:
        """Return the seconds of work done since the deadline's creation."""
        return self.clock.seconds - self.began

    @property
    def seconds_left(self) -> float:
        """Return the seconds of work left; at most 0 once the work is done or the time is over."""
        left = self.limit_seconds - self.seconds
        return min(left, self.latest.seconds_left) if self.latest.is_past else left

    @property
    def counts_work(self) -> bool:
        """Return True, because the seconds are those of the work clock."""
        return True

    @property
    def is_cut(self) -> bool:
        """Return True if work was skipped for lack of time."""
        return self.is_less or self.clock.is_cut or (self.latest.is_past and self.seconds < self.limit_seconds)

    @property
    def has_time_beyond_work(self) -> bool:
        """Return True if all work is done and time is left."""
        return self.seconds >= self.limit_seconds and not self.latest.is_past

    @property
    def at_pace(self) -> Deadline:
        """Return the deadline, with the work left halved until it ends in time at the pace so far.

        The steps are this coarse so that two runs on one machine mostly agree.
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
        """Return the same clock without a limit."""
        return replace(self, limit_seconds=inf, latest=Deadline())

    def is_too_short_for(self, processor_seconds: float) -> bool:
        """Return True if the time, not the work, ends before that much work is done."""
        return self.latest.is_too_short_for(processor_seconds)

    def cut(self) -> None:
        """Record that work was skipped for lack of time."""
        self.clock.is_cut = True

    def spend(self, seconds: float) -> None:
        """Account for `seconds` of work."""
        self.clock.seconds += seconds

    def stopwatch(self) -> Stopwatch:
        """Return a new stopwatch of work."""
        return WorkStopwatch(began=self.clock.seconds, clock=self.clock)
