"""One order of any size, least cost of transfers: what stays in bytes, then addresses near that, then conflicts.

1. What is least in bytes, by the model of what stays, of long orders window by window: a bound, and what stays.
2. That packed as it is; or else placed by ever wider beams over layouts, which lets little more leave.
3. While the order is short, conflicts over addresses are learnt: the bound rises, or a plan attains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from onchip.memory.allocate.construct.best_fit import has_too_many_pairs
from onchip.memory.allocate.construct.chains import packing_problem
from onchip.memory.allocate.construct.layouts import LayoutPlacer
from onchip.memory.allocate.exact.attempt import Attempt
from onchip.memory.decisions.compose import OperatorSchedule, non_compulsory_cost
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.memory.effort import STEP
from onchip.memory.retention.gap_windows import GapWindows
from onchip.memory.retention.kept_gaps import KeptGaps
from onchip.memory.retention.learning import ConflictLearning
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach

SHARE_FOR_BYTES: Final = 0.6
MOST_STEPS_WHOLE: Final = 4_000
SHARE_TO_LEARN: Final = 0.3
SHARE_TO_PACK: Final = 0.4
SHARE_OF_THE_REST: Final = 0.75
MOST_TO_PACK: Final = 8_000
FIRST_WIDTHS: Final = (8, 64)
TIMES_WIDER: Final = 8
MOST_LAYOUTS: Final = 4_000_000
"""Without a time limit, of all steps together: some seconds."""
MOST_STEPS_TO_LEARN: Final = 2_000


class OneOrderPlanner:
    """Plans one order of a problem that `has_countable_layouts`; its bound is one for the problem if no other is."""

    def __init__(self, incumbent: PlanIncumbent, order: Sequence[int], run: Run, *, is_the_only_order: bool) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._order = tuple(order)
        self._run = run
        self._is_the_only_order = is_the_only_order
        self.least_cost_in_bytes = 0

    def solve(self, by_distance: OperatorSchedule) -> None:
        """Leave the best plan with the incumbent, and the bound if it is one; what is needed last leaves at first."""
        self._place(LayoutPlacer(self._indexed, by_distance), FIRST_WIDTHS[0])
        if not self._is_over:
            self.solve_near(self._least_in_bytes(by_distance) or by_distance)

    def solve_near(self, schedule: OperatorSchedule) -> None:
        """Find addresses for a schedule that is as cheap as is known in bytes, or for one near it."""
        placer = self.place_soon(schedule)
        self.learn()
        for _ in self.place_ever_nearer(placer):
            pass

    def place_soon(self, schedule: OperatorSchedule) -> LayoutPlacer:
        """Offer the schedule as it stands, or near it, if that soon has addresses; return what places it nearer."""
        self._pack(schedule)
        placer = LayoutPlacer(self._indexed, schedule)
        for width in FIRST_WIDTHS:
            self._place(placer, width)
        return placer

    @property
    def _is_over(self) -> bool:
        value = self._incumbent.value
        attains_bytes = value is not None and value <= self.least_cost_in_bytes
        return attains_bytes or self._incumbent.is_proven or self._run.stop is not None

    def _least_in_bytes(self, known: OperatorSchedule) -> OperatorSchedule | None:
        """Return what is found to stay, and keep what that costs at least; if it takes too long, None."""
        run = self._run.within(SHARE_FOR_BYTES * self._run.seconds_left)
        self.least_cost_in_bytes, found = self._what_stays(known, run)
        if self._is_the_only_order:
            self._incumbent.raise_bound(self.least_cost_in_bytes)
        return found

    def _what_stays(self, known: OperatorSchedule, run: Run) -> tuple[int, OperatorSchedule | None]:
        """Return a bound in bytes, and what is found to stay: a long order is cut where its choices are too many."""
        whole = GapWindows(self._indexed, self._order, len(self._order))
        if len(self._order) > MOST_STEPS_WHOLE:
            found = whole.solve_by_states(run)
            if found is None:
                whole = GapWindows(self._indexed, self._order)
                found = whole.solve(run)
            return whole.lower_bound, found
        if whole.is_exact:
            found = whole.solve(run)
            return whole.lower_bound, found
        if not cp_sat_is_within_reach(run):
            return 0, None
        model = KeptGaps(self._indexed, self._order)
        model.begin_with(known)
        chosen = model.solve(run)
        return chosen.lower_bound, chosen.answer

    def _pack(self, schedule: OperatorSchedule) -> None:
        """Offer the schedule as it stands if that soon has addresses."""
        problem = packing_problem(self._indexed, schedule)
        if self._is_over or len(problem.buffers) > MOST_TO_PACK or has_too_many_pairs(problem.buffers):
            return
        attempt = Attempt(problem, self._run.within(SHARE_TO_PACK * self._run.seconds_left))
        attempt.go_on(STEP.plan_nodes)
        if attempt.offsets_bytes is not None:
            self._offer(schedule, attempt.offsets_bytes, "packed")

    def place_ever_nearer(self, placer: LayoutPlacer) -> Iterator[None]:
        """Widen the beam while there is time for it, and at last as far as there is."""
        width, layouts_left, seconds_each = TIMES_WIDER * FIRST_WIDTHS[-1], MOST_LAYOUTS // len(self._order), 0.0
        while not self._is_over:
            if self._run.deadline.is_set and seconds_each:
                width = min(width, int(SHARE_OF_THE_REST * self._run.seconds_left / seconds_each))
            elif not self._run.deadline.is_set:
                width = min(width, layouts_left)
            if width < 1:
                return
            began = self._run.seconds
            self._place(placer, width)
            seconds_each = max((self._run.seconds - began) / width, 1e-9)
            layouts_left -= width
            width *= TIMES_WIDER
            yield

    def _place(self, placer: LayoutPlacer, width: int) -> None:
        placed = None if self._is_over else placer.place(width, self._run)
        if placed is not None:
            self._offer(*placed, f"placed among {width} layouts")

    def _offer(self, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...], phase: str) -> None:
        self._incumbent.offer(schedule, offsets_bytes, non_compulsory_cost(self._indexed, schedule), phase)

    def learn(self) -> None:
        """Learn conflicts over addresses, if the order is short."""
        if len(self._order) > MOST_STEPS_TO_LEARN or self._is_over:
            return
        most_work = float("inf") if self._is_the_only_order else STEP.long_work
        run = self._run.within(SHARE_TO_LEARN * self._run.seconds_left)
        learning = ConflictLearning(self._incumbent, self._order, run, most_work)
        learning.solve(is_the_only_order=self._is_the_only_order)
