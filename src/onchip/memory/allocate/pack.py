"""Offsets within a capacity, in the minimum arena, or a proof that there are none (docs/packing.md).

The driver is native (`native/packing.hpp`), that of `libonchip_pack` and `onchip-minimalloc`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Final

from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.allocate.exact import MOST_NODES, capacity_of, pack_by_cp_sat, requests_of
from onchip.memory.allocate.residencies import chained
from onchip.memory.decisions import OperatorSchedule
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import StopToken, pack_buffers, packing_conflict, place_in_order
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

METHOD: Final = "branching"
NO_ARENA: Final = -1


def pack(problem: PackingProblem, run: Run, most_nodes: float = inf, repair_rounds: int = 0) -> SearchResult[Packing]:
    """Find offsets within the capacity, or prove that there are none, in about `most_nodes` nodes.

    Large problems, and those with rounds of repair, are first tried by a sweep and its repair. CP-SAT gets half
    of the time if the search stays open for seconds. The objective value is the arena. It is OPTIMAL only if it
    equals the bound.
    """
    asks_cp_sat = most_nodes > STEP.proof_nodes and problem.is_uniform and run.limits.node_limit is None
    found = _solved(problem, run, STEP.proof_nodes if asks_cp_sat else most_nodes, repair_rounds)
    if not asks_cp_sat or found.status is not Status.UNKNOWN or run.stop is not None:
        return found
    other = pack_by_cp_sat(problem, run.within(run.seconds_left / 2), STEP.long_work)
    if other.status is Status.INFEASIBLE:
        return replace(other, lower_bound=problem.capacity_bytes + 1, method=METHOD)
    if other.answer is not None:
        ends = zip(other.answer.offsets_bytes, problem.buffers, strict=True)
        arena = max(offset + buffer.size_bytes for offset, buffer in ends)
        status = Status.OPTIMAL if arena == found.lower_bound else Status.FEASIBLE
        return replace(other, status=status, objective_value=arena, lower_bound=found.lower_bound, method=METHOD)
    return _solved(problem, run, most_nodes)


def least_capacity(problem: PackingProblem, run: Run, most_nodes: float = inf) -> SearchResult[Packing]:
    """Find the lowest arena within the capacity.

    A sweep comes first, so there is an answer in any case in which the capacity is enough for it. Fixed buffers that
    overlap are INFEASIBLE.
    """
    return _solved(problem, run, most_nodes, minimize=True)


def _solved(
    problem: PackingProblem, run: Run, most_nodes: float, repairs: int = 0, *, minimize: bool = False
) -> SearchResult[Packing]:
    """Call the native driver, and report its progress."""
    requests, token, told = requests_of(problem), StopToken(), list[tuple[int, int]]()
    if run.stop is not None:
        token.ask()

    def work() -> SearchResult[Packing]:
        found = pack_buffers(
            requests,
            capacity_of(problem),
            minimize=minimize,
            most_nodes=int(min(most_nodes, run.limits.node_limit or inf, MOST_NODES)),
            seed=run.limits.seed,
            repairs=repairs,
            stop=token,
            progress=lambda arena, bound: told.append((arena, bound)),
        )
        status, stop = Status[found.verdict.name], Stop.COMPLETED
        if status is Status.UNKNOWN or (minimize and status is Status.FEASIBLE):
            stop = run.stop or Stop.NODE_LIMIT
        if found.arena == NO_ARENA:
            return SearchResult(status, None, None, found.lower_bound, run.seconds, METHOD, stop)
        packing = Packing(tuple(found.offsets))
        return SearchResult(status, packing, found.arena, found.lower_bound, run.seconds, METHOD, stop)

    def report() -> None:
        while told:
            arena, bound = told.pop(0)
            run.report(None if arena == NO_ARENA else arena, bound, "packing")

    return run_watched(work, token.ask, run, report)


@dataclass(frozen=True, slots=True)
class PackingConflict:
    """Buffers that do not fit together, by index.

    `is_irreducible`: True if every proper subset is proven to fit.
    """

    buffers: tuple[int, ...]
    is_irreducible: bool


def conflict_of(problem: PackingProblem, run: Run, most_nodes: int = STEP.plan_nodes) -> PackingConflict:
    """Shrink the buffers of a problem that is proven infeasible; each test takes at most `most_nodes`."""
    token, requests = StopToken(), requests_of(problem)
    buffers, is_irreducible = run_watched(
        lambda: packing_conflict(
            requests, capacity_of(problem), most_nodes=most_nodes, seed=run.limits.seed, stop=token
        ),
        token.ask,
        run,
    )
    return PackingConflict(tuple(buffers), is_irreducible)


def pack_schedule(
    indexed: IndexedProblem, schedule: OperatorSchedule, run: Run
) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
    """Return the schedule with its overwritten inputs, and its offsets in bytes; None if none were found."""
    chains = chained(indexed, schedule)
    packing = pack(chains.problem, run, STEP.proof_nodes).answer
    return None if packing is None else (chains.schedule, chains.offsets_bytes(packing.offsets_bytes))


def order_by_size(problem: PackingProblem) -> list[int]:
    """Return the buffers in the order in which TFLite places them."""
    buffers = problem.buffers
    last = max((buffer.stop for buffer in buffers), default=0)

    def key(index: int) -> tuple[bool, int, int, int]:
        buffer = buffers[index]
        lives_throughout = buffer.start == 0 and buffer.stop == last
        return (not lives_throughout, 0 if lives_throughout else -buffer.size_bytes, buffer.start, index)

    return sorted(range(len(buffers)), key=key)


def place_by_size(problem: PackingProblem) -> tuple[int, ...]:
    """Return the offsets in bytes by best fit in this order; the arena may end above the capacity."""
    return tuple(place_in_order(requests_of(problem), order_by_size(problem), in_smallest_gap=True))
