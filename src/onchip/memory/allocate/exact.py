"""Exact packing: branch and bound, proofs by short stretches of steps, and CP-SAT for what stays open.

The branch and bound is `native/packing.hpp`; `docs/packing.md` proves that it misses no packing. A section is a
maximal set of buffers that are alive at once; its floor is the lowest offset left for any of them. A decision takes a
section in a valley of the floors, and says which buffer lies on its floor, or that none does. Offsets from the ground
up, bounds per section and independent parts come from MiniMalloc (Moffitt, ASPLOS 2023); decisions on valleys,
passing over, restarts by blame and memory do not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.allocate.construct import BestFit
from onchip.memory.allocate.sections import NOT_FIXED, PackingInUnits, core_of, lives_of, packing_in_units, sections_of
from onchip.memory.effort import STEP
from onchip.native import PackingOutcome, PackingSearch, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, run_watched, solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, slots=True)
class PackingParams:
    """Constants of the exact packing search."""

    nodes_per_buffer: int = 8
    """Nodes of the shortest restart, for each buffer."""
    best_fit_tries: int = 4
    """Random orders of best fit before the search."""
    first_sections: int = 4
    """Sections of the shortest stretch that is refuted by itself, and between two of these."""
    stretch_nodes: int = 4_000
    """Nodes for a stretch that a repair mends: one that stays open there counts as hard."""
    most_stretches: int = 40
    """Stretches of a schedule that are looked at for conflicts, the fullest first."""


PARAMS: Final = PackingParams()


class Knowledge(Enum):
    """Result of a search so far: a packing, a proof that there is none, or neither."""

    PACKED = "packed"
    UNPACKABLE = "unpackable"
    OPEN = "open"


class BranchingSearch:
    """Branch and bound for a packing problem with at least one buffer; each call continues with more nodes.

    Each worker of the run searches for itself, with other restarts: the first to know ends the others.
    """

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self.packing: Packing | None = None
        self._problem = problem
        self._run = run
        counted = packing_in_units(problem)
        self._unit_bytes = counted.unit_bytes
        self._lanes = [_Lane(problem, counted, number) for number in range(run.limits.workers)]

    @property
    def nodes(self) -> int:
        """Return how many nodes all workers have done so far."""
        return sum(lane.nodes for lane in self._lanes)

    def search(self, nodes: float = float("inf")) -> Knowledge:
        """Go on for so many nodes, or until the run has to stop."""
        token, each = StopToken(), nodes / len(self._lanes)
        return run_watched(lambda: self._race(each, token), token.ask, self._run)

    @property
    def hardest_step(self) -> int:
        """A step of the section that was most to blame so far."""
        _, steps = sections_of(self._problem.buffers)
        return steps[self._lanes[0].search.hardest_section]

    def _race(self, nodes: float, token: StopToken) -> Knowledge:
        first, *others = self._lanes
        if not others:
            return self._known(first, first.go_on(nodes, self._run, token))
        known = Knowledge.OPEN
        with ThreadPoolExecutor(len(self._lanes)) as pool:
            racing = {pool.submit(lane.go_on, nodes, self._run, token): lane for lane in self._lanes}
            try:
                while known is Knowledge.OPEN and racing:
                    done = next(as_completed(racing))
                    known = self._known(racing.pop(done), done.result())
            finally:
                token.ask()
        return known

    def _known(self, lane: _Lane, finding: Knowledge) -> Knowledge:
        if finding is Knowledge.PACKED:
            self.packing = Packing(tuple(offset * self._unit_bytes for offset in lane.search.offsets))
        return finding


class _Lane:
    """One worker's search: what it has learnt, and which restart comes next."""

    def __init__(self, problem: PackingProblem, counted: PackingInUnits, number: int) -> None:
        self.nodes = 0
        self.search = PackingSearch(counted.buffers, counted.limits)
        self._ranks = islice(_ranks(problem, counted), number, None)
        self._round = number
        self._least_nodes = PARAMS.nodes_per_buffer * len(problem.buffers)

    def go_on(self, nodes: float, run: Run, token: StopToken) -> Knowledge:
        """Restart after restart, until that many nodes are done or it is asked to stop."""
        limit = self.nodes + nodes
        while self.nodes < limit and run.stop is None and not token.is_asked:
            self._round += 1
            own = luby(self._round) * self._least_nodes
            outcome = self.search.run(next(self._ranks), int(min(own, max(1, limit - self.nodes))), token)
            self.nodes += max(1, self.search.nodes)
            if outcome is PackingOutcome.FOUND:
                return Knowledge.PACKED
            if outcome is PackingOutcome.EXHAUSTED:
                return Knowledge.UNPACKABLE
        return Knowledge.OPEN


def luby(index: int) -> int:
    """Return the term of 1, 1, 2, 1, 1, 2, 4, ...: restarts of all lengths, each length as much in all."""
    while index & index + 1:
        index -= (1 << index.bit_length() - 1) - 1
    return index + 1 >> 1


def _ranks(problem: PackingProblem, counted: PackingInUnits) -> Iterator[list[int]]:
    """Yield, in turn, by how many sections, by size, by life: the greatest first."""
    widths = [one.stop - one.first for one in counted.buffers]
    lives = [buffer.stop - buffer.start for buffer in problem.buffers]
    sizes = [one.size for one in counted.buffers]
    areas = [life * size for life, size in zip(lives, sizes, strict=True)]
    ranks = [_descending(keys) for keys in (zip(widths, areas, strict=True), sizes, lives)]
    while True:
        yield from ranks


def _descending(keys: Iterable[Any]) -> list[int]:
    """Return each one's place from the greatest key down."""
    keyed = list(keys)
    order = sorted(range(len(keyed)), key=keyed.__getitem__, reverse=True)
    rank = [0] * len(order)
    for place, index in enumerate(order):
        rank[index] = place
    return rank


def clipped(problem: PackingProblem, stretch: range) -> PackingProblem:
    """Return the problem of the buffers alive in a stretch of steps, clipped to it.

    Its sizes may have a greater common divisor and its buffers fewer neighbours, so a proof is found sooner. A stretch
    without a packing refutes the whole.
    """
    buffers = tuple(
        Buffer(max(b.start, stretch.start), min(b.stop, stretch.stop), b.size_bytes, b.offset_bytes)
        for b in problem.buffers
        if b.start < stretch.stop and b.stop > stretch.start
    )
    return PackingProblem(buffers, problem.capacity_bytes, problem.alignment_bytes)


def finding_of(problem: PackingProblem, run: Run, nodes: float = PARAMS.stretch_nodes) -> Knowledge:
    """Say whether a small problem packs, if so many nodes are enough for that."""
    core = core_of(problem).problem
    return BranchingSearch(core, run).search(nodes) if core.buffers else Knowledge.PACKED


def unpackable_stretch(
    problem: PackingProblem, run: Run, step: int, nodes: float = PARAMS.stretch_nodes
) -> range | None:
    """Return a stretch of steps around `step` that is proven not to pack, as short as it is easily made."""
    finding, stretch = _narrowest(problem, run, step, nodes)
    return stretch if finding is Knowledge.UNPACKABLE else None


def hard_stretch(problem: PackingProblem, run: Run, step: int, nodes: float = PARAMS.stretch_nodes) -> range:
    """Return a stretch proven not to pack, else the narrowest that stays open, else all steps."""
    _, stretch = _narrowest(problem, run, step, nodes)
    if stretch is None:
        stretch = range(min(b.start for b in problem.buffers), max(b.stop for b in problem.buffers))
    return stretch


def _narrowest(problem: PackingProblem, run: Run, step: int, nodes: float) -> tuple[Knowledge, range | None]:
    _, steps = sections_of(problem.buffers)
    middle = max(index for index, at in enumerate(steps) if index == 0 or at <= step)
    still_open: range | None = None
    for low, high in _widening(middle, len(steps)):
        if run.stop is not None:
            break
        stretch = _stretch(steps, low, high)
        finding = finding_of(clipped(problem, stretch), run, nodes)
        if finding is Knowledge.UNPACKABLE:
            return finding, _trimmed(problem, run, steps, (low, high))
        if finding is Knowledge.OPEN and still_open is None:
            still_open = stretch
    return Knowledge.OPEN, still_open


def _widening(middle: int, sections: int) -> Iterator[tuple[int, int]]:
    """Yield ever wider ranges of sections that end, begin or lie around the middle; never all of them."""
    width = PARAMS.first_sections
    while width < sections:
        for low, high in ((middle + 1 - width, middle + 1), (middle, middle + width), (middle - width, middle + width)):
            if low > 0 or high < sections:
                yield max(0, low), min(sections, high)
        width += width // 2


def _stretch(steps: list[int], low: int, high: int) -> range:
    return range(steps[low], steps[high - 1] + 1)


def _is_unpackable(problem: PackingProblem, run: Run, stretch: range) -> bool:
    return finding_of(clipped(problem, stretch), run) is Knowledge.UNPACKABLE


def _trimmed(problem: PackingProblem, run: Run, steps: list[int], sections: tuple[int, int]) -> range:
    """Take away at either end, by halves, while the rest stays unpackable."""
    low, high = sections
    size = (high - low) // 2
    while size and run.stop is None:
        if high - low > size and _is_unpackable(problem, run, _stretch(steps, low + size, high)):
            low += size
        elif high - low > size and _is_unpackable(problem, run, _stretch(steps, low, high - size)):
            high -= size
        else:
            size //= 2
    return _stretch(steps, low, high)


METHOD = "cp-sat"


def pack_by_cp_sat(problem: PackingProblem, run: Run, most_work: float = float("inf")) -> SearchResult[Packing]:
    """Find offsets within the capacity, or prove that there are none (objective: the capacity).

    UNKNOWN if no time is left to load the solver, or after `most_work` (see `solve_interruptibly`).
    """
    if not cp_sat_is_within_reach(run):
        return SearchResult(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.TIME_LIMIT)
    from ortools.sat.python import cp_model

    counted = packing_in_units(problem)
    if any(one.last < max(one.fixed, 0) for one in counted.buffers):
        return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    model = cp_model.CpModel()
    offsets = [
        model.new_constant(one.fixed) if one.fixed != NOT_FIXED else model.new_int_var(0, one.last, f"offset_{i}")
        for i, one in enumerate(counted.buffers)
    ]
    _buffers_do_not_overlap(model, problem, offsets, [one.size for one in counted.buffers])
    solver = cp_model.CpSolver()
    solver.parameters.use_timetabling_in_no_overlap_2d = True
    solver.parameters.use_energetic_reasoning_in_no_overlap_2d = True

    def packing() -> Packing:
        return Packing(tuple(solver.value(offset) * counted.unit_bytes for offset in offsets))

    result = solve_for_result(solver, model, run, METHOD, packing, most_work)
    if result.answer is None:
        return result
    return replace(result, objective_value=problem.capacity_bytes, lower_bound=problem.capacity_bytes)


def _buffers_do_not_overlap(
    model: cp_model.CpModel, problem: PackingProblem, offsets: list[cp_model.IntVar], sizes: list[int]
) -> None:
    """Rectangles of time and memory, in units of which every size is a multiple."""
    lives, ranges = [], []
    for index, (buffer, offset, size) in enumerate(zip(problem.buffers, offsets, sizes, strict=True)):
        life = buffer.stop - buffer.start
        lives.append(model.new_fixed_size_interval_var(buffer.start, life, f"life_{index}"))
        ranges.append(model.new_fixed_size_interval_var(offset, size, f"range_{index}"))
    model.add_no_overlap_2d(lives, ranges)


class Attempt:
    """Attempt at one packing problem, with growing effort at each call.

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
        """Return the problem without postponed buffers."""
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
            if self._finish(BestFit(self._core.problem).pack(PARAMS.best_fit_tries, self._run)):
                return Knowledge.PACKED
            self._search = BranchingSearch(self._core.problem, self._run)
        limit = min(self._search.nodes + nodes, self._run.limits.node_limit or float("inf"))
        while self._search.nodes < limit and self._run.stop is None:
            finding = self._round(self._search, min(self._round_nodes, limit - self._search.nodes))
            if finding is not Knowledge.OPEN:
                return finding
            self._round_nodes *= STEP.node_growth
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
        """Ask CP-SAT within half of the time left."""
        half = self._run.within(self._run.seconds_left / 2)
        result = pack_by_cp_sat(self._core.problem, half, STEP.long_work)
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
    lives = tuple(
        replace(one, start=start, stop=stop, gaps=()) if one.gaps else one
        for one in problem.buffers
        for start, stop in one.lives
    )
    return max(lives_of(replace(problem, buffers=lives)).most_live(), _highest_fixed_end(problem))


def _highest_fixed_end(problem: PackingProblem) -> int:
    fixed = (one.offset_bytes + one.size_bytes for one in problem.buffers if one.offset_bytes is not None)
    return max(fixed, default=0)


def unpackable_stretches(problem: PackingProblem, run: Run) -> list[range]:
    """Look around the fullest sections, which lie apart, for stretches that do not pack."""
    spans, steps = sections_of(problem.buffers)
    live = [0] * len(steps)
    for (first, stop), buffer in zip(spans, problem.buffers, strict=True):
        for section in range(first, stop):
            live[section] += buffer.size_bytes
    stretches: list[range] = []
    looked_at: list[int] = []
    for section in sorted(range(len(steps)), key=lambda at: -live[at]):
        if len(looked_at) == PARAMS.most_stretches or run.stop is not None:
            break
        step = steps[section]
        if any(abs(section - other) < PARAMS.first_sections for other in looked_at) or any(
            _is_near(step, found) for found in stretches
        ):
            continue
        looked_at.append(section)
        stretch = unpackable_stretch(problem, run, step, STEP.stretch_nodes)
        if stretch is not None:
            stretches.append(stretch)
    return stretches


def _is_near(step: int, stretch: range) -> bool:
    """True if a step lies in a stretch or within its length of it: another look would find it again."""
    return stretch.start - len(stretch) <= step < stretch.stop + len(stretch)
