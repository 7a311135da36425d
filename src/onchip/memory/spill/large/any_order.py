"""Large graphs in any order, least cost of transfers: bounds that need no search of the whole, and moves in windows.

Five strategies share the time:

* gaps: what is surely live across steps where it does not fit is paid for in any order. Where that is much, choices
  between neighbours bound more of it.
* an order: what stays in the order to start from, by an exact model; windows of the order planned anew; addresses.
* parts of that order, each searched exactly, bound what any order costs.
* addresses near that order, or windows of a plan with addresses planned anew.
* conflicts over addresses in a short order.

If there are several workers, the bounds are searched for in a thread of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Final

from onchip.bounds.retention.descent import descent_of
from onchip.bounds.retention.possible_gaps import PossibleGaps
from onchip.bounds.retention.sure_gaps import SureGap, sure_gaps
from onchip.memory.allocate.construct.layouts import LayoutPlacer
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions.compose import OperatorSchedule, schedule_of_moves
from onchip.memory.decisions.incumbent import PlanIncumbent
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
from onchip.search.strategy.portfolio import Portfolio, Stepped
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
"""Pieces of work on the order, in equal parts of a turn: what stays and moves, twice, and addresses."""


class AnyOrderPlanner:
    """Plans a problem that `has_countable_layouts`; `least_cost_in_bytes` is that of the best plan in bytes."""

    def __init__(self, incumbent: PlanIncumbent, run: Run, order: Sequence[int] | None = None) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._run = run
        self._order = range(self._indexed.operator_count) if order is None else order
        self._precedence = Precedence(self._indexed)
        self._gaps = tuple(sure_gaps(self._indexed, self._precedence))
        self._descent = descent_of(self._indexed, self._precedence)
        self._schedule: OperatorSchedule | None = None
        self._has_ordered = threading.Event()
        self.least_cost_in_bytes: int | None = None

    def solve(self) -> None:
        """Leave the best plan and the best bound with the incumbent."""
        first, then = {"bound of gaps": self._bound_by_gaps}, {"bound of parts": self._bound_by_parts}
        plans = {"ordering": self._find_order, "placing": self._place, "conflicts": self._learn}
        if self._run.limits.workers == 1:
            self._share(self._run, {**first, **plans, **then})
            return
        others = replace(self._run, limits=replace(self._run.limits, workers=self._run.limits.workers - 1))

        def bound() -> None:
            self._share(others, first)
            while not self._has_ordered.wait(WATCH_EVERY_SECONDS) and self._run.stop is None:
                pass
            self._share(others, then)

        with ThreadPoolExecutor(1) as pool:
            bounded = pool.submit(bound)
            try:
                self._share(of_one_worker(self._run), plans)
            finally:
                self._has_ordered.set()
            bounded.result()

    def _share(self, run: Run, steps_by_name: Mapping[str, Callable[[Stepped], Iterator[None]]]) -> None:
        """Run strategies in one portfolio; all but two of them need an order."""
        has_ordered, first = self._has_ordered.is_set, ("bound of gaps", "ordering")
        strategies = [
            Stepped(name, self._incumbent, run, steps, is_ready=(lambda: True) if name in first else has_ordered)
            for name, steps in steps_by_name.items()
        ]
        Portfolio(self._incumbent, strategies, Budget(run)).solve()

    def _bound_by_gaps(self, turn: Stepped) -> Iterator[None]:
        """First each tensor by itself, then what is made of it standing in for it; then gaps of some orders."""
        models = [self._gaps]
        if len(self._descent.families) < len(self._descent.parents):
            models.append(self._gaps_of_families)
        for number, gaps in enumerate(models):
            bound = SureGapsBound(self._indexed, self._precedence, gaps)
            self._incumbent.raise_bound(bound.solve(turn.part(len(models) - number)))
            yield
        if not self._much_surely_waits(self._incumbent.value or 0):
            return
        order = range(self._indexed.operator_count)
        for reach in REACHES:
            possible = PossibleGaps(self._indexed, self._precedence, self._descent, order, reach)
            bound = SureGapsBound(self._indexed, self._precedence, self._gaps_of_families, possible)
            known = self._incumbent.lower_bound
            self._incumbent.raise_bound(bound.solve(turn.run))
            if self._incumbent.lower_bound <= known:
                return
            yield

    @cached_property
    def _gaps_of_families(self) -> tuple[SureGap, ...]:
        """Sure gaps in which what is made of a tensor stands in for it."""
        return tuple(sure_gaps(self._indexed, self._precedence, self._descent))

    def _much_surely_waits(self, cost: int) -> bool:
        """Return whether a quarter of a cost is paid in any order; windows alone do not decide what stays then."""
        return 4 * self._incumbent.lower_bound > cost

    def _find_order(self, turn: Stepped) -> Iterator[None]:
        """Decide what stays, and move windows of the order; twice, except where windows are moved with addresses."""
        schedule = self._what_stays(self._order, None, turn.part(PIECES))
        self._place_soon(schedule, turn.part(PIECES - 1))
        plan, moves = MovablePlan(self._indexed, schedule), WindowMoves()
        moves.improve(plan, without_figures(turn.part(PIECES - 2)))
        is_short = len(plan.order) <= MOST_STEPS_TO_LEARN
        if is_short or self._much_surely_waits(self._incumbent.value or plan.cost):
            found = MovablePlan(self._indexed, self._what_stays(plan.order, plan.schedule, turn.part(PIECES - 3)))
            if found.cost < plan.cost:
                moves.begin_again()
            moves.improve(found, without_figures(turn.part(2)))
            plan = found
        self._schedule = plan.schedule
        self._place_soon(self._schedule, turn.run)
        self._has_ordered.set()
        yield

    def _what_stays(self, order: Sequence[int], known: OperatorSchedule | None, run: Run) -> OperatorSchedule:
        """Return the cheapest schedule that is soon found for an order; none costs more than what is known."""
        begun = known or schedule_of_moves(self._indexed, belady_moves(self._indexed, order))
        whole = GapWindows(self._indexed, order, len(order))
        if whole.is_exact and (least := whole.solve_by_states(run)) is not None:
            return least
        if self._incumbent.is_proven or not cp_sat_is_within_reach(run):
            return begun
        model = KeptGaps(self._indexed, order)
        model.begin_with(begun)
        work = float("inf") if run.deadline.is_set else WORK_FOR_WHAT_STAYS
        found = model.solve(of_one_worker(without_figures(run)), work).answer
        if found is None or MovablePlan(self._indexed, found).cost > MovablePlan(self._indexed, begun).cost:
            return begun
        return found

    def _place_soon(self, schedule: OperatorSchedule, run: Run) -> None:
        if (planner := self._planner_near(schedule, run)) is not None:
            planner.place_soon(schedule)

    def _planner_near(self, schedule: OperatorSchedule, run: Run) -> OneOrderPlanner | None:
        """Return what gives addresses to a schedule, or to one that costs little more; None if that is no gain."""
        cost = MovablePlan(self._indexed, schedule).cost
        self.least_cost_in_bytes = min(cost, cost if self.least_cost_in_bytes is None else self.least_cost_in_bytes)
        if self._incumbent.is_proven or (self._incumbent.value is not None and cost >= self._incumbent.value):
            return None
        planner = OneOrderPlanner(self._incumbent, schedule.order, without_bound(run), is_the_only_order=False)
        planner.least_cost_in_bytes = cost
        return planner

    def _bound_by_parts(self, turn: Stepped) -> Iterator[None]:
        """Loads between uses that are far apart are charged by the sure gaps, all others by the parts."""
        if self._schedule is None:
            return
        parts = PartsBound(self._indexed, self._precedence, self._schedule.order)
        between = SureGapsBound(self._indexed, self._precedence, filter(parts.is_between_groups, self._gaps))
        least_between = between.solve(turn.run)
        for least_within in parts.solve(turn.whole_run):
            self._incumbent.raise_bound(least_between + least_within)
            yield

    def _learn(self, turn: Stepped) -> Iterator[None]:
        """Learn conflicts over addresses in a short order."""
        schedule = self._schedule
        if schedule is None or len(schedule.order) > MOST_STEPS_TO_LEARN:
            return
        if (planner := self._planner_near(schedule, turn.run)) is not None:
            planner.learn()
        yield

    def _place(self, turn: Stepped) -> Iterator[None]:
        """Widen beams; or place a long schedule by two, and plan windows of what they find anew, with addresses."""
        if self._schedule is None or (planner := self._planner_near(self._schedule, turn.whole_run)) is None:
            return
        found, placer = None, LayoutPlacer(self._indexed, self._schedule)
        if len(self._schedule.order) <= MOST_STEPS_TO_LEARN:
            yield from planner.place_ever_nearer(placer)
            return
        for number, layouts in enumerate(FIRST_LAYOUTS):
            found = placer.place(layouts, turn.part(len(FIRST_LAYOUTS) - number)) or found
        if found is None:
            return
        placed = AddressedPlan(self._indexed, *found)
        self._incumbent.offer(*found, placed.cost, f"placed among {FIRST_LAYOUTS[-1]} layouts")
        for _ in improve_in_placed_windows(placed, without_figures(turn.whole_run)):
            self._incumbent.offer(*placed.answer, placed.cost, "windows planned anew with addresses")
            yield
