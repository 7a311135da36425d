"""Satisfiability queries to CP-SAT."""

from __future__ import annotations

from enum import Enum

from ortools.sat.python import cp_model

from onchip.search.budget.clock import Deadline

LEAST_SECONDS = 0.05


class Answered(Enum):
    """The answer of the solver: a solution, a proof of infeasibility, or no decision in time."""

    SOLUTION = "solution"
    NONE = "none"
    OPEN = "open"


class OutOfTimeError(Exception):
    """An error raised when the time is over before a model is complete."""


def in_time(deadline: Deadline) -> None:
    """Raise OutOfTimeError once the deadline is past, during the construction of large models."""
    if deadline.is_past:
        raise OutOfTimeError


def searched(model: cp_model.CpModel, seconds: float, workers: int) -> tuple[Answered, cp_model.CpSolver]:
    """Search for any solution, which the solver holds; deterministic for the same model with one worker."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds, LEAST_SECONDS)
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = 0
    solver.parameters.stop_after_first_solution = True
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answered.SOLUTION, solver
    return (Answered.NONE if status == cp_model.INFEASIBLE else Answered.OPEN), solver
