"""Addresses at any price: where a schedule does not pack, tensors leave more often until it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import combinations, pairwise

from onchip.memory.allocate.construct.best_fit import has_too_many_pairs
from onchip.memory.allocate.construct.by_time import place_or_cut_by_time
from onchip.memory.allocate.construct.chains import chained
from onchip.memory.allocate.exact.attempt import Attempt
from onchip.memory.allocate.exact.branching import Knowledge
from onchip.memory.allocate.exact.windows import clipped, finding_of, hard_stretch
from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.memory.effort import STEP
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run

WINDOW_NODES = 1_000
SINGLE_CUTS = 24
CUTS_TO_PAIR = 8
MOST_REPAIRS = 30
QUICK_WORK = 200_000
"""About half a second: a unit is a residency of a schedule that is looked at, or two decisions of a search."""


def place_or_cut(
    indexed: IndexedProblem, schedule: OperatorSchedule, run: Run | None = None, most_work: float = float("inf")
) -> tuple[OperatorSchedule, tuple[int, ...]]:
    """Return a schedule that packs, and its offsets in bytes.

    Again and again: find a stretch of steps that does not pack, and the cheapest idle time of one
    or two tensors without which it does. What that leaves open, or so much work, is placed in order of time; so is
    what has too many pairs that live together.
    """
    run = run or Run()
    repair = Repair(indexed, schedule, run, most_work)
    for _ in range(MOST_REPAIRS):
        if run.stop is not None or repair.is_spent(STEP.quick_nodes):
            break
        chains = chained(indexed, repair.schedule)
        if has_too_many_pairs(chains.problem.buffers):
            break
        attempt = Attempt(chains.problem, run)
        attempt.go_on(STEP.quick_nodes)
        if attempt.offsets_bytes is not None:
            return chains.schedule, chains.offsets_bytes(attempt.offsets_bytes)
        stretch = attempt.stretch or hard_stretch(attempt.core, run, attempt.hardest_step)
        if not repair.mend(stretch):
            break
    by_time = place_or_cut_by_time(indexed, schedule)
    if repair.schedule is schedule:
        return by_time
    mended = place_or_cut_by_time(indexed, repair.schedule)
    return min(by_time, mended, key=lambda placed: _cost_of_returns(indexed, placed[0]))


def _cost_of_returns(indexed: IndexedProblem, schedule: OperatorSchedule) -> int:
    """What coming back costs; the schedule may be of one scratchpad of several."""
    times = Counter(residency.tensor for residency in schedule.residencies)
    return sum(
        (count - 1) * indexed.load_costs[tensor]
        + (indexed.store_costs[tensor] if count > 1 and not indexed.backed >> tensor & 1 else 0)
        for tensor, count in times.items()
    )


@dataclass(frozen=True, slots=True)
class ResidencyCut:
    """A residency may end after the step `last_use` and begin again at `next_use`."""

    cost: int
    residency: PlannedResidency
    last_use: int
    next_use: int

    @property
    def parts(self) -> tuple[PlannedResidency, PlannedResidency]:
        """What is left of the residency."""
        return replace(self.residency, stop=self.last_use + 1), replace(self.residency, start=self.next_use, ties=())


class Repair:
    """Cuts residencies of a schedule, for so much work in all."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule, run: Run, most_work: float) -> None:
        self.schedule = schedule
        self._indexed = indexed
        self._run = run
        self._uses = indexed.uses(schedule.order)
        self._work_left = most_work

    def is_spent(self, nodes: int) -> bool:
        """Whether there is no work left for one more look at the schedule, with a search of so many nodes."""
        self._work_left -= len(self.schedule.residencies) + nodes // 2
        return self._work_left < 0

    def mend(self, stretch: range) -> bool:
        """Make the cheapest cuts known that let the stretch pack.

        False if none do, the work is done or the run has to stop.
        """
        for cuts in self._cuts_by_cost(stretch):
            if self._run.stop is not None or self.is_spent(WINDOW_NODES):
                break
            mended = self._with(cuts)
            problem = clipped(chained(self._indexed, mended).problem, stretch)
            if finding_of(problem, self._run, WINDOW_NODES) is Knowledge.PACKED:
                self.schedule = mended
                return True
        return False

    def _cuts_by_cost(self, stretch: range) -> Iterator[tuple[ResidencyCut, ...]]:
        """Yield single cuts and pairs of the cheapest, the cheapest first."""
        cuts = nsmallest(SINGLE_CUTS, self._cuts(stretch), key=lambda cut: (cut.cost, -(cut.next_use - cut.last_use)))
        pairs = [pair for pair in combinations(cuts[:CUTS_TO_PAIR], 2) if pair[0].residency != pair[1].residency]
        yield from sorted([*((cut,) for cut in cuts), *pairs], key=lambda chosen: sum(cut.cost for cut in chosen))

    def _cuts(self, stretch: range) -> Iterator[ResidencyCut]:
        indexed = self._indexed
        times_resident: dict[int, int] = {}
        for residency in self.schedule.residencies:
            times_resident[residency.tensor] = times_resident.get(residency.tensor, 0) + 1
        for residency in self.schedule.residencies:
            tensor = residency.tensor
            if residency.start >= stretch.stop or residency.stop <= stretch.start:
                continue
            is_spilled = times_resident[tensor] > 1 or indexed.backed >> tensor & 1
            cost = indexed.load_costs[tensor] + (0 if is_spilled else indexed.store_costs[tensor])
            uses = [use for use in self._uses[tensor] if residency.start <= use < residency.stop]
            for last_use, next_use in pairwise(uses):
                if next_use > last_use + 1 and last_use + 1 < stretch.stop and next_use > stretch.start:
                    yield ResidencyCut(cost, residency, last_use, next_use)

    def _with(self, cuts: tuple[ResidencyCut, ...]) -> OperatorSchedule:
        parts = {cut.residency: cut.parts for cut in cuts}
        residencies = [part for r in self.schedule.residencies for part in parts.get(r, (r,))]
        return OperatorSchedule(
            self.schedule.order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor, r.stop)))
        )
