"""What stays of a long order, window by window: a bound on the least cost in bytes, and a guide to a plan.

Each gap between two uses of a tensor belongs to the one window in which most of its idle steps lie, and takes room
there alone; what storing a tensor costs is shared by the windows of its gaps. So a plan pays in each window at least
what is least there, and in all at least the sum. Put together, what stays may need more room than there is.
What is least in a window is found by all choices, state by state, or by CP-SAT where these are too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import Final

from onchip.memory.decisions.compose import OperatorSchedule, PlannedResidency
from onchip.memory.retention.idle_gaps import IdleGap, what_leaves
from onchip.memory.retention.leaving_model import leaving_by_model
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach

WINDOW_STEPS: Final = 1_000
WINDOW_WORK: Final = 2.0
"""For each of several windows."""


class GapWindows:
    """One scratchpad in which nothing is overwritten, and one order. `lower_bound` grows with each window solved."""

    def __init__(self, indexed: IndexedProblem, order: Sequence[int], window_steps: int = WINDOW_STEPS) -> None:
        self.lower_bound = 0
        self._indexed = indexed
        self._order = tuple(order)
        self._uses = indexed.uses(order)
        self._window_steps = window_steps
        self._windows: list[list[IdleGap]] = [[] for _ in range(-(-len(self._order) // window_steps))]
        self._share_out_gaps()
        self._dropped: set[tuple[int, int]] = set()

    @property
    def is_exact(self) -> bool:
        """Whether what fits in a step is known to the unit: no tensor may end within the last, partial one."""
        return not self._indexed.room.may_end_short

    def solve(self, run: Run) -> OperatorSchedule:
        """Solve every window, each with its share of the time, and return what stays in any."""
        for done, gaps in enumerate(self._windows):
            self._solve_window(gaps, run.within(run.seconds_left / (len(self._windows) - done)))
            run.report(None, 0, f"what stays, {min((done + 1) * self._window_steps, len(self._order))} steps")
        return self._schedule()

    def solve_by_states(self, run: Run) -> OperatorSchedule | None:
        """Return what stays in any if all choices in every window are few enough to be seen, and there is time."""
        if all(self._has_few_choices(gaps, run) for gaps in self._windows):
            return self._schedule()
        return None

    def _share_out_gaps(self) -> None:
        for tensor, uses in enumerate(self._uses):
            idle = [(last + 1, following) for last, following in pairwise(uses) if following > last + 1]
            placed = [self._window_of(start, stop) for start, stop in idle]
            store_cost = 0 if self._indexed.backed >> tensor & 1 else self._indexed.store_costs[tensor]
            share = store_cost // max(1, len({window for window, _ in placed}))
            for (start, _), (window, steps) in zip(idle, placed, strict=True):
                units, load_cost = self._indexed.room.units[tensor], self._indexed.load_costs[tensor]
                self._windows[window].append(IdleGap(tensor, start, steps, units, load_cost, share))

    def _window_of(self, start: int, stop: int) -> tuple[int, range]:
        """Return the first window with most of the steps, and which of them are there."""
        size, best = self._window_steps, (0, range(0))
        for window in range(start // size, (stop - 1) // size + 1):
            steps = range(max(start, window * size), min(stop, (window + 1) * size))
            if len(steps) == size:
                return window, steps
            if len(steps) > len(best[1]):
                best = window, steps
        return best

    def _solve_window(self, gaps: list[IdleGap], run: Run) -> None:
        if self._has_few_choices(gaps, run):
            return
        if cp_sat_is_within_reach(run):
            found = leaving_by_model(gaps, self._left, run, WINDOW_WORK if len(self._windows) > 1 else inf)
            self.lower_bound += found.lower_bound
            self._leave(gaps if found.answer is None else found.answer)
        else:
            self._leave(gaps)

    def _has_few_choices(self, gaps: list[IdleGap], run: Run) -> bool:
        """See all choices of a window, if they are few enough for that."""
        least = what_leaves(gaps, self._left, run)
        if least is None:
            return False
        self.lower_bound += least.cost
        self._leave(least.gaps)
        return True

    def _leave(self, gaps: Iterable[IdleGap]) -> None:
        self._dropped.update((gap.tensor, gap.start) for gap in gaps)

    def _left(self, step: int) -> int:
        """Return the units beside the operands; one more may be there if a tensor may end within the last, partial."""
        room = self._indexed.room
        most = room.capacity_units + (1 if room.may_end_short else 0)
        return most - room.units_of_all(self._indexed.operand_lists[self._order[step]])

    def _schedule(self) -> OperatorSchedule:
        residencies = []
        for tensor, uses in enumerate(self._uses):
            start = uses[0] if uses else 0
            for last, following in pairwise(uses):
                if (tensor, last + 1) in self._dropped:
                    residencies.append(PlannedResidency(tensor, start, last + 1))
                    start = following
            if uses:
                residencies.append(PlannedResidency(tensor, start, uses[-1] + 1))
        return OperatorSchedule(self._order, tuple(sorted(residencies, key=lambda r: (r.start, r.tensor))))
