"""Stopwatches and deadlines: the only module that reads a clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Final

LEAST_PROCESSOR_SECONDS: Final = 0.1
"""Shortest processor time from which the load of the machine can be estimated."""


def _now() -> float:
    """Return the time of the performance counter; a benchmark may replace `time.perf_counter`."""
    return time.perf_counter()


def never() -> bool:
    """Return False: no time limit is set."""
    return False


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """A stopwatch of the seconds since its creation."""

    began: float = field(default_factory=_now, kw_only=True)

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return _now() - self.began


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

    def seconds_for(self, processor_seconds: float) -> float:
        """Return the expected duration of that much work, if the load of the machine stays as since the creation."""
        had = time.process_time() - self.processor_began
        waited = self.seconds / had if had > LEAST_PROCESSOR_SECONDS else 1.0
        return processor_seconds * max(1.0, waited)

    def is_too_short_for(self, processor_seconds: float) -> bool:
        """Return True if the time ends before the work does, at the load of the machine so far."""
        return self.seconds_left < self.seconds_for(processor_seconds)

    def within(self, seconds: float) -> Deadline:
        """Return the deadline, at most `seconds` from now."""
        return replace(self, limit_seconds=self.seconds + min(seconds, self.seconds_left))
