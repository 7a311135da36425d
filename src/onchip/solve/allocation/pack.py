"""Addresses for a schedule as it stands: best fit first, an exact method when that fails."""

from __future__ import annotations

from onchip.analysis.indexed import IndexedProblem
from onchip.solve.allocation.best_fit import BestFit
from onchip.solve.allocation.cp_sat import pack_by_cp_sat
from onchip.solve.allocation.repair import packing_problem
from onchip.solve.compose import Schedule
from onchip.solve.limits import Run

BEST_FIT_TRIES = 50
EXACT_SECONDS = 20.0


def pack_schedule(
    indexed: IndexedProblem, schedule: Schedule, run: Run, capacity_bytes: int | None = None
) -> tuple[int, ...] | None:
    """Return the offsets in bytes of the schedule's residencies, None if none were found.

    `capacity_bytes` may be less than the scratchpad's.
    """
    problem = packing_problem(indexed, schedule, capacity_bytes)
    packing = BestFit(problem).pack(BEST_FIT_TRIES, run.limits.seed)
    if packing is None:
        packing = pack_by_cp_sat(problem, run, EXACT_SECONDS).answer
    return None if packing is None else packing.offsets_bytes
