"""Addresses within a capacity, or in the least arena, or the proof that there are none."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.result import Result, Status, Stop
from onchip.clock import Stopwatch
from onchip.facts.indexed import IndexedProblem
from onchip.solve.allocation.attempt import FIRST_NODES, NODES_GROWTH, Attempt, arena_bytes, least_arena_bytes
from onchip.solve.allocation.branching import Knowledge
from onchip.solve.allocation.chains import chained
from onchip.solve.run.compose import OperatorSchedule
from onchip.solve.run.limits import Run

METHOD = "branching"
SCHEDULE_NODES = 5_000_000


def pack_schedule(
    indexed: IndexedProblem, schedule: OperatorSchedule, run: Run, capacity_bytes: int | None = None
) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
    """Return the schedule, with what is overwritten in it, and its offsets in bytes; None if none were found.

    `capacity_bytes` may be less than the scratchpad's.
    """
    chains = chained(indexed, schedule, capacity_bytes)
    packing = pack(chains.problem, run, SCHEDULE_NODES).answer
    return None if packing is None else (chains.schedule, chains.offsets_bytes(packing.offsets_bytes))


def pack(problem: PackingProblem, run: Run, most_nodes: float = float("inf")) -> Result[Packing]:
    """Find offsets within the capacity, or prove that there are none, in about so many nodes.

    The objective value is the arena; it is OPTIMAL only if it happens to be the bound.
    """
    attempt = Attempt(problem, run)
    finding = attempt.go_on(most_nodes)
    bound = least_arena_bytes(problem)
    if finding is Knowledge.UNPACKABLE:
        proven = max(bound, problem.capacity_bytes + 1)
        return Result(Status.INFEASIBLE, None, None, proven, run.seconds, METHOD)
    if attempt.offsets_bytes is None:
        stop = run.stop or Stop.NODE_LIMIT
        return Result(Status.UNKNOWN, None, None, bound, run.seconds, METHOD, stop)
    return found(problem, attempt.offsets_bytes, bound, run)


def found(
    problem: PackingProblem, offsets_bytes: tuple[int, ...], bound: int, run: Run, stop: Stop = Stop.COMPLETED
) -> Result[Packing]:
    """Return the result that a packing is."""
    arena = arena_bytes(problem, offsets_bytes)
    status = Status.OPTIMAL if arena == bound else Status.FEASIBLE
    return Result(status, Packing(offsets_bytes), arena, bound, run.seconds, METHOD, stop)


def least_capacity(problem: PackingProblem, run: Run) -> Result[Packing]:
    """Find the least arena within the capacity: what packs from above, what is proven not to from below.

    Of large problems even one more attempt takes longer than the first: none is begun without twice that time.
    """
    watch = Stopwatch()
    first = pack(problem, run)
    seconds = watch.seconds
    if first.answer is None or first.objective_value is None:
        return first
    unit = gcd(*(buffer.size_bytes for buffer in problem.buffers)) if problem.alignment_bytes == 1 else 1
    low, high, best = first.lower_bound, first.objective_value, first.answer.offsets_bytes
    above, nodes = 0, float(FIRST_NODES)
    while low < high and run.stop is None and run.seconds_left > 2 * seconds:
        run.report(high, low, "packing")
        capacity = min(low + above, high - unit)
        attempt = Attempt(replace(problem, capacity_bytes=capacity), run)
        finding = attempt.go_on(nodes)
        if attempt.offsets_bytes is not None:
            best, high, above = attempt.offsets_bytes, arena_bytes(problem, attempt.offsets_bytes), above // 2
        elif finding is Knowledge.UNPACKABLE:
            low, above = (capacity // unit + 1) * unit, 2 * above + unit
        elif capacity == high - unit:
            nodes, above = nodes * NODES_GROWTH, 0
        else:
            above = (capacity + high) // 2 - low
    return found(problem, best, low, run, _why_stopped(low, high, run))


def _why_stopped(low: int, high: int, run: Run) -> Stop:
    if low >= high:
        return Stop.COMPLETED
    return run.stop or Stop.TIME_LIMIT
