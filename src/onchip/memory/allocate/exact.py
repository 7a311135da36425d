"""Attempts to pack at one capacity: each packs, proves that no packing exists, or stays open.

The search is native (`native/packing.hpp`, docs/packing.md): bounds, best fit, branch and bound, and proofs by
short stretches of steps. CP-SAT decides attempts that stay open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from math import gcd, inf
from typing import Final

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.allocate.sections import greatest_sum
from onchip.memory.effort import STEP
from onchip.native import PackingAttempt, PackingFinding, PackingRequest, StopToken, least_arena
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, run_watched, solve_for_result

NOT_FIXED: Final = -1
MOST_NODES: Final = 1 << 60
MOST_BYTES: Final = 1 << 60
"""Greatest capacity that the native search takes; it is enough for all buffers that it takes."""


class Knowledge(Enum):
    """Result of a search so far: a packing, a proof that there is none, or neither."""

    PACKED = "packed"
    UNPACKABLE = "unpackable"
    OPEN = "open"


def requests_of(problem: PackingProblem) -> list[PackingRequest]:
    """Return the buffers as the native search takes them."""
    return [
        PackingRequest(
            start=one.start,
            stop=one.stop,
            size=one.size_bytes,
            alignment=problem.alignment_of(one),
            fixed=NOT_FIXED if one.offset_bytes is None else one.offset_bytes,
            gaps=list(one.gaps),
        )
        for one in problem.buffers
    ]


def capacity_of(problem: PackingProblem) -> int:
    """Return the capacity as the native search takes it."""
    return min(max(problem.capacity_bytes, 0), MOST_BYTES)


class Attempt:
    """Attempt at one packing problem that goes on with each call.

    `offsets_bytes` once it packs; `stretch` once a stretch of steps is proven not to.
    """

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self.offsets_bytes: tuple[int, ...] | None = None
        self.stretch: range | None = None
        self._run = run
        capacity = capacity_of(problem)
        self._attempt = PackingAttempt(requests_of(problem), capacity, seed=run.limits.seed)

    @property
    def core(self) -> list[int]:
        """Return the buffers that cannot wait, by index: they pack exactly if all do."""
        return self._attempt.core

    @property
    def nodes(self) -> int:
        """Return how many nodes the search has done so far."""
        return self._attempt.nodes

    @property
    def hard_stretch(self) -> range:
        """The stretch of steps proven not to pack; else the narrowest tried that stays open, or all steps."""
        return range(*self._attempt.stretch)

    def go_on(self, nodes: float) -> Knowledge:
        """Try bounds and best fit first, then search about `nodes` nodes, or until the run has to stop."""
        return self._finding(self._attempt.go_on, nodes)

    def search(self, nodes: float = inf) -> Knowledge:
        """Go on with the exact search alone."""
        return self._finding(self._attempt.search, nodes)

    def _finding(self, search: Callable[[int, StopToken], PackingFinding], nodes: float) -> Knowledge:
        token = StopToken()
        most = int(min(nodes, MOST_NODES, (self._run.limits.node_limit or inf) - self.nodes))
        finding = Knowledge[run_watched(lambda: search(most, token), token.ask, self._run).name]
        if finding is Knowledge.PACKED:
            self.offsets_bytes = tuple(self._attempt.offsets)
        if finding is Knowledge.UNPACKABLE:
            self.stretch = self.hard_stretch
        return finding

    def unpackable_stretches(self) -> list[range]:
        """Look around the fullest sections, which lie apart, for stretches that do not pack."""
        token = StopToken()
        found = run_watched(lambda: self._attempt.unpackable_stretches(token), token.ask, self._run)
        return [range(*steps) for steps in found]


def finding_of(problem: PackingProblem, run: Run, nodes: float = STEP.stretch_nodes) -> Knowledge:
    """Return whether a small problem packs, or OPEN if about `nodes` search nodes do not decide it."""
    return Attempt(problem, run).search(nodes)


def clip(buffer: Buffer, stretch: range) -> Buffer | None:
    """Return the buffer as it lives within a stretch of steps; None if it does not."""
    lives = [(max(a, stretch.start), min(b, stretch.stop)) for a, b in buffer.lives]
    lives = [(a, b) for a, b in lives if a < b]
    if not lives:
        return None
    gaps = tuple((stop, start) for (_, stop), (start, _) in pairwise(lives))
    return replace(buffer, start=lives[0][0], stop=lives[-1][1], gaps=gaps)


def clipped(problem: PackingProblem, stretch: range) -> PackingProblem:
    """Return the problem of the buffers alive in a stretch of steps, clipped to it.

    A stretch without a packing refutes the whole.
    """
    buffers = (clip(buffer, stretch) for buffer in problem.buffers)
    return replace(problem, buffers=tuple(one for one in buffers if one is not None))


def least_arena_bytes(problem: PackingProblem) -> int:
    """Return a lower bound: the most that lives at once, all but the topmost padded; the end of each fixed buffer."""
    return least_arena(requests_of(problem))[0]


METHOD: Final = "cp-sat"


def pack_by_cp_sat(problem: PackingProblem, run: Run, most_work: float = inf) -> SearchResult[Packing]:
    """Find offsets within the capacity, or prove that there are none (objective: the capacity).

    Buffers have neither gaps nor individual alignments. UNKNOWN if no time is left to load the solver, or after
    `most_work` (see `solve_interruptibly`).
    """
    if not cp_sat_is_within_reach(run):
        return SearchResult(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.TIME_LIMIT)
    from ortools.sat.python import cp_model

    unit, sizes, highest = _in_units(problem)
    fixed = [None if one.offset_bytes is None else one.offset_bytes // unit for one in problem.buffers]
    if any(last < (offset or 0) for last, offset in zip(highest, fixed, strict=True)):
        return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    model = cp_model.CpModel()
    offsets, lives, places = [], [], []
    for one, size, last, offset in zip(problem.buffers, sizes, highest, fixed, strict=True):
        offsets.append(model.new_int_var(0, last, "") if offset is None else model.new_constant(offset))
        lives.append(model.new_fixed_size_interval_var(one.start, one.stop - one.start, ""))
        places.append(model.new_fixed_size_interval_var(offsets[-1], size, ""))
    model.add_no_overlap_2d(lives, places)
    solver = cp_model.CpSolver()
    solver.parameters.use_timetabling_in_no_overlap_2d = True
    solver.parameters.use_energetic_reasoning_in_no_overlap_2d = True

    def packing() -> Packing:
        return Packing(tuple(solver.value(offset) * unit for offset in offsets))

    result = solve_for_result(solver, model, run, METHOD, packing, most_work)
    if result.answer is None:
        return result
    return replace(result, objective_value=problem.capacity_bytes, lower_bound=problem.capacity_bytes)


def _in_units(problem: PackingProblem) -> tuple[int, list[int], list[int]]:
    """Return the bytes of a unit, and the size and the highest offset of each buffer in units.

    A packing of the lowest sum of offsets has each buffer on another or on the ground, so each offset is a sum of
    sizes. The unit is their greatest common divisor, and limits are rounded down to sums of sizes. A buffer may also
    rest on a fixed one: fixed offsets are multiples of the unit, and limits are then rounded to the unit only.
    """
    buffers, alignment = problem.buffers, problem.alignment_bytes
    whole, partial = divmod(problem.capacity_bytes, alignment)
    aligned = [-(-one.size_bytes // alignment) for one in buffers]
    unit = gcd(*aligned, *(one.offset_bytes // alignment for one in buffers if one.offset_bytes is not None)) or 1
    sizes = [size // unit for size in aligned]
    limits = {short: (whole + short) // unit for short in (False, True)}
    if not problem.has_fixed:
        limits = {short: greatest_sum(sizes, limit) for short, limit in limits.items()}
    short = [0 < one.size_bytes % alignment <= partial for one in buffers]
    return unit * alignment, sizes, [limits[is_short] - size for is_short, size in zip(short, sizes, strict=True)]
