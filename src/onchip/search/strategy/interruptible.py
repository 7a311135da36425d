"""Work that does not look at the clock or at Ctrl-C itself: it runs in a thread, which is watched."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from onchip.answer.result import Result, Status, Stop
from onchip.errors import InternalError
from onchip.search.budget.limits import Run

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

T = TypeVar("T")
WATCH_EVERY_SECONDS = 0.02
LEAST_SECONDS = LEAST_WORK = 0.01
LOADING_SECONDS = 1.5


def cp_sat_is_within_reach(run: Run) -> bool:
    """Whether CP-SAT is loaded, or time enough left to load it, which nothing can interrupt."""
    return run.stop is None and ("ortools.sat.python.cp_model" in sys.modules or run.seconds_left > LOADING_SECONDS)


def _silent() -> None:
    """Report to nobody."""


class WatchedWork(Generic[T]):
    """Work in a thread, which releases the interpreter lock most of the time."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._results: list[T] = []
        self._errors: list[BaseException] = []

        def target() -> None:
            try:
                self._results.append(work())
            except BaseException as error:  # raised below, in the thread that waits
                self._errors.append(error)

        self._thread = threading.Thread(target=target, daemon=True)
        self._thread.start()

    def watch(self, is_over: Callable[[], bool]) -> bool:
        """Wait until the work has ended, or a look now and then, at least one, says that the wait is over.

        Return whether the work has ended.
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
        """Wait for the end; return what the work returns, or raise what it raises."""
        self._thread.join()
        if self._errors:
            raise self._errors[0]
        return self._results[0]


def run_watched(work: Callable[[], T], stop: Callable[[], None], run: Run, report: Callable[[], None] = _silent) -> T:
    """Return what `work` returns in a thread, or raise what it raises; tell it to `stop` when the run has to.

    `report` is called now and then, at least once. `work` has to return soon after `stop`.
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
    """Solve by CP-SAT with the run's workers, seed and time; Ctrl-C ends it early.

    It ends after so much work, too, in what CP-SAT counts as about a second: with one worker the same on every machine.
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
) -> Result[T]:
    """Solve as `solve_interruptibly`; say what CP-SAT claims and `extract` reads; raises InternalError for a bad model.

    Objective and bound are whole numbers of at least 0, both 0 where the model has no objective.
    """
    from ortools.sat.python import cp_model

    status = solve_interruptibly(solver, model, run, most_work)
    if status == cp_model.INFEASIBLE:
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, method)
    stop = run.stop or (Stop.NODE_LIMIT if most_work < float("inf") else Stop.TIME_LIMIT)
    if status == cp_model.UNKNOWN:
        bound = solver.best_objective_bound if model.has_objective() else 0.0
        return Result(Status.UNKNOWN, None, None, max(0, round(bound)), run.seconds, method, stop)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise InternalError(f"CP-SAT ended with {solver.status_name(status)}: {model.validate()}", place=method)
    value = round(solver.objective_value)
    if status == cp_model.OPTIMAL:
        return Result(Status.OPTIMAL, extract(), value, value, run.seconds, method)
    bound = max(0, round(solver.best_objective_bound))
    return Result(Status.FEASIBLE, extract(), value, bound, run.seconds, method, stop)
