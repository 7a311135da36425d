"""Claims of a plan whose operators may be split: they hold for every split, not for the split that was chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from onchip.answer.document import Reading, Split
from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status
from onchip.app.networks import MODEL_SUFFIXES
from onchip.lower.split.split import can_split

THIS_SPLIT: Final = "plans of this split"
NO_PLAN: Final = "no plan of this split fits; another split may"
LEAST_OF_ALL_SPLITS: Final = 0
"""No plan of any split costs less, whatever the objective: nothing better is proven of splits that were not tried."""


def splits_are_open(problem: Problem, source: str, reading: Reading) -> bool:
    """Return True if the reading lets operators be split, and some operator of the whole network can be."""
    if reading.split is Split.NEVER or reading.cap_tensors:
        return False
    return can_split(problem, is_model=source.endswith(MODEL_SUFFIXES))


def for_all_splits(result: Result[Plan]) -> Result[Plan]:
    """Return a result of one split with a status and a bound that hold for all splits.

    `optimal_among` keeps what is proven of this split.
    """
    if result.status is Status.INFEASIBLE:
        return replace(result, status=Status.UNKNOWN, lower_bound=LEAST_OF_ALL_SPLITS, why_not=NO_PLAN)
    if result.objective_value is None:
        return replace(result, lower_bound=LEAST_OF_ALL_SPLITS)
    if result.objective_value == LEAST_OF_ALL_SPLITS:
        return result
    among = THIS_SPLIT if result.status is Status.OPTIMAL else result.optimal_among
    return replace(result, status=Status.FEASIBLE, lower_bound=LEAST_OF_ALL_SPLITS, optimal_among=among)
