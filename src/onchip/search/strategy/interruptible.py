"""Uninterruptible work, run in a thread that is watched for the deadline and Ctrl-C."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from onchip.answer.result import SearchResult, Status, Stop
from onchip.errors import InternalError
from onchip.search.budget.limits import Run

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

T = TypeVar("T")
WATCH_EVERY_SECONDS = 0.02
LEAST_SECONDS = LEAST_WORK = 0.01
LOADING_SECONDS = 1.5


def cp_sat_is_within_reach(run: Run) -> bool:
    """Return True if CP-SAT is imported, or there is time left for the import, which cannot be interrupted."""
    return run.stop is None and ("ortools.sat.python.cp_model" in sys.modules or run.seconds_left > LOADING_SECONDS)


def _silent() -> None:
    """Ignore the report."""


class WatchedWork(Generic[T]):
    """Work in a thread that releases the interpreter lock most of the time."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._results: list[T] = []
        self._errors: list[BaseException] = []

        def target() -> None:
            try:
                self._results.append(work())
            except BaseException as error:  # raised again in the waiting thread
                self._errors.append(error)

        self._thread = threading.Thread(target=target, daemon=True)
        self._thread.start()

    def watch(self, is_over: Callable[[], bool]) -> bool:
        """Wait until the work has ended or `is_over` returns True; `is_over` is polled at least once.

        Returns True if the work has ended.
        """
        has_ended = False
        while not has_ended:
            self._thread.join(WATCH_EVERY_SECONDS)
            has_ended = self.has_ended
            if is_over():
                break
        return has_ended

    @property
    def has_ended(self) -> bool:
        """True if the thread has ended."""
        return not self._thread.is_alive()

    def end(self) -> T:
        """Wait for the end; return the result of the work, or raise its exception."""
        self._thread.join()
        if self._errors:
            raise self._errors[0]
        return self._results[0]


def run_watched(work: Callable[[], T], stop: Callable[[], None], run: Run, report: Callable[[], None] = _silent) -> T:
    """Run `work` in a thread and return its result or raise its exception; call `stop` when the run has to stop.

    `report` is called periodically, at least once. `work` must return soon after `stop`.
    """
    watched = WatchedWork(work)

    def look() -> bool:
        report()
        if run.stop is not None:
            stop()
        return False

    try:
        watched.watch(look)
    except BaseException:
        stop()
        watched.watch(lambda: False)
        raise
    return watched.end()


def solve_interruptibly(
    solver: cp_model.CpSolver, model: cp_model.CpModel, run: Run, most_work: float = float("inf")
) -> cp_model.CpSolverStatus:
    """Solve with CP-SAT, using the run's workers, seed and time; Ctrl-C ends the solve early.

    The solve also ends after `most_work` of CP-SAT's deterministic time, about a second per unit. With one worker this
    limit is equal on every machine.
    """
    parameters = solver.parameters
    if run.deadline.is_set:
        parameters.max_time_in_seconds = max(LEAST_SECONDS, run.seconds_left)
    if most_work < float("inf"):
        parameters.max_deterministic_time = max(LEAST_WORK, most_work)
    parameters.num_workers = run.limits.workers
    parameters.random_seed = run.limits.seed
    parameters.catch_sigint_signal = False
    return run_watched(lambda: solver.solve(model), solver.stop_search, run)


def solve_for_result(
    solver: cp_model.CpSolver,
    model: cp_model.CpModel,
    run: Run,
    method: str,
    extract: Callable[[], T],
    most_work: float = float("inf"),
) -> SearchResult[T]:
    """Solve as `solve_interruptibly` does, and return CP-SAT's status and bound with the answer of `extract`.

    Objective and bound are integers of at least 0, both 0 if the model has no objective. Raises InternalError for an
    invalid model.
    """
    from ortools.sat.python import cp_model

    status = solve_interruptibly(solver, model, run, most_work)
    if status == cp_model.INFEASIBLE:
        return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, method)
    stop = run.stop or (Stop.NODE_LIMIT if most_work < float("inf") else Stop.TIME_LIMIT)
    if status == cp_model.UNKNOWN:
        bound = solver.best_objective_bound if model.has_objective() else 0.0
        return SearchResult(Status.UNKNOWN, None, None, max(0, round(bound)), run.seconds, method, stop)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise InternalError(f"CP-SAT ended with {solver.status_name(status)}: {model.validate()}", place=method)
    value = round(solver.objective_value)
    if status == cp_model.OPTIMAL:
        return SearchResult(Status.OPTIMAL, extract(), value, value, run.seconds, method)
    bound = max(0, round(solver.best_objective_bound))
    return SearchResult(Status.FEASIBLE, extract(), value, bound, run.seconds, method, stop)
