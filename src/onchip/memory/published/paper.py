"""`--method paper`: COSMA's formulation as it stands, for whoever wants to hold it against ours.

Order, residencies and addresses are one mixed-integer program (Eqs. 1 to 12), with the order given
Eqs. 16 and 17; least peak is Eqs. 13 to 15, and addresses afterwards.
"""

from __future__ import annotations

from onchip.answer.packing import PackingProblem
from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status, Stop
from onchip.memory.allocate.construct.chains import packing_problem
from onchip.memory.allocate.construct.greedy_by_size import place_by_size
from onchip.memory.allocate.exact.pack import pack_schedule
from onchip.memory.decisions.compose import (
    OperatorSchedule,
    PlannedResidency,
    SearchMove,
    non_compulsory_cost,
    schedule_of_moves,
)
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.memory.published.paper_model import ActionModel, PaperModel, PeakModel
from onchip.memory.published.paper_variables import pair_steps
from onchip.memory.spill.best_first.given import with_order_settled
from onchip.model.capacity.fitting import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.model.lifetimes.windows import Windows
from onchip.search.budget.limits import Run
from onchip.search.mip import MipOutcome, UnfinishedModelError, solve_mip

METHOD = "paper"
MOST_PAIR_STEPS = 60_000
MOST_ACTIONS = 100_000


def solve_as_paper(problem: Problem, run: Run) -> Result[Plan]:
    """Solve the formulation; UNKNOWN if it is too large to be written down, or an operator writes only kept states.

    INFEASIBLE if a single operator does not fit, or (peak) if no order fits without spills.
    """
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    incumbent = PlanIncumbent(IndexedProblem.of(with_order_settled(problem, run)), run)
    if not all(incumbent.indexed.write_lists):
        return incumbent.result(METHOD)
    if _least_action_count(incumbent.indexed) > MOST_ACTIONS:
        incumbent.stopped_by = Stop.MEMORY_LIMIT
        return incumbent.result(METHOD)
    windows = Windows.of(incumbent.indexed)
    try:
        (_solve_peak if problem.objective is Objective.PEAK else _solve_traffic)(incumbent, windows)
    except UnfinishedModelError:
        incumbent.stopped_by = run.stop or Stop.TIME_LIMIT
    return incumbent.result(METHOD)


def _solve_traffic(incumbent: PlanIncumbent, windows: Windows) -> None:
    indexed, run = incumbent.indexed, incumbent.run
    if _action_count(windows) > MOST_ACTIONS or pair_steps(windows, MOST_PAIR_STEPS) > MOST_PAIR_STEPS:
        incumbent.stopped_by = Stop.MEMORY_LIMIT
        return
    paper = PaperModel(indexed, windows, run)
    outcome = solve_mip(paper.model, run)
    incumbent.stopped_by = outcome.stopped_by
    incumbent.raise_bound(outcome.lower_bound * paper.cost_unit)
    if outcome.values is not None:
        schedule, offsets = _extract(paper, outcome)
        incumbent.offer(schedule, offsets, non_compulsory_cost(indexed, schedule), "solved")


def _least_action_count(indexed: IndexedProblem) -> int:
    """Return how many actions there are at least: windows, which are quadratic, need not be known for that."""
    pairs = zip(indexed.producer, indexed.reader_lists, strict=True)
    return sum((producer >= 0) + (len(readers) > 0) for producer, readers in pairs)


def _action_count(windows: Windows) -> int:
    return sum(map(len, windows.lifetimes))


def _extract(paper: PaperModel, outcome: MipOutcome) -> tuple[OperatorSchedule, tuple[int, ...]]:
    """Read the order and the residencies, each no longer than its uses.

    What the pairs of III-F leave out is a tensor that lingers after its last use, or is fetched
    before its first; here it does neither.
    """
    indexed, addresses = paper.indexed, paper.addresses
    order = _order(paper, outcome)
    uses: list[list[int]] = [[] for _ in indexed.tensors]
    for step, operator in enumerate(order):
        for tensor in indexed.operand_lists[operator]:
            uses[tensor].append(step)
    placed: list[tuple[PlannedResidency, int]] = []
    for tensor, steps in enumerate(uses):
        starts = [
            step
            for step in paper.windows.lifetimes[tensor]
            if (retrieved := paper.actions.retrieved.get((tensor, step))) is not None and outcome.is_one(retrieved)
        ]
        stretches: dict[int, list[int]] = {}
        for step in steps:
            stretches.setdefault(sum(start <= step for start in starts), []).append(step)
        for stretch in stretches.values():
            offset = outcome.integer(addresses.offset[tensor, stretch[0]]) * addresses.unit_bytes
            placed.append((PlannedResidency(tensor, stretch[0], stretch[-1] + 1), offset))
    placed.sort(key=lambda pair: (pair[0].start, pair[0].tensor))
    return OperatorSchedule(order, tuple(residency for residency, _ in placed)), tuple(offset for _, offset in placed)


def _order(model: ActionModel, outcome: MipOutcome) -> tuple[int, ...]:
    first_outputs = [written[0] for written in model.indexed.write_lists]
    step_of = {
        model.indexed.producer[tensor]: step
        for (tensor, step), created in model.actions.created.items()
        if tensor == first_outputs[model.indexed.producer[tensor]] and outcome.is_one(created)
    }
    return tuple(sorted(step_of, key=lambda operator: step_of[operator]))


def _solve_peak(incumbent: PlanIncumbent, windows: Windows) -> None:
    indexed, run = incumbent.indexed, incumbent.run
    if _action_count(windows) > MOST_ACTIONS:
        incumbent.stopped_by = Stop.MEMORY_LIMIT
        return
    peak = PeakModel(indexed, windows, run)
    outcome = solve_mip(peak.model, run)
    incumbent.stopped_by = outcome.stopped_by
    incumbent.raise_bound(outcome.lower_bound * peak.size_unit)
    if incumbent.lower_bound > indexed.memory.capacity_bytes:
        incumbent.is_infeasible = True
    elif outcome.values is not None:
        order = _order(peak, outcome)
        _pack(incumbent, schedule_of_moves(indexed, (SearchMove(operator) for operator in order)))


def _pack(incumbent: PlanIncumbent, schedule: OperatorSchedule) -> None:
    """Addresses are no part of III-E1: greedy by size, then whatever capacity below packs, the bound first."""
    indexed, run = incumbent.indexed, incumbent.run
    problem = packing_problem(indexed, schedule)
    offsets = place_by_size(problem)
    arena = _arena(problem, offsets)
    if arena <= indexed.memory.capacity_bytes:
        incumbent.offer(schedule, offsets, arena, "packed by size")
    low, high = incumbent.lower_bound, min(arena - 1, indexed.memory.capacity_bytes)
    capacity = low
    while low <= high and run.stop is None:
        tighter = pack_schedule(indexed, schedule, run, capacity)
        if tighter is None:
            low = capacity + 1
        else:
            arena = _arena(problem, tighter[1])
            incumbent.offer(*tighter, arena, "packed")
            high = arena - 1
        capacity = (low + high) // 2


def _arena(problem: PackingProblem, offsets: tuple[int, ...]) -> int:
    """Return the highest end of any buffer."""
    return max(offset + buffer.size_bytes for offset, buffer in zip(offsets, problem.buffers, strict=True))
