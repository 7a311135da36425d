"""`--objective peak`: the minimum arena of a plan without spills; M_P is its lower bound."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from onchip.answer.problem import Problem
from onchip.answer.result import Status
from onchip.arch.memory import Memory
from onchip.bounds.retention.sure_gaps import pooled
from onchip.memory.allocate.pack import least_capacity
from onchip.memory.allocate.residencies import chained, pack_with_ties, packing_problem
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, PlannedResidency, SearchMove, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.retention.addressed import prove_with_addresses
from onchip.memory.retention.kept_gaps import KeptGaps
from onchip.memory.spill.min_peak import PARAMS, MovableOrder, min_peak_bytes
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import PeakOutcome, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach
from onchip.search.strategy.start import without_figures


def solve_peak(incumbent: PlanIncumbent) -> None:
    """Prove M_P by search, pack its order at M_P, and let addresses join the model if it does not.

    With several scratchpads the objective is the sum of their arenas; M_P bounds that sum, too.
    """
    indexed, run = incumbent.indexed, incumbent.run
    outcome = min_peak_bytes(_unaligned(indexed.problem), run)
    incumbent.raise_bound(outcome.lower_bound)
    incumbent.stopped_by = outcome.stopped_by
    capacity = indexed.memory.capacity_bytes
    if outcome.lower_bound > capacity:
        incumbent.is_infeasible = True
        return
    order = outcome.answer or tuple(range(indexed.operator_count))
    if len(indexed.views) > 1:
        _pack_into_several(incumbent, order)
    else:
        _pack_into_one(incumbent, order)
    if outcome.status is Status.OPTIMAL:
        prove_with_addresses(incumbent, run)


def _pack_into_one(incumbent: PlanIncumbent, order: tuple[int, ...]) -> None:
    """Pack an order of minimum peak, or one as good whose other steps need less."""
    indexed, run = incumbent.indexed, incumbent.run
    if indexed.problem.graph.shares_bytes:
        _pack_apart(incumbent)
    schedule = _without_spills(indexed, order)
    _pack_into_least_arena(incumbent, schedule, STEP.quick_nodes)
    if not incumbent.is_proven and run.stop is None:
        schedule = _without_spills(indexed, flattened(indexed, order, run))
        _pack_into_least_arena(incumbent, schedule, STEP.proof_nodes if indexed.problem.graph.shares_bytes else inf)
    if indexed.problem.graph.shares_bytes and not incumbent.is_proven:
        most = (incumbent.value or indexed.memory.capacity_bytes + 1) - 1
        _narrow(incumbent, schedule, incumbent.lower_bound, most)


def _pack_apart(incumbent: PlanIncumbent) -> None:
    """Pack an order of minimum peak without overwriting: this is also a plan, and often as good."""
    graph = incumbent.indexed.problem.graph
    operators = tuple(replace(operator, in_place=()) for operator in graph.operators)
    apart = IndexedProblem.of(replace(incumbent.indexed.problem, graph=replace(graph, operators=operators)))
    order = min_peak_bytes(apart.problem, without_figures(incumbent.run)).answer or tuple(range(apart.operator_count))
    _pack_into_least_arena(incumbent, _without_spills(apart, order), STEP.proof_nodes)


def _without_spills(indexed: IndexedProblem, order: tuple[int, ...]) -> OperatorSchedule:
    return schedule_of_moves(indexed, (SearchMove(operator) for operator in order))


def _pack_into_least_arena(incumbent: PlanIncumbent, schedule: OperatorSchedule, most_nodes: float = inf) -> None:
    """Pack as low as is found; outputs that overwrite inputs lie in their bytes."""
    chains = chained(incumbent.indexed, schedule)
    packed = least_capacity(chains.problem, without_figures(incumbent.run), most_nodes).answer
    if packed is not None:
        offsets_bytes = chains.offsets_bytes(packed.offsets_bytes)
        arena = arena_bytes(incumbent.indexed, chains.schedule, offsets_bytes)
        incumbent.offer(chains.schedule, offsets_bytes, arena, "packed")


def _narrow(incumbent: PlanIncumbent, schedule: OperatorSchedule, low: int, high: int) -> None:
    """Pack with any ties at the least capacity at which that is found, from below at first, then halfway."""
    capacity = low
    while low <= high and incumbent.run.stop is None:
        packed = _packed_with_other_ties(incumbent, schedule, capacity)
        if packed is None:
            low = capacity + 1
        else:
            arena = arena_bytes(incumbent.indexed, *packed)
            incumbent.offer(*packed, arena, "packed")
            high = arena - 1
        capacity = min((low + high) // 2, low + low // 16)


def _packed_with_other_ties(
    incumbent: PlanIncumbent, schedule: OperatorSchedule, capacity_bytes: int
) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
    """Choose the ties and the addresses by CP-SAT."""
    problem = incumbent.indexed.problem
    memory = replace(problem.memories[0], capacity_bytes=capacity_bytes)
    smaller = IndexedProblem.of(replace(problem, memories=(memory,)))
    return pack_with_ties(smaller, schedule, incumbent.run, STEP.short_work).answer


def _unaligned(problem: Problem) -> Problem:
    """Return the problem; several scratchpads as one that aligns nothing, since each ends as its own top does."""
    if len(problem.memories) == 1:
        return problem
    capacity_bytes = sum(memory.capacity_bytes for memory in problem.memories)
    return replace(problem, memories=(Memory("scratchpads", capacity_bytes),))


def _pack_into_several(incumbent: PlanIncumbent, order: tuple[int, ...]) -> None:
    """Choose one scratchpad for each tensor's whole life, with the minimum sum of peaks; then pack each."""
    indexed, run = incumbent.indexed, incumbent.run
    if not cp_sat_is_within_reach(run):
        return
    chosen = KeptGaps(indexed, order).solve(run)
    if chosen.answer is None:
        has_no_order = indexed.has_one_order or bool(pooled(indexed).forced_cost)
        incumbent.is_infeasible = chosen.status is Status.INFEASIBLE and has_no_order
        return
    offsets_bytes: dict[PlannedResidency, int] = {}
    arenas = 0
    for memory, view in enumerate(indexed.views):
        part = chosen.answer.in_memory(memory)
        packed = least_capacity(packing_problem(view, part), without_figures(run))
        if packed.answer is None:
            return
        arenas += arena_bytes(view, part, packed.answer.offsets_bytes) if part.residencies else 0
        offsets_bytes |= zip(part.residencies, packed.answer.offsets_bytes, strict=True)
    placed = [offsets_bytes[residency] for residency in chosen.answer.residencies]
    incumbent.offer(chosen.answer, placed, arenas, "packed")


def arena_bytes(indexed: IndexedProblem, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...]) -> int:
    """Return the highest end address of any residency."""
    ends = (
        offset + indexed.sizes_bytes[residency.tensor]
        for residency, offset in zip(schedule.residencies, offsets_bytes, strict=True)
    )
    return max(ends)


def flattened(indexed: IndexedProblem, order: Sequence[int], run: Run) -> tuple[int, ...]:
    """Put the steps around each needy step into an order in which none needs as much, the neediest first.

    No step comes to need more than the neediest of those it stood among.
    """
    movable = MovableOrder(indexed, order)
    level = PARAMS.flattened_from * max(movable.needs_bytes)
    waiting = [(-need, step) for step, need in enumerate(movable.needs_bytes) if need > level]
    heapq.heapify(waiting)
    while waiting and run.stop is None:
        need, step = heapq.heappop(waiting)
        if movable.needs_bytes[step] != -need:
            continue
        begin = max(0, step - PARAMS.first_width // 2)
        stop = min(begin + PARAMS.first_width, len(movable.order))
        program = movable.between(begin, stop)
        search = program.search(0, -need - 1)
        if search.run(StopToken(), PARAMS.first_states) is PeakOutcome.FOUND:
            movable.put(begin, program, search.order)
            for at in range(begin, stop):
                if movable.needs_bytes[at] > level:
                    heapq.heappush(waiting, (-movable.needs_bytes[at], at))
    return tuple(movable.order)
