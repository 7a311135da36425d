"""The one driver of the published heuristics: each is a rule that yields plans for one order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, non_compulsory_cost
from onchip.memory.spill.min_peak import with_order_settled
from onchip.model.capacity.infeasible_operator import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run

Rule: TypeAlias = Callable[[IndexedProblem, Run], Iterable[tuple[OperatorSchedule, tuple[int, ...]]]]
"""Yields schedules of the order of a problem, each with the offset in bytes of each of its residencies."""
Solve: TypeAlias = Callable[[Problem, Run], SearchResult[Plan]]


def baseline(method: str, rule: Rule) -> Solve:
    """Return the planner that offers each plan of a rule; the best counts.

    The order is the given one, or one of minimum peak. Bound 0: OPTIMAL only if nothing is moved at all. INFEASIBLE
    if a single operator does not fit.
    """

    def solve(problem: Problem, run: Run) -> SearchResult[Plan]:
        if operators_that_do_not_fit(IndexedProblem.of(problem)):
            return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, method)
        indexed = IndexedProblem.of(with_order_settled(problem, run))
        incumbent = PlanIncumbent(indexed, run)
        for schedule, offsets_bytes in rule(indexed, run):
            incumbent.offer(schedule, offsets_bytes, non_compulsory_cost(indexed, schedule), method)
            if run.stop is not None:
                break
        incumbent.stopped_by = run.stop or Stop.COMPLETED
        return incumbent.result(method)

    return solve
