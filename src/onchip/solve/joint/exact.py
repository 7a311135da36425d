"""`--method exact`: a first plan at once, the bound in bytes by search, then addresses, then proof.

1. Belady's evictions at the given order, addresses at any price: a legal plan within a second.
2. Best-first search: the least cost z in bytes, a lower bound for plans with addresses.
3. Pack a schedule of cost z: if it packs, it is optimal.
4. Otherwise order, residencies and addresses in one model, from bound z on.
"""

from __future__ import annotations

from onchip.analysis.bounds import greatest_need
from onchip.analysis.indexed import IndexedProblem
from onchip.plan.plan import Plan
from onchip.plan.problem import Objective, Problem
from onchip.plan.result import Result, Status
from onchip.solve.allocation.pack import pack_schedule
from onchip.solve.allocation.repair import place_or_cut
from onchip.solve.compose import Schedule, non_compulsory_cost, schedule_of_moves
from onchip.solve.joint.addressed import AddressedModel, is_small_enough
from onchip.solve.joint.incumbent import Incumbent
from onchip.solve.joint.peak import solve_peak
from onchip.solve.joint.search import BestFirstSearch
from onchip.solve.limits import Run
from onchip.solve.spilling.belady import belady_moves

METHOD = "exact"


def solve_exactly(problem: Problem, run: Run) -> Result[Plan]:
    """Prove the least traffic or the least arena, as far as the limits allow.

    INFEASIBLE if a single operator does not fit, or (peak) if no order fits without spills.
    """
    if greatest_need(problem).need_bytes > problem.memories[0].capacity_bytes:
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    incumbent = Incumbent(IndexedProblem.of(problem), run)
    if problem.objective is Objective.PEAK:
        solve_peak(incumbent)
    else:
        _solve_traffic(incumbent)
    return incumbent.result(METHOD)


def _solve_traffic(incumbent: Incumbent) -> None:
    indexed, run = incumbent.indexed, incumbent.run
    first = schedule_of_moves(indexed, belady_moves(indexed, range(indexed.operator_count)))
    _offer(incumbent, first, "first plan")
    if incumbent.is_proven:
        return
    outcome = BestFirstSearch(indexed, run).solve()
    incumbent.raise_bound(outcome.lower_bound)
    incumbent.stopped_by = outcome.stop
    if outcome.moves is None:
        return
    schedule = schedule_of_moves(indexed, outcome.moves)
    offsets = pack_schedule(indexed, schedule, run)
    if offsets is not None:
        incumbent.offer(schedule, offsets, outcome.lower_bound, "packed")
        return
    _offer(incumbent, schedule, "optimum in bytes does not pack")
    prove_with_addresses(incumbent)


def _offer(incumbent: Incumbent, schedule: Schedule, phase: str) -> None:
    """Give a schedule addresses, at the price of more evictions where it does not pack."""
    placed, offsets = place_or_cut(incumbent.indexed, schedule)
    incumbent.offer(placed, offsets, non_compulsory_cost(incumbent.indexed, placed), phase)


def prove_with_addresses(incumbent: Incumbent) -> None:
    """Let offsets join the model from the bound in bytes on."""
    if incumbent.is_proven or not is_small_enough(incumbent.indexed):
        return
    model = AddressedModel(incumbent.indexed, incumbent.lower_bound, incumbent.value)
    result = model.solve(incumbent.run)
    incumbent.stopped_by = result.stopped_by
    if result.answer is not None and result.objective_value is not None:
        incumbent.raise_bound(result.lower_bound)
        incumbent.offer(result.answer.schedule, result.answer.offsets_bytes, result.objective_value, "with addresses")
