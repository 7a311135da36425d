"""Tries to pack one problem: best fit first, then the exact search, CP-SAT where that stays open."""

from __future__ import annotations

from bisect import bisect_left

from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.result import Status
from onchip.memory.allocate.construct.best_fit import BestFit
from onchip.memory.allocate.exact.branching import BranchingSearch, Knowledge
from onchip.memory.allocate.exact.cp_sat import pack_by_cp_sat
from onchip.memory.allocate.exact.postponed import core_of
from onchip.memory.allocate.exact.sections import lives_of
from onchip.memory.allocate.exact.windows import unpackable_stretch
from onchip.memory.effort import STEP
from onchip.search.budget.limits import Run

BEST_FIT_TRIES = 4
NODES_GROWTH = 4
CP_SAT_WORK = 20.0


class Attempt:
    """One problem, tried harder and harder.

    `offsets_bytes` once it packs; `stretch` once a stretch of steps is proven not to.
    """

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self.offsets_bytes: tuple[int, ...] | None = None
        self.stretch: range | None = None
        self._run = run
        self._core = core_of(problem)
        self._search: BranchingSearch | None = None
        self._round_nodes = STEP.quick_nodes
        self._asked_cp_sat = False
        self._is_too_much = least_arena_bytes(problem) > problem.capacity_bytes or fixed_overlap(problem)

    @property
    def core(self) -> PackingProblem:
        """What had to be searched for."""
        return self._core.problem

    @property
    def nodes(self) -> int:
        """Return how many nodes the search has done so far."""
        return self._search.nodes if self._search else 0

    @property
    def hardest_step(self) -> int:
        """The step that was most to blame, if there has been a search."""
        return self._search.hardest_step if self._search else 0

    def go_on(self, nodes: float) -> Knowledge:
        """Spend about so many nodes more, or until the run has to stop."""
        if self._is_too_much:
            return Knowledge.UNPACKABLE
        if self._search is None:
            if self._finish(BestFit(self._core.problem).pack(BEST_FIT_TRIES, self._run)):
                return Knowledge.PACKED
            self._search = BranchingSearch(self._core.problem, self._run)
        limit = min(self._search.nodes + nodes, self._run.limits.node_limit or float("inf"))
        while self._search.nodes < limit and self._run.stop is None:
            finding = self._round(self._search, min(self._round_nodes, limit - self._search.nodes))
            if finding is not Knowledge.OPEN:
                return finding
            self._round_nodes *= NODES_GROWTH
        return Knowledge.OPEN

    def _round(self, search: BranchingSearch, nodes: float) -> Knowledge:
        """Search; if that stays open, look for a stretch that does not pack, or ask CP-SAT."""
        problem = self._core.problem
        finding = search.search(nodes)
        if finding is Knowledge.PACKED:
            self._finish(search.packing)
        if finding is not Knowledge.OPEN or self._run.stop is not None:
            return finding
        self.stretch = unpackable_stretch(problem, self._run, search.hardest_step, nodes)
        if self.stretch is not None:
            return Knowledge.UNPACKABLE
        if search.nodes >= STEP.proof_nodes and not self._asked_cp_sat and self._run.limits.node_limit is None:
            self._asked_cp_sat = True
            return self._ask_cp_sat()
        return Knowledge.OPEN

    def _ask_cp_sat(self) -> Knowledge:
        """Ask another solver, for so much work, and half of what time is left at most."""
        half = self._run.within(self._run.seconds_left / 2)
        result = pack_by_cp_sat(self._core.problem, half, CP_SAT_WORK)
        if self._finish(result.answer):
            return Knowledge.PACKED
        return Knowledge.UNPACKABLE if result.status is Status.INFEASIBLE else Knowledge.OPEN

    def _finish(self, core_packing: Packing | None) -> bool:
        """Add what was postponed to a packing of the core, if it is one."""
        if core_packing is not None:
            self.offsets_bytes = self._core.complete(core_packing.offsets_bytes)
        return core_packing is not None


def arena_bytes(problem: PackingProblem, offsets_bytes: tuple[int, ...]) -> int:
    """Return the highest end of any buffer."""
    ends = (offset + b.size_bytes for offset, b in zip(offsets_bytes, problem.buffers, strict=True))
    return max(ends, default=0)


def fixed_overlap(problem: PackingProblem) -> bool:
    """Return whether two fixed buffers overlap, so that no capacity is enough."""
    changes = [
        change
        for buffer in problem.buffers
        if buffer.offset_bytes is not None
        for place in [(buffer.offset_bytes, buffer.offset_bytes + buffer.size_bytes)]
        for change in ((buffer.start, True, place), (buffer.stop, False, place))
    ]
    alive: list[tuple[int, int]] = []  # without overlap, sorted by offset
    for _, begins, (offset, end) in sorted(changes):
        at = bisect_left(alive, (offset, end))
        if not begins:
            del alive[at]
            continue
        if (at > 0 and alive[at - 1][1] > offset) or (at < len(alive) and alive[at][0] < end):
            return True
        alive.insert(at, (offset, end))
    return False


def least_arena_bytes(problem: PackingProblem) -> int:
    """Return a lower bound: the most that lives at once, all but the topmost padded; the end of each fixed buffer."""
    return max(lives_of(problem).most_live(), _highest_fixed_end(problem))


def _highest_fixed_end(problem: PackingProblem) -> int:
    fixed = (one.offset_bytes + one.size_bytes for one in problem.buffers if one.offset_bytes is not None)
    return max(fixed, default=0)
