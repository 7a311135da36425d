"""How long a method may run, and how it tells what it has found so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from onchip.answer.result import Stop


class MipSolver(StrEnum):
    """Who solves a mixed-integer program: which is fastest differs by network, and Gurobi needs a licence."""

    CP_SAT = "cp-sat"
    HIGHS = "highs"
    SCIP = "scip"
    GUROBI = "gurobi"


@dataclass(frozen=True, slots=True)
class Limits:
    """None means no limit. A node limit is reproducible, a time limit is not.

    `solver` is for the methods that hand a mixed-integer program to someone else.
    """

    time_limit_seconds: float | None = None
    node_limit: int | None = None
    workers: int = 1
    seed: int = 0
    solver: MipSolver = MipSolver.CP_SAT


@dataclass(frozen=True, slots=True)
class Progress:
    """The best objective value so far (None: no plan yet) and the bound proven so far."""

    seconds: float
    best: int | None
    lower_bound: int
    phase: str


def _silent(progress: Progress) -> None:
    """Report to nobody."""


@dataclass(slots=True)
class Run:
    """One run of a method: its clock (started when made), its limits, its listener, its stop switch.

    `interrupt` may be set from a signal handler or another thread; the method then ends with the
    best plan it has.
    """

    limits: Limits = field(default_factory=Limits)
    listener: Callable[[Progress], None] = _silent
    interrupt: threading.Event = field(default_factory=threading.Event)
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self.started

    @property
    def seconds_left(self) -> float:
        """Seconds until the time limit; infinite without one."""
        limit = self.limits.time_limit_seconds
        return float("inf") if limit is None else limit - self.seconds

    def within(self, seconds: float) -> Run:
        """Return the same run with at most so many seconds left."""
        sooner = replace(self.limits, time_limit_seconds=self.seconds + min(seconds, self.seconds_left))
        return replace(self, limits=sooner)

    @property
    def stop(self) -> Stop | None:
        """Why the method has to stop now, or None."""
        if self.interrupt.is_set():
            return Stop.INTERRUPTED
        return Stop.TIME_LIMIT if self.seconds_left <= 0 else None

    def report(self, best: int | None, lower_bound: int, phase: str) -> None:
        """Tell the listener how far the method is."""
        self.listener(Progress(self.seconds, best, lower_bound, phase))
