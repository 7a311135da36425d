"""Large graphs in any order, least cost of transfers: bounds that need no search of the whole, and moves in windows.

Five strategies share the time:

* `GapsBound`: what is surely live across steps where it does not fit is paid for in any order. Where that is much,
  choices between neighbours bound more of it.
* `Ordering`: what stays in the order to start from, by an exact model; windows of the order planned anew; addresses.
* `Parts`: parts of that order, each searched exactly, bound what any order costs.
* `Placing`: plans with addresses near that order, or windows of a plan with addresses planned anew.
* `Learning`: conflicts over addresses in a short order.

If there are several workers, the first and the third strategy run in a thread of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Final

from onchip.bounds.retention.descent import descent_of
from onchip.bounds.retention.possible_gaps import PossibleGaps
from onchip.bounds.retention.sure_gaps import SureGap, sure_gaps
from onchip.memory.allocate.construct.layouts import LayoutPlacer
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions.compose import OperatorSchedule, schedule_of_moves
from onchip.memory.decisions.incumbent import Incumbent
from onchip.memory.retention.gap_windows import GapWindows
from onchip.memory.retention.kept_gaps import KeptGaps
from onchip.memory.retention.sure_gaps import SureGapsBound
from onchip.memory.spill.best_first.one_order import OneOrderPlanner
from onchip.memory.spill.large.movable_plan import MovablePlan
from onchip.memory.spill.large.parts_bound import PartsBound
from onchip.memory.spill.large.placed_windows import AddressedPlan, improve_in_placed_windows
from onchip.memory.spill.large.window_moves import WindowMoves
from onchip.model.lifetimes.precedence import Precedence
from onchip.search.budget.budget import Budget
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import WATCH_EVERY_SECONDS, cp_sat_is_within_reach
from onchip.search.strategy.portfolio import Portfolio, SteppedStrategy
from onchip.search.strategy.stage import of_one_worker, without_bound, without_figures

REACHES: Final = (500, 1_600)
"""Of possible gaps: a tensor of a third of the scratchpad is looked at for 18 steps, and for 59."""
WORK_FOR_WHAT_STAYS: Final = 5.0
"""Of CP-SAT, which counts about a second as 1, where there is no time limit."""
MOST_STEPS_TO_LEARN: Final = 500
"""Of an order in which as much leaves as may be at once conflicts are too many to learn; of 1,000 steps none helped."""
FIRST_LAYOUTS: Final = (64, 512)
"""The second may have no time to end."""
PIECES: Final = 5
"""Pieces of work of `Ordering`: what stays and moves, twice, and addresses."""


class AnyOrderPlanner:
    """Plans a problem that `has_countable_layouts`; `least_cost_in_bytes` is that of the best plan in bytes."""

    def __init__(self, incumbent: Incumbent, run: Run, order: Sequence[int] | None = None) -> None:
        self.incumbent = incumbent
        self.indexed = incumbent.indexed
        self.run = run
        self.order = range(self.indexed.operator_count) if order is None else order
        self.precedence = Precedence(self.indexed)
        self.gaps = tuple(sure_gaps(self.indexed, self.precedence))
        self.descent = descent_of(self.indexed, self.precedence)
        self.plan: MovablePlan | None = None
        self.least_cost_in_bytes: int | None = None
        self.has_ordered = threading.Event()

    def solve(self) -> None:
        """Leave the best plan and the best bound with the incumbent."""
        gaps, ordering, parts, placing = GapsBound(self), Ordering(self), Parts(self), (Placing(self), Learning(self))
        if self.run.limits.workers == 1:
            self._share(self.run, gaps, ordering, parts, *placing)
            return
        others = replace(self.run, limits=replace(self.run.limits, workers=self.run.limits.workers - 1))

        def bound() -> None:
            self._share(others, gaps)
            while not self.has_ordered.wait(WATCH_EVERY_SECONDS) and self.run.stop is None:
                pass
            self._share(others, parts)

        with ThreadPoolExecutor(1) as pool:
            bounded = pool.submit(bound)
            try:
                self._share(of_one_worker(self.run), ordering, *placing)
            finally:
                self.has_ordered.set()
            bounded.result()

    def _share(self, run: Run, *strategies: _LargeStrategy) -> None:
        for one in strategies:
            one.run = one.whole_run = run
        Portfolio(self.incumbent, strategies, Budget(run)).solve()

    @cached_property
    def gaps_of_families(self) -> tuple[SureGap, ...]:
        """Sure gaps in which what is made of a tensor stands in for it."""
        return tuple(sure_gaps(self.indexed, self.precedence, self.descent))

    def much_surely_waits(self, cost: int) -> bool:
        """Return whether a quarter of a cost is paid in any order; windows alone do not decide what stays then."""
        return 4 * self.incumbent.lower_bound > cost

    def is_worth_placing(self, schedule: OperatorSchedule) -> bool:
        """Take note of what a schedule costs in bytes; return whether it is cheaper than the best plan."""
        cost = MovablePlan(self.indexed, schedule).cost
        self.least_cost_in_bytes = min(cost, cost if self.least_cost_in_bytes is None else self.least_cost_in_bytes)
        return self.incumbent.value is None or cost < self.incumbent.value

    def near(self, schedule: OperatorSchedule, run: Run) -> OneOrderPlanner:
        """Return a planner of addresses for a schedule, or for one that costs little more."""
        planner = OneOrderPlanner(self.incumbent, schedule.order, without_bound(run), is_the_only_order=False)
        planner.least_cost_in_bytes = MovablePlan(self.indexed, schedule).cost
        return planner


class _LargeStrategy(SteppedStrategy):
    """A strategy of an `AnyOrderPlanner`; each piece of work counts as a node.

    `whole_run` ends with the last turn: for pieces that are soon over, or lose what they have when they are cut off.
    """

    needs_order: ClassVar[bool] = False

    def __init__(self, large: AnyOrderPlanner) -> None:
        super().__init__(large.incumbent, large.run, 1.0)
        self._large = large
        self.whole_run = large.run

    @property
    def is_ready(self) -> bool:
        """True if there is an order, or none is needed."""
        return not self.needs_order or self._large.has_ordered.is_set()


class GapsBound(_LargeStrategy):
    """Bounds by sure gaps: of each tensor by itself, of families, then with gaps of some orders from ever further."""

    name = "bound of gaps"

    def steps(self) -> Iterator[float]:
        """Solve one model after another."""
        large = self._large
        models = [large.gaps]
        if len(large.descent.families) < len(large.descent.parents):
            models.append(large.gaps_of_families)
        for number, gaps in enumerate(models):
            bound = SureGapsBound(large.indexed, large.precedence, gaps)
            large.incumbent.raise_bound(bound.solve(self.part(len(models) - number)))
            yield 1.0
        if not large.much_surely_waits(large.incumbent.value or 0):
            return
        order = range(large.indexed.operator_count)
        for reach in REACHES:
            possible = PossibleGaps(large.indexed, large.precedence, large.descent, order, reach)
            bound = SureGapsBound(large.indexed, large.precedence, large.gaps_of_families, possible)
            known = large.incumbent.lower_bound
            large.incumbent.raise_bound(bound.solve(self.run))
            if large.incumbent.lower_bound <= known:
                return
            yield 1.0


class Ordering(_LargeStrategy):
    """Finds an order: what stays, addresses for that, windows planned anew, and once more for the new order."""

    name = "ordering"

    def steps(self) -> Iterator[float]:
        """Go through the pieces in equal parts of one turn."""
        large = self._large
        schedule = self._what_stays(large.order, None, self.part(PIECES))
        self._place_soon(schedule, self.part(PIECES - 1))
        plan, moves = MovablePlan(large.indexed, schedule), WindowMoves()
        moves.improve(plan, without_figures(self.part(PIECES - 2)))
        is_short, cost = len(plan.order) <= MOST_STEPS_TO_LEARN, self.incumbent.value or plan.cost
        if is_short or large.much_surely_waits(cost):  # windows of a long order are moved with addresses at once
            found = MovablePlan(large.indexed, self._what_stays(plan.order, plan.schedule, self.part(PIECES - 3)))
            if found.cost < plan.cost:
                moves.begin_again()
            moves.improve(found, without_figures(self.part(2)))
            plan = found
        self._place_soon(plan.schedule, self.run)
        large.plan = plan
        large.has_ordered.set()
        yield from ()

    def _what_stays(self, order: Sequence[int], known: OperatorSchedule | None, run: Run) -> OperatorSchedule:
        """Return the cheapest schedule that is soon found for an order; none costs more than what is known."""
        indexed = self._large.indexed
        begun = known or schedule_of_moves(indexed, belady_moves(indexed, order))
        whole = GapWindows(indexed, order, len(order))
        if whole.is_exact and (least := whole.solve_by_states(run)) is not None:
            return least
        if self.has_to_stop or not cp_sat_is_within_reach(run):
            return begun
        model = KeptGaps(indexed, order)
        model.begin_with(begun)
        work = float("inf") if run.deadline.is_set else WORK_FOR_WHAT_STAYS
        found = model.solve(of_one_worker(without_figures(run)), work).answer
        if found is None or MovablePlan(indexed, found).cost > MovablePlan(indexed, begun).cost:
            return begun
        return found

    def _place_soon(self, schedule: OperatorSchedule, run: Run) -> None:
        if self._large.is_worth_placing(schedule) and not self.has_to_stop:
            self._large.near(schedule, run).place_soon(schedule)


class Parts(_LargeStrategy):
    """Bounds by parts of the order found; loads between uses that are far apart are charged by the sure gaps."""

    name = "bound of parts"
    needs_order = True

    def steps(self) -> Iterator[float]:
        """Go on round by round."""
        large = self._large
        if large.plan is None:
            return
        parts = PartsBound(large.indexed, large.precedence, tuple(large.plan.order))
        between = SureGapsBound(large.indexed, large.precedence, filter(parts.is_between_groups, large.gaps))
        least_between = between.solve(self.run)
        for least_within in parts.solve(self.whole_run):
            large.incumbent.raise_bound(least_between + least_within)
            yield 1.0


class Learning(_LargeStrategy):
    """Learns conflicts over addresses in the order found, if it is short."""

    name = "conflicts"
    needs_order = True

    def steps(self) -> Iterator[float]:
        """Learn in one turn."""
        plan = self._large.plan
        if plan is not None and len(plan.order) <= MOST_STEPS_TO_LEARN and self._large.is_worth_placing(plan.schedule):
            self._large.near(plan.schedule, self.run).learn()
        yield from ()


class Placing(_LargeStrategy):
    """Places the order found, or plans with addresses that cost little more."""

    name = "placing"
    needs_order = True

    def steps(self) -> Iterator[float]:
        """Widen beams and learn conflicts; of a long order move windows of what two beams find."""
        large = self._large
        if large.plan is None or not large.is_worth_placing(schedule := large.plan.schedule):
            return
        placer = LayoutPlacer(large.indexed, schedule)
        if len(schedule.order) <= MOST_STEPS_TO_LEARN:
            for _ in large.near(schedule, self.whole_run).place_ever_nearer(placer):
                yield 1.0
            return
        found = None
        for number, layouts in enumerate(FIRST_LAYOUTS):
            found = placer.place(layouts, self.part(len(FIRST_LAYOUTS) - number)) or found
        if found is None:
            return
        placed = AddressedPlan(large.indexed, *found)
        large.incumbent.offer(*found, placed.cost, f"placed among {FIRST_LAYOUTS[-1]} layouts")
        for _ in improve_in_placed_windows(placed, without_figures(self.whole_run)):
            large.incumbent.offer(*placed.answer, placed.cost, "windows planned anew with addresses")
            yield 1.0
