"""What is least for scratchpads that links join: a bound, plans, and when the two are the same."""

from __future__ import annotations

from onchip.answer.program import Plan
from onchip.answer.result import Result, Status
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.memory.retention.linked import Copies, LinkedModel
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.strategy.interruptible import cp_sat_is_within_reach

LARGEST_MODEL = 6_000


def is_small_enough(indexed: IndexedProblem) -> bool:
    """Whether the model (steps x tensors x pairs of scratchpads) can be built and solved in reasonable time."""
    return indexed.operator_count * len(indexed.tensors) * len(indexed.views) ** 2 <= LARGEST_MODEL


def prove_with_links(incumbent: PlanIncumbent) -> None:
    """Raise the bound by the relaxed model, then look for a better plan with the timed one.

    Where that finds none at the bound, plans in which a tensor arrives again are bounded by a model of their own.
    """
    if not is_small_enough(incumbent.indexed) or not cp_sat_is_within_reach(incumbent.run):
        return
    relaxed = _solve(incumbent, Copies.RELAXED)
    incumbent.raise_bound(relaxed.lower_bound)
    if incumbent.is_proven or relaxed.status is not Status.OPTIMAL or incumbent.run.stop is not None:
        return
    bound = _bound(incumbent, _solve(incumbent, Copies.TIMED))
    if not incumbent.is_proven and incumbent.run.stop is None:
        incumbent.raise_bound(min(bound, _bound(incumbent, _solve(incumbent, Copies.REPEATED))))


def _solve(incumbent: PlanIncumbent, copies: Copies) -> Result[Plan]:
    """Solve for what is better than the best so far; keep a plan that is."""
    better = None if incumbent.value is None else incumbent.value - (copies is not Copies.RELAXED)
    result = LinkedModel(incumbent.indexed, incumbent.lower_bound, better, copies).solve(incumbent.run)
    incumbent.stopped_by = result.stopped_by
    if copies is Copies.TIMED and result.answer is not None and result.objective_value is not None:
        incumbent.keep(result.answer, result.objective_value, "with links and addresses")
    return result


def _bound(incumbent: PlanIncumbent, result: Result[Plan]) -> int:
    """What a model's plans cost at least: none better than the best so far is as good as that."""
    if result.status is Status.INFEASIBLE and incumbent.value is not None:
        return incumbent.value
    return result.lower_bound
