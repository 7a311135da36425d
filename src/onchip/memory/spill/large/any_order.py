"""Large graphs in any order, least cost of transfers: bounds that need no search of the whole, and moves in windows.

1. What is surely awaited, and does not fit, is paid for in any order: a bound.
2. The order to start from, what stays in it by an exact model, with addresses: nothing later is worse.
3. Where much is surely awaited, choices between neighbours bound more of it.
4. Windows of the order are planned anew while that helps; the new order is given addresses.
5. Parts of that order, each searched exactly, bound what any order costs.
6. Windows of what has addresses are planned anew, addresses included.

Where there are several workers, one goes on with 4 and 6 while all others bound, by 3 and by parts of what 4 has found
first.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach
from onchip.search.strategy.stage import of_one_worker, without_bound, without_figures

SHARE_FOR_SURE_GAPS: Final = 0.3
"""Seldom used up: most models of sure gaps are solved in a second."""
REACHES: Final = (500, 1_600)
"""Of possible gaps: a tensor of a third of the scratchpad is looked at for 18 steps, and for 59."""
SHARE_FOR_A_REACH: Final = 0.5
SHARE_FOR_WHAT_STAYS: Final = 0.05
SHARE_WHERE_MUCH_SURELY_WAITS: Final = 0.25
"""There windows alone do not decide what stays."""
WORK_FOR_WHAT_STAYS: Final = 5.0
"""Of CP-SAT, which counts about a second as 1, where there is no time limit."""
SHARE_TO_MOVE: Final = 0.15
SHARE_TO_MOVE_AGAIN: Final = 0.05
"""In bytes it gains little then."""
SHARE_TO_MOVE_BEFORE_WINDOWS: Final = 0.06
"""Of long orders that windows with addresses move next, which gain more."""
SHARE_TO_PLACE: Final = 0.15
MOST_STEPS_TO_LEARN: Final = 500
"""Of an order in which as much leaves as may be at once conflicts are too many to learn; of 1,000 steps none helped."""
FIRST_LAYOUTS: Final = (64, 512)
"""The second may have no time to end."""
SHARE_FOR_PARTS: Final = 0.6


class AnyOrderPlanner:
    """Plans a problem that `has_countable_layouts`; `least_cost_in_bytes` is that of the best plan in bytes."""

    def __init__(self, incumbent: Incumbent, run: Run, order: Sequence[int] | None = None) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._run = run
        self._order = range(self._indexed.operator_count) if order is None else order
        self._precedence = Precedence(self._indexed)
        self._gaps = tuple(sure_gaps(self._indexed, self._precedence))
        self._descent = descent_of(self._indexed, self._precedence)
        self._much_waits = False
        self.least_cost_in_bytes: int | None = None

    def solve(self) -> None:
        """Leave the best plan and the best bound with the incumbent."""
        self._bound_by_what_waits()
        schedule = self._what_stays(self._order)
        self._place(schedule, is_soon=True)
        if self._is_over:
            return
        plan, moves = MovablePlan(self._indexed, schedule), WindowMoves()
        self._much_waits = self._much_surely_waits(self._incumbent.value or plan.cost)
        if self._run.limits.workers > 1:
            self._bound_while_moving(plan, moves)
            return
        if self._much_waits:
            self._bound_by_neighbours(self._run)
        self._move(plan, moves)
        plan = self._moved_again(plan, moves)
        self._place(plan.schedule, is_soon=True)
        self._bound_by_parts(plan.order, self._share(SHARE_FOR_PARTS))
        self._place(plan.schedule, is_soon=False)

    def _bound_by_what_waits(self) -> None:
        """First each tensor by itself, then what is made of it standing in for it."""
        whole = SureGapsBound(self._indexed, self._precedence, self._gaps)
        self._incumbent.raise_bound(whole.solve(self._share(SHARE_FOR_SURE_GAPS)))
        if len(self._descent.families) < len(self._descent.parents):
            made = SureGapsBound(self._indexed, self._precedence, self._gaps_of_families)
            self._incumbent.raise_bound(made.solve(self._share(SHARE_FOR_SURE_GAPS)))

    def _bound_by_neighbours(self, run: Run) -> None:
        """Then also by what is awaited in some orders, from ever further away while that raises the bound."""
        order = range(self._indexed.operator_count)
        for reach in REACHES:
            if self._is_over:
                return
            possible = PossibleGaps(self._indexed, self._precedence, self._descent, order, reach)
            bound = SureGapsBound(self._indexed, self._precedence, self._gaps_of_families, possible)
            known = self._incumbent.lower_bound
            self._incumbent.raise_bound(bound.solve(run.within(SHARE_FOR_A_REACH * run.seconds_left)))
            if self._incumbent.lower_bound <= known:
                return

    @cached_property
    def _gaps_of_families(self) -> tuple[SureGap, ...]:
        """Those of lines, in which what is made of a tensor stands in for it."""
        return tuple(sure_gaps(self._indexed, self._precedence, self._descent))

    @property
    def _is_over(self) -> bool:
        return self._incumbent.is_proven or self._run.stop is not None

    def _share(self, share: float) -> Run:
        return self._run.within(share * self._run.seconds_left)

    def _much_surely_waits(self, cost: int) -> bool:
        """Whether a quarter of a cost is paid in any order."""
        return 4 * self._incumbent.lower_bound > cost

    def _what_stays(self, order: Sequence[int], known: OperatorSchedule | None = None) -> OperatorSchedule:
        """Return the cheapest schedule that is soon found for an order; none costs more than what is known."""
        begun = known or schedule_of_moves(self._indexed, belady_moves(self._indexed, order))
        least_known = MovablePlan(self._indexed, begun).cost
        waits = self._much_surely_waits(self._incumbent.value or least_known)
        run = self._share(SHARE_WHERE_MUCH_SURELY_WAITS if waits else SHARE_FOR_WHAT_STAYS)
        whole = GapWindows(self._indexed, order, len(order))
        if whole.is_exact and (least := whole.solve_by_states(run)) is not None:
            return least
        if self._is_over or not cp_sat_is_within_reach(run):
            return begun
        model = KeptGaps(self._indexed, order)
        model.begin_with(begun)
        work = float("inf") if run.deadline.is_set else WORK_FOR_WHAT_STAYS
        found = model.solve(of_one_worker(without_figures(run)), work).answer
        if found is None or MovablePlan(self._indexed, found).cost > least_known:
            return begun
        return found

    def _place(self, schedule: OperatorSchedule, *, is_soon: bool) -> None:
        """Look for addresses of a schedule, or of one that costs little more, if it is cheaper than the best plan."""
        cost = MovablePlan(self._indexed, schedule).cost
        self.least_cost_in_bytes = min(cost, cost if self.least_cost_in_bytes is None else self.least_cost_in_bytes)
        if self._is_over or (self._incumbent.value is not None and cost >= self._incumbent.value):
            return
        run = without_bound(self._share(SHARE_TO_PLACE if is_soon else 1.0))
        planner = OneOrderPlanner(self._incumbent, schedule.order, run, is_the_only_order=False)
        planner.least_cost_in_bytes = cost
        if is_soon:
            planner.place_soon(schedule)
        elif len(schedule.order) > MOST_STEPS_TO_LEARN:
            self._place_in_windows(schedule, run)
        else:
            planner.solve_near(schedule)

    def _place_in_windows(self, schedule: OperatorSchedule, run: Run) -> None:
        """Place a long schedule by two beams, and plan windows of what they find anew, with addresses."""
        found, placer = None, LayoutPlacer(self._indexed, schedule)
        for layouts in FIRST_LAYOUTS:
            found = placer.place(layouts, run) or found
        if found is None:
            return
        placed = AddressedPlan(self._indexed, *found)
        self._incumbent.offer(*found, placed.cost, f"placed among {FIRST_LAYOUTS[-1]} layouts")
        for _ in improve_in_placed_windows(placed, without_figures(run)):
            self._incumbent.offer(*placed.answer, placed.cost, "windows planned anew with addresses")
            if self._is_over:
                return

    def _bound_while_moving(self, plan: MovablePlan, moves: WindowMoves) -> None:
        """One worker moves and places, all others bound: neither has to wait for the other."""
        others = replace(self._run, limits=replace(self._run.limits, workers=self._run.limits.workers - 1))
        self._run = of_one_worker(self._run)
        with ThreadPoolExecutor(1) as pool:
            bounded = [pool.submit(self._bound_by_neighbours, others)] if self._much_waits else []
            self._move(plan, moves)
            bounded.append(pool.submit(self._bound_by_parts, tuple(plan.order), others))
            schedule = self._moved_again(plan, moves).schedule
            if self._much_waits:
                self._place(schedule, is_soon=True)
            self._place(schedule, is_soon=False)
            for each in bounded:
                each.result()

    def _move(self, plan: MovablePlan, moves: WindowMoves) -> None:
        share = SHARE_TO_MOVE_BEFORE_WINDOWS if self._is_moved_placed(plan) else SHARE_TO_MOVE
        moves.improve(plan, without_figures(self._share(share)))

    def _is_moved_placed(self, plan: MovablePlan) -> bool:
        return len(plan.order) > MOST_STEPS_TO_LEARN and not self._much_waits

    def _moved_again(self, plan: MovablePlan, moves: WindowMoves) -> MovablePlan:
        """Decide anew what stays in the order found; move what is in windows of that, or go on if it stays the same.

        Where little surely waits, windows of long orders are moved with addresses at once.
        """
        if self._is_moved_placed(plan):
            return plan
        found = MovablePlan(self._indexed, self._what_stays(plan.order, plan.schedule))
        if found.cost < plan.cost:
            moves.begin_again()
        moves.improve(found, without_figures(self._share(SHARE_TO_MOVE_AGAIN)))
        return found

    def _bound_by_parts(self, order: Sequence[int], run: Run) -> None:
        """Loads between uses that are far apart are charged by the sure gaps, all others by the parts."""
        if self._is_over:
            return
        parts = PartsBound(self._indexed, self._precedence, order)
        between = SureGapsBound(self._indexed, self._precedence, filter(parts.is_between_groups, self._gaps))
        least_between = between.solve(run)
        for least_within in parts.solve(run):
            self._incumbent.raise_bound(least_between + least_within)
            if self._is_over:
                return
