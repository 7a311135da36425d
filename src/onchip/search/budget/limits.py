"""The limits of a run, its warm start, and budgets that strategies share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Final

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import Stop
from onchip.search.budget.clock import Deadline, Stopwatch


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A legal plan of `problem` with its value (None if there is no plan), and a lower bound on all of its plans.

    A plan of a smaller scratchpad is a plan of a larger one at the same cost; a bound of a larger one holds for a
    smaller. It does not hold for any other problem, such as a subproblem that a method derives from this one.
    """

    problem: Problem
    plan: Plan | None
    value: int | None
    lower_bound: int

    @classmethod
    def of(cls, problem: Problem, plan: Plan | None, value: int | None, lower_bound: int) -> WarmStart:
        """Return the warm start of a problem from a plan of a smaller scratchpad and a bound of a larger one."""
        return cls(problem, None if plan is None else _within(problem, plan), value, lower_bound)


def _within(problem: Problem, plan: Plan) -> Plan:
    """Return the plan in the problem's scratchpads; split operators stay split."""
    planned = plan.problem and replace(problem, graph=plan.problem.graph)
    return replace(plan, memories=problem.memories, problem=planned)


class MipSolver(StrEnum):
    """The solvers of mixed-integer programs; the fastest differs by network, and Gurobi needs a licence."""

    CP_SAT = "cp-sat"
    HIGHS = "highs"
    SCIP = "scip"
    GUROBI = "gurobi"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run; None means no limit. A node limit is reproducible, a time limit is not.

    `solver` is used by the methods that solve a mixed-integer program.
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
    """Ignore the report."""


_NOT_GIVEN: Final = Deadline()


@dataclass(slots=True)
class Run:
    """A run of a method: its limits, progress listener, stop switch and deadline.

    Without a deadline the time limit counts from now. `interrupt` may be set from a signal handler or another thread;
    the method then ends with the best plan found. `warm_start` holds earlier answers to the problem.
    """

    limits: Limits = field(default_factory=Limits)
    listener: Callable[[Progress], None] = _silent
    interrupt: threading.Event = field(default_factory=threading.Event)
    deadline: Deadline = _NOT_GIVEN
    watch: Stopwatch = field(default_factory=Stopwatch)
    warm_start: WarmStart | None = None

    def __post_init__(self) -> None:
        """Set the default deadline."""
        if self.deadline is _NOT_GIVEN:
            self.deadline = Deadline.after(self.limits.time_limit_seconds)

    @property
    def seconds(self) -> float:
        """Return the seconds since the run began."""
        return self.watch.seconds

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the deadline; infinite without one."""
        return self.deadline.seconds_left

    @property
    def counts_nodes(self) -> bool:
        """True if effort is counted in nodes, not in seconds: with a node limit, or without a time limit."""
        return self.limits.node_limit is not None or not self.deadline.is_set

    def apart(self, seconds: float) -> Run:
        """Return a silent run of at most `seconds` of this run's time, without its other limits."""
        own = self.deadline.within(seconds) if self.deadline.is_set else self.deadline
        return Run(interrupt=self.interrupt, deadline=own)

    def within(self, seconds: float) -> Run:
        """Return the same run with at most `seconds` left."""
        return replace(self, deadline=self.deadline.within(seconds))

    @property
    def stop(self) -> Stop | None:
        """Return the reason why the method has to stop now, or None."""
        if self.interrupt.is_set():
            return Stop.INTERRUPTED
        return Stop.TIME_LIMIT if self.deadline.is_past else None

    def report(self, best: int | None, lower_bound: int, phase: str) -> None:
        """Report the method's progress to the listener."""
        self.listener(Progress(self.seconds, best, lower_bound, phase))


@dataclass(slots=True)
class Budget:
    """The seconds or nodes left of a run; a node is about one step of an exact search.

    Nodes are counted if the run has a node limit, or no time limit. The same seed and node limit then give the same
    answer, unless the deadline ends the search earlier.
    """

    run: Run
    nodes: float = field(default=0.0, init=False)

    @property
    def nodes_left(self) -> float:
        """Number of nodes that may still be spent; infinite without a node limit."""
        limit = self.run.limits.node_limit
        return inf if limit is None else limit - self.nodes

    @property
    def is_limited(self) -> bool:
        """True if there is a node limit or a time limit."""
        return self.run.limits.node_limit is not None or self.run.deadline.is_set

    @property
    def spent(self) -> float:
        """Return the nodes spent, or the seconds since the deadline was set."""
        return self.nodes if self.run.counts_nodes else self.run.deadline.seconds

    @property
    def stop(self) -> Stop | None:
        """Reason why the search has to stop now, or None."""
        return self.run.stop or (Stop.NODE_LIMIT if self.nodes_left <= 0 else None)
