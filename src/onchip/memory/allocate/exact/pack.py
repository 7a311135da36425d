"""Addresses within a capacity, or in the least arena, or the proof that there are none."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.result import Result, Status, Stop
from onchip.memory.allocate.construct.best_fit import has_too_many_pairs
from onchip.memory.allocate.construct.chains import chained
from onchip.memory.allocate.construct.low_packing import LowPacking
from onchip.memory.allocate.exact.attempt import (
    FIRST_NODES,
    NODES_GROWTH,
    Attempt,
    arena_bytes,
    fixed_overlap,
    least_arena_bytes,
)
from onchip.memory.allocate.exact.branching import Knowledge
from onchip.memory.decisions.compose import OperatorSchedule
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Run

METHOD = "branching"
SCHEDULE_NODES = 5_000_000
MOST_PAIRS_TO_SEARCH = 1_000_000
"""Of buffers that live together: above that even one attempt of the exact search takes many seconds."""
FIRST_ROUNDS = 60
ROUNDS_BETWEEN_ATTEMPTS = 20
ROUNDS_BETWEEN_REPORTS = 20
ROUNDS_WITHOUT_LIMIT = 2_000


def pack_schedule(
    indexed: IndexedProblem, schedule: OperatorSchedule, run: Run, capacity_bytes: int | None = None
) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
    """Return the schedule, with what is overwritten in it, and its offsets in bytes; None if none were found.

    `capacity_bytes` may be less than the scratchpad's.
    """
    chains = chained(indexed, schedule, capacity_bytes)
    packing = pack(chains.problem, run, SCHEDULE_NODES).answer
    return None if packing is None else (chains.schedule, chains.offsets_bytes(packing.offsets_bytes))


def pack(
    problem: PackingProblem, run: Run, most_nodes: float = float("inf"), repair_rounds: int = 0
) -> Result[Packing]:
    """Find offsets within the capacity, or prove that there are none, in about so many nodes.

    Before the search greedy orders, skylines and their repair are tried: of large problems, and where rounds of repairs
    are asked for. The objective value is the arena; it is OPTIMAL only if it happens to be the bound.
    """
    bound = least_arena_bytes(problem)
    if bound > problem.capacity_bytes or fixed_overlap(problem):
        return _infeasible(problem, bound, run)
    is_large = has_too_many_pairs(problem.buffers, MOST_PAIRS_TO_SEARCH)
    if is_large:
        repair_rounds = max(repair_rounds, FIRST_ROUNDS)
    if problem.buffers and repair_rounds > 0:
        low_packing = LowPacking(problem, run)
        low_packing.place_quickly(problem.capacity_bytes)
        low_packing.repair(repair_rounds, problem.capacity_bytes)
        low_packing.fill(FIRST_ROUNDS, problem.capacity_bytes)
        if low_packing.arena_bytes <= problem.capacity_bytes:
            return found(problem, low_packing.offsets_bytes, bound, run)
    if is_large and run.stop is not None:
        return Result(Status.UNKNOWN, None, None, bound, run.seconds, METHOD, run.stop)
    attempt = Attempt(problem, run)
    finding = attempt.go_on(most_nodes)
    if finding is Knowledge.UNPACKABLE:
        return _infeasible(problem, bound, run)
    if attempt.offsets_bytes is None:
        stop = run.stop or Stop.NODE_LIMIT
        return Result(Status.UNKNOWN, None, None, bound, run.seconds, METHOD, stop)
    return found(problem, attempt.offsets_bytes, bound, run)


def _infeasible(problem: PackingProblem, bound: int, run: Run) -> Result[Packing]:
    proven = max(bound, problem.capacity_bytes + 1)
    return Result(Status.INFEASIBLE, None, None, proven, run.seconds, METHOD)


def found(
    problem: PackingProblem, offsets_bytes: tuple[int, ...], bound: int, run: Run, stop: Stop = Stop.COMPLETED
) -> Result[Packing]:
    """Return the result that a packing is."""
    arena = arena_bytes(problem, offsets_bytes)
    status = Status.OPTIMAL if arena == bound else Status.FEASIBLE
    return Result(status, Packing(offsets_bytes), arena, bound, run.seconds, METHOD, stop)


def least_capacity(problem: PackingProblem, run: Run) -> Result[Packing]:
    """Find the least arena within the capacity: what packs from above, what is proven not to from below.

    Greedy orders and skylines come first, for large problems they are all. The exact search begins no attempt without
    twice the time that the first one took.
    """
    if not problem.buffers or fixed_overlap(problem):
        return pack(problem, run)
    low_packing, low = LowPacking(problem, run), least_arena_bytes(problem)
    low_packing.place_quickly(low)
    low_packing.repair(FIRST_ROUNDS, low)
    low_packing.fill(FIRST_ROUNDS, low)
    is_large = run.stop is not None or has_too_many_pairs(problem.buffers, MOST_PAIRS_TO_SEARCH)
    while (
        is_large
        and not low_packing.is_greedy_only
        and low_packing.arena_bytes > low
        and low_packing.rounds < _most_rounds(problem, run)
    ):
        if run.stop is not None:
            break
        run.report(low_packing.arena_bytes, low, "packing")
        low_packing.repair(FIRST_ROUNDS, low)
        low_packing.fill(ROUNDS_BETWEEN_REPORTS, low)
    fits = low_packing.arena_bytes <= problem.capacity_bytes
    if fits and (is_large or low_packing.arena_bytes <= low):
        stop = Stop.COMPLETED if low_packing.arena_bytes <= low else run.stop or Stop.NODE_LIMIT
        return found(problem, low_packing.offsets_bytes, low, run, stop)
    first = found(problem, low_packing.offsets_bytes, low, run) if fits else pack(problem, run)
    return first if first.answer is None else _narrowed(problem, low_packing, first.answer, first.lower_bound, run)


def _most_rounds(problem: PackingProblem, run: Run) -> float:
    """A skyline is as many decisions as there are buffers."""
    if run.limits.node_limit is not None:
        return run.limits.node_limit / len(problem.buffers)
    return float("inf") if run.deadline.is_set else ROUNDS_WITHOUT_LIMIT


def _narrowed(problem: PackingProblem, low_packing: LowPacking, first: Packing, low: int, run: Run) -> Result[Packing]:
    """Let the exact search pack lower, or prove that nothing does, with skylines in between."""
    multiples = (each for one in problem.buffers for each in (one.size_bytes, one.offset_bytes or 0))
    unit = gcd(*multiples) if problem.alignment_bytes == 1 else 1
    high, best = arena_bytes(problem, first.offsets_bytes), first.offsets_bytes
    above, nodes, seconds = 0, float(FIRST_NODES), 0.0
    while low < high and run.stop is None and run.seconds_left > 2 * seconds:
        run.report(high, low, "packing")
        watch = Stopwatch()
        capacity = min(low + above, high - unit)
        attempt = Attempt(replace(problem, capacity_bytes=capacity), run)
        finding = attempt.go_on(nodes)
        seconds = seconds or watch.seconds
        if attempt.offsets_bytes is not None:
            best, high, above = attempt.offsets_bytes, arena_bytes(problem, attempt.offsets_bytes), above // 2
        elif finding is Knowledge.UNPACKABLE:
            low, above = (capacity // unit + 1) * unit, 2 * above + unit
        elif capacity == high - unit:
            nodes, above = nodes * NODES_GROWTH, 0
        else:
            above = (capacity + high) // 2 - low
        _repair_as_long(low_packing, low, watch.seconds, run)
        low_packing.fill(ROUNDS_BETWEEN_ATTEMPTS, low)
        if low_packing.arena_bytes < high:
            best, high = low_packing.offsets_bytes, low_packing.arena_bytes
    return found(problem, best, low, run, _why_stopped(low, high, run))


def _repair_as_long(low_packing: LowPacking, low: int, seconds: float, run: Run) -> None:
    """Repair for so many rounds; where there is a time limit, for as long as the exact search took at least."""
    watch = Stopwatch()
    low_packing.repair(ROUNDS_BETWEEN_ATTEMPTS, low)
    if low_packing.is_greedy_only:
        return
    while run.deadline.is_set and watch.seconds < seconds and low < low_packing.arena_bytes and run.stop is None:
        low_packing.repair(ROUNDS_BETWEEN_ATTEMPTS, low)


def _why_stopped(low: int, high: int, run: Run) -> Stop:
    if low >= high:
        return Stop.COMPLETED
    return run.stop or Stop.TIME_LIMIT
