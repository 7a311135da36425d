"""Packing with gaps, an alignment for each buffer and fixed offsets, and conflicts: the native driver, in Python.

The driver (`native/packing_task.hpp`) is that of `libonchip_pack`. `pack.py` calls it for problems that its own
methods do not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.allocate.sections import NOT_FIXED
from onchip.memory.effort import STEP
from onchip.native import PackingRequest, StopToken, pack_buffers, packing_conflict
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

METHOD: Final = "native packing"
NO_NODE_LIMIT: Final = 1 << 62
NO_ARENA: Final = -1


@dataclass(frozen=True, slots=True)
class PackingConflict:
    """Buffers that do not fit together, by index.

    `is_irreducible`: True if every proper subset is proven to fit.
    """

    buffers: tuple[int, ...]
    is_irreducible: bool


def solve_general(
    problem: PackingProblem, run: Run, *, minimize: bool, most_nodes: int = NO_NODE_LIMIT
) -> SearchResult[Packing]:
    """Find offsets within the capacity, or the lowest arena, or prove that there are none.

    The objective value is the arena; it is OPTIMAL only if it equals the bound.
    """
    token, limit = StopToken(), min(most_nodes, run.limits.node_limit or NO_NODE_LIMIT)
    requests = _requests(problem, problem.buffers)

    def work() -> SearchResult[Packing]:
        found = pack_buffers(
            requests,
            problem.capacity_bytes,
            minimize=minimize,
            most_nodes=limit,
            seed=run.limits.seed,
            stop=token,
        )
        status, stop = Status[found.verdict.name], Stop.COMPLETED
        if status is Status.UNKNOWN or (minimize and status is Status.FEASIBLE):
            stop = run.stop or Stop.NODE_LIMIT
        if found.arena == NO_ARENA:
            return SearchResult(status, None, None, found.lower_bound, run.seconds, METHOD, stop)
        packing = Packing(tuple(found.offsets))
        return SearchResult(status, packing, found.arena, found.lower_bound, run.seconds, METHOD, stop)

    return run_watched(work, token.ask, run)


def conflict_of(problem: PackingProblem, run: Run, most_nodes: int = STEP.plan_nodes) -> PackingConflict:
    """Shrink the buffers of a problem that is proven infeasible; each test takes at most `most_nodes`."""
    token, requests = StopToken(), _requests(problem, problem.buffers)
    buffers, is_irreducible = run_watched(
        lambda: packing_conflict(
            requests, problem.capacity_bytes, most_nodes=most_nodes, seed=run.limits.seed, stop=token
        ),
        token.ask,
        run,
    )
    return PackingConflict(tuple(buffers), is_irreducible)


def _requests(problem: PackingProblem, buffers: Sequence[Buffer]) -> list[PackingRequest]:
    return [
        PackingRequest(
            start=one.start,
            stop=one.stop,
            size=one.size_bytes,
            alignment=problem.alignment_of(one),
            fixed=NOT_FIXED if one.offset_bytes is None else one.offset_bytes,
            gaps=list(one.gaps),
        )
        for one in buffers
    ]
