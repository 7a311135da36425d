"""The finding of a second prover about a claimed bound, and its queries to CP-SAT."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from ortools.sat.python import cp_model

from onchip.answer.packing import Overflow, Packing
from onchip.answer.program import Plan
from onchip.search.budget.clock import Deadline


class Ruling(StrEnum):
    """The ruling on a bound: no better answer exists, one exists, or the time was not sufficient for a decision."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Finding:
    """The ruling on `claimed_bound`, a lower bound in the unit of the objective.

    REFUTED comes with `better`, a verified answer, and with `better_value`, its objective value, which is below the
    bound. `detail` names the deciding fact in a few words: a proof, a model, or an exhausted resource. `seconds` is the
    time that the prover took.
    """

    ruling: Ruling
    claimed_bound: int
    better_value: int | None
    better: Plan | Packing | Overflow | None
    seconds: float
    detail: str


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
