"""How long a method may run, and how it tells what it has found so far."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from onchip.answer.result import Stop
from onchip.search.budget.clock import Deadline, Stopwatch
from onchip.search.budget.warm_start import WarmStart


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


_NOT_GIVEN: Final = Deadline()


@dataclass(slots=True)
class Run:
    """One run of a method: its limits, its listener, its stop switch, its deadline.

    Without a deadline the time limit counts from now. `interrupt` may be set from a signal handler or another thread;
    the method then ends with the best plan it has. `warm_start` is what was known of the problem before.
    """

    limits: Limits = field(default_factory=Limits)
    listener: Callable[[Progress], None] = _silent
    interrupt: threading.Event = field(default_factory=threading.Event)
    deadline: Deadline = _NOT_GIVEN
    watch: Stopwatch = field(default_factory=Stopwatch)
    warm_start: WarmStart | None = None

    def __post_init__(self) -> None:
        """Make the deadline that was not given."""
        if self.deadline is _NOT_GIVEN:
            self.deadline = Deadline.after(self.limits.time_limit_seconds)

    @property
    def seconds(self) -> float:
        """Return how long since the run began."""
        return self.watch.seconds

    @property
    def seconds_left(self) -> float:
        """Return how long until the deadline; infinite without one."""
        return self.deadline.seconds_left

    @property
    def counts_work(self) -> bool:
        """Whether its seconds are those of counted work, the same on every machine."""
        return self.deadline.counts_work

    def spend(self, seconds: float) -> None:
        """So many seconds of work are done, where work is counted."""
        self.deadline.spend(seconds)

    def for_work(self, seconds: float) -> Run:
        """Return the same run, that ends when so many seconds of work are done, or earlier."""
        deadline = self.deadline.for_work(seconds)
        return replace(self, deadline=deadline, watch=deadline.stopwatch())

    @property
    def at_pace(self) -> Run:
        """Return the same run, with less work to do where at the pace so far there is no time for all of it."""
        return replace(self, deadline=self.deadline.at_pace)

    def apart(self, seconds: float) -> Run:
        """Return a run of its own, of so many seconds of this one, that tells nobody and has no other limits."""
        own = self.deadline.within(seconds) if self.deadline.is_set else self.deadline
        return Run(interrupt=self.interrupt, deadline=own, watch=own.stopwatch())

    def within(self, seconds: float) -> Run:
        """Return the same run with at most so many seconds left."""
        return replace(self, deadline=self.deadline.within(seconds))

    @property
    def limits_left(self) -> Limits:
        """The limits with what is left of the time, for another process."""
        left = max(0.0, self.seconds_left) if self.deadline.is_set else None
        return replace(self.limits, time_limit_seconds=left)

    @property
    def stop(self) -> Stop | None:
        """Why the method has to stop now, or None."""
        if self.interrupt.is_set():
            return Stop.INTERRUPTED
        return Stop.TIME_LIMIT if self.deadline.is_past else None

    def report(self, best: int | None, lower_bound: int, phase: str) -> None:
        """Tell the listener how far the method is."""
        self.listener(Progress(self.seconds, best, lower_bound, phase))
