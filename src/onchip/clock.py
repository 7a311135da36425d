"""The one place that reads a clock: since when something runs, and until when it may."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Final

LEAST_PROCESSOR_SECONDS: Final = 0.1
"""Of less nobody can tell how busy the machine is."""


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

    def seconds_for(self, processor_seconds: float) -> float:
        """Return how long so much work takes, if the machine stays as busy as it was since this was made."""
        had = time.process_time() - self.processor_began
        waited = self.seconds / had if had > LEAST_PROCESSOR_SECONDS else 1.0
        return processor_seconds * max(1.0, waited)

    def within(self, seconds: float) -> Deadline:
        """The same, or earlier: at most so many seconds from now."""
        return replace(self, limit_seconds=self.seconds + min(seconds, self.seconds_left))
