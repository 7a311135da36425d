"""Asking CP-SAT whether a model has any solution at all."""

from __future__ import annotations

from enum import Enum

from ortools.sat.python import cp_model

from onchip.search.budget.clock import Deadline

LEAST_SECONDS = 0.05


class Answered(Enum):
    """Whether there is a solution, there is proven to be none, or neither was found out in time."""

    SOLUTION = "solution"
    NONE = "none"
    OPEN = "open"


class OutOfTimeError(Exception):
    """The time was over before a model was made."""


def in_time(deadline: Deadline) -> None:
    """Raise OutOfTimeError once the deadline is past: for whoever makes a large model."""
    if deadline.is_past:
        raise OutOfTimeError


def searched(model: cp_model.CpModel, seconds: float, workers: int) -> tuple[Answered, cp_model.CpSolver]:
    """Search for any solution; the solver holds it. The same model, seed and one worker go the same way."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(seconds, LEAST_SECONDS)
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = 0
    solver.parameters.stop_after_first_solution = True
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answered.SOLUTION, solver
    return (Answered.NONE if status == cp_model.INFEASIBLE else Answered.OPEN), solver
