"""`--method pinning`: the multi-scratchpad ILP of Jang's thesis (Drexel 2023) as it stands, then addresses.

It counts transitions of tensors between steps, in a fixed order, without addresses: the plan is worth what its
transfers cost, which is not what the model minimises.
"""

from __future__ import annotations

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status, Stop
from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency, non_compulsory_cost
from onchip.memory.decisions.incumbent import Incumbent
from onchip.memory.published.pinning_model import PinningModel
from onchip.memory.retention.learning import PackingOfPart
from onchip.memory.spill.best_first.given import with_order_settled
from onchip.model.capacity.fitting import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.mip import MipOutcome, UnfinishedModelError, solve_mip

METHOD = "pinning"
MOST_PLACES = 200_000


def solve_as_thesis(problem: Problem, run: Run) -> Result[Plan]:
    """Solve the formulation and pack what it says; UNKNOWN if that has no addresses, or is too large to write down.

    Bound 0: OPTIMAL only where nothing is moved at all. INFEASIBLE if a single operator does not fit.
    """
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    indexed = IndexedProblem.of(with_order_settled(problem, run))
    incumbent = Incumbent(indexed, run)
    if _place_count(indexed) > MOST_PLACES:
        incumbent.stopped_by = Stop.MEMORY_LIMIT
        return incumbent.result(METHOD)
    try:
        thesis = PinningModel(indexed, range(indexed.operator_count), run)
    except UnfinishedModelError:
        incumbent.stopped_by = run.stop or Stop.TIME_LIMIT
        return incumbent.result(METHOD)
    outcome = solve_mip(thesis.model, run, mostly_linear=True)
    incumbent.stopped_by = outcome.stopped_by
    if outcome.values is not None:
        _offer_packed(incumbent, schedule_of(thesis, outcome))
    return incumbent.result(METHOD)


def _place_count(indexed: IndexedProblem) -> int:
    """How many x[n][k][m] there are."""
    lives = (uses[-1] + 1 - uses[0] for uses in indexed.uses(range(indexed.operator_count)) if uses)
    return sum(lives) * len(indexed.views)


def schedule_of(thesis: PinningModel, outcome: MipOutcome) -> OperatorSchedule:
    """Read the residencies off x, each no longer than its uses: to linger saves the model nothing."""
    indexed = thesis.indexed
    residencies: list[PlannedResidency] = []
    for tensor, uses in enumerate(thesis.uses):
        for memory in range(len(indexed.views)):
            stretch: list[int] = []
            for step in range(uses[0], uses[-1] + 2) if uses else ():
                occupies = thesis.occupies.get((tensor, memory, step))
                if occupies is not None and outcome.is_one(occupies):
                    stretch += [step] if step in uses else []
                elif stretch:
                    residencies.append(PlannedResidency(tensor, stretch[0], stretch[-1] + 1, memory))
                    stretch = []
    return OperatorSchedule(thesis.order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))


def _offer_packed(incumbent: Incumbent, schedule: OperatorSchedule) -> None:
    """Give each scratchpad's residencies addresses; where there are none, that is said and not mended."""
    indexed, run = incumbent.indexed, incumbent.run
    offsets_bytes: dict[PlannedResidency, int] = {}
    for memory, view in enumerate(indexed.views):
        part = schedule.in_memory(memory)
        packing = PackingOfPart(view, part, run)
        if packing.offsets_bytes is None:
            incumbent.stopped_by = Stop.NO_PACKING if packing.conflicts else run.stop or Stop.NODE_LIMIT
            return
        offsets_bytes |= zip(part.residencies, packing.offsets_bytes, strict=True)
    placed = [offsets_bytes[residency] for residency in schedule.residencies]
    incumbent.offer(schedule, placed, non_compulsory_cost(indexed, schedule), "solved")
