"""Solver of mixed-integer programs through MathOpt, with a time limit and a stop switch."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from onchip.answer.result import Stop
from onchip.errors import UsageError
from onchip.search.budget.limits import MipSolver, Run

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt
    from ortools.util.python.solve_interrupter import SolveInterrupter

POLL_SECONDS = 0.05
ROUNDING_SLACK = 1e-4
GRACE_SECONDS = 0.2
LEAST_SECONDS = 0.01
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
        worker.join(POLL_SECONDS)
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
