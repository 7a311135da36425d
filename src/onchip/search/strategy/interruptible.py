"""Uninterruptible work in a thread that is watched for the deadline and Ctrl-C: CP-SAT, and solvers of MathOpt."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from onchip.answer.result import SearchResult, Status, Stop
from onchip.errors import InternalError, UsageError
from onchip.search.budget.limits import MipSolver, Run

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt
    from ortools.sat.python import cp_model
    from ortools.util.python.solve_interrupter import SolveInterrupter


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


ROUNDING_SLACK = 1e-4
GRACE_SECONDS = 0.2
SHARE_FOR_THE_SOLVER = 0.9
FULL_LINEARIZATION = 2
INTEGER_TOLERANCE = 1e-9
"""HiGHS's default is 1e-6. Multiplied by the bytes of a scratchpad that exceeds one byte, so tensors could overlap."""


class UnfinishedModelError(Exception):
    """An error raised if the run has to stop while the model is being built."""


@dataclass(frozen=True, slots=True)
class MipOutcome:
    """The outcome of a solve. `values` is None without a solution; `lower_bound` is the solver's bound, rounded up."""

    values: Mapping[mathopt.Variable, float] | None
    lower_bound: int
    is_infeasible: bool
    stopped_by: Stop

    def is_one(self, variable: mathopt.Variable) -> bool:
        """Return True if a binary variable is 1 in the solution."""
        return self.integer(variable) == 1

    def integer(self, variable: mathopt.Variable) -> int:
        """Return the value of an integer variable in the solution."""
        return 0 if self.values is None else round(self.values[variable])


def solve_mip(model: mathopt.Model, run: Run, *, mostly_linear: bool = False) -> MipOutcome:
    """Solve a minimisation whose objective is an integer of at least 0 at every solution.

    Raises UsageError if the solver is not installed. After an interruption HiGHS and SCIP are abandoned in their
    thread, as is a solver that overruns its time: its results are lost. Set `mostly_linear` if the model consists of
    sums of integers rather than of choices between booleans: CP-SAT then proves bounds by linear relaxation instead of
    clauses.
    """
    from ortools.util.python.solve_interrupter import SolveInterrupter

    ended: list[mathopt.SolveResult | Exception] = []
    # SCIP's bridge prints an error for every interrupter that it receives.
    interrupter = None if run.limits.solver is MipSolver.SCIP else SolveInterrupter()
    worker = threading.Thread(target=lambda: ended.append(_solve(model, run, interrupter, mostly_linear)), daemon=True)
    worker.start()
    while worker.is_alive() and not run.interrupt.is_set() and run.seconds_left > -GRACE_SECONDS:
        worker.join(WATCH_EVERY_SECONDS)
    if worker.is_alive() and interrupter is not None:
        interrupter.interrupt()
        if run.limits.solver is not MipSolver.HIGHS:
            worker.join(GRACE_SECONDS)
    if not ended:
        return MipOutcome(None, 0, is_infeasible=False, stopped_by=run.stop or Stop.TIME_LIMIT)
    if isinstance(ended[0], Exception):
        raise _as_usage_error(ended[0], run.limits.solver)
    return _outcome(ended[0], run)


def _solve(
    model: mathopt.Model, run: Run, interrupter: SolveInterrupter | None, mostly_linear: bool
) -> mathopt.SolveResult | Exception:
    from ortools.math_opt.python import mathopt

    solver_types = {
        MipSolver.CP_SAT: mathopt.SolverType.CP_SAT,
        MipSolver.HIGHS: mathopt.SolverType.HIGHS,
        MipSolver.SCIP: mathopt.SolverType.GSCIP,
        MipSolver.GUROBI: mathopt.SolverType.GUROBI,
    }
    solver = run.limits.solver
    parameters = mathopt.SolveParameters(relative_gap_tolerance=0.0, random_seed=run.limits.seed)
    if solver is MipSolver.HIGHS:  # HiGHS rejects the generic option
        parameters.highs.int_options["threads"] = run.limits.workers
        parameters.highs.double_options["mip_feasibility_tolerance"] = INTEGER_TOLERANCE
    else:
        parameters.threads = run.limits.workers
    if solver is MipSolver.SCIP:  # presolving once proved a bound above a solution (tests/found/plan-8d536173.json)
        parameters.gscip.int_params["presolving/maxrounds"] = 0
    if mostly_linear and solver is MipSolver.CP_SAT:
        parameters.cp_sat.linearization_level = FULL_LINEARIZATION
    if math.isfinite(run.seconds_left):
        seconds = run.seconds_left * SHARE_FOR_THE_SOLVER  # solvers check the clock only occasionally
        parameters.time_limit = timedelta(seconds=max(LEAST_SECONDS, seconds))
    try:
        return mathopt.solve(model, solver_types[solver], params=parameters, interrupter=interrupter)
    except (RuntimeError, AttributeError, ValueError) as error:
        return error


def _as_usage_error(error: Exception, solver: MipSolver) -> Exception:
    """Convert an error: a missing Gurobi is a RuntimeError, an unknown option is an AttributeError of MathOpt."""
    if isinstance(error, RuntimeError):
        others = ", ".join(other for other in MipSolver if other is not solver)
        return UsageError(f"{solver} is not installed: {error}", place=f"solver {solver}", expected=others)
    if isinstance(error, AttributeError):
        return UsageError(
            f"{solver} refuses an option (threads, seed or gap)", place=f"solver {solver}", expected="another solver"
        )
    return error


def _outcome(result: mathopt.SolveResult, run: Run) -> MipOutcome:
    from ortools.math_opt.python import mathopt

    reason = result.termination.reason
    if reason in (mathopt.TerminationReason.INFEASIBLE, mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED):
        return MipOutcome(None, 0, is_infeasible=True, stopped_by=Stop.COMPLETED)
    dual = result.best_objective_bound()
    bound = max(0, math.ceil(dual - ROUNDING_SLACK)) if math.isfinite(dual) else 0
    values = result.variable_values() if result.has_primal_feasible_solution() else None
    if reason is mathopt.TerminationReason.OPTIMAL:
        return MipOutcome(values, bound, is_infeasible=False, stopped_by=Stop.COMPLETED)
    return MipOutcome(values, bound, is_infeasible=False, stopped_by=run.stop or Stop.TIME_LIMIT)
