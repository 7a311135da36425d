"""Minimum transfer cost for one order of any length, and for large graphs in any order.

Strategies for any order share the time:

* gaps: a tensor that must stay live across steps where it cannot fit costs a reload in any order;
* an order: residencies by an exact model, windows of the order planned again, addresses;
* parts of that order, each searched exactly, bound the cost of any order;
* addresses near that order, or windows of a plan with addresses planned again;
* conflicts over addresses in a short order.

With several workers, the bounds run in a separate thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from onchip.bounds.retention.sure_gaps import PossibleGaps, descent_of, sure_gaps
from onchip.memory.allocate.exact import Attempt
from onchip.memory.allocate.residencies import LayoutPlacer, packing_problem
from onchip.memory.allocate.sections import has_too_many_pairs
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, non_compulsory_cost, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.retention.kept_gaps import ConflictLearning, GapWindows, KeptGaps
from onchip.memory.retention.sure_gaps import SureGapsBound
from onchip.memory.spill.parts_bound import PartsBound
from onchip.memory.spill.windows import PARAMS as WINDOWS
from onchip.memory.spill.windows import AddressedPlan, MovablePlan, WindowMoves, improve_in_placed_windows
from onchip.model.lifetimes.indexed import IndexedProblem, Precedence
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import WATCH_EVERY_SECONDS, cp_sat_is_within_reach
from onchip.search.strategy.portfolio import Portfolio, Stepped
from onchip.search.strategy.start import of_one_worker, without_bound, without_figures


@dataclass(frozen=True, slots=True)
class OrderParams:
    """Constants of plans near one order."""

    whole_steps: int = 4_000
    """Steps of an order above which its residencies are decided window by window, if their choices are too many."""
    width_growth: int = 8
    """Layouts of the first beam, and the ratio of a beam's width to that of the beam before: two beams of nearly the
    same width find the same."""
    layouts: int = 4_000_000
    """Layouts of all steps and beams, without a time limit: some seconds."""
    dear_addresses: float = 1.1
    """Ratio of a plan's cost to the least known cost in bytes, above which no exact packing at that cost is tried."""
    learnable_steps: int = 2_000
    """Steps of a given order up to which conflicts over addresses are learnt."""
    short_steps: int = 500
    """Steps of a free order, in which as much leaves as may leave, up to which conflicts and beams gain most."""
    reaches: tuple[int, ...] = (500, 1_600)
    """Steps over which possible gaps are looked at, by the cube of a tensor's part of the scratchpad: 18 and 59 for a
    third."""


PARAMS: Final = OrderParams()


def cheapest_residencies(
    indexed: IndexedProblem, order: Sequence[int], known: OperatorSchedule, run: Run, most_work: float = inf
) -> tuple[int, OperatorSchedule | None]:
    """Return a lower bound in bytes for the order, and the cheapest residencies found in time; None if there are none.

    All choices are tried state by state where these are few. Otherwise a model decides, from `known` on. Long orders
    are cut into windows.
    """
    whole = GapWindows(indexed, order, len(order))
    is_long = len(order) > PARAMS.whole_steps
    if (whole.is_exact or is_long) and (found := whole.solve_by_states(run)) is not None:
        return whole.lower_bound, found
    if is_long:
        windows = GapWindows(indexed, order)
        found = windows.solve(run)
        return windows.lower_bound, found
    if not cp_sat_is_within_reach(run):
        return 0, None
    model = KeptGaps(indexed, order)
    model.begin_with(known)
    chosen = model.solve(run, most_work)
    return chosen.lower_bound, chosen.answer


class OneOrderPlanner:
    """Plans one order of a problem that `has_countable_layouts`; its bound holds if no other order is allowed.

    Residencies of minimum cost in bytes come first, then addresses for these or near them: by packing, by ever wider
    beams over layouts, and by conflicts learnt.
    """

    def __init__(self, incumbent: PlanIncumbent, order: Sequence[int], run: Run, *, is_the_only_order: bool) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._order = tuple(order)
        self._run = run
        self._is_the_only_order = is_the_only_order
        self.least_cost_in_bytes = 0

    def solve(self, by_distance: OperatorSchedule) -> None:
        """Leave the best plan with the incumbent, and the bound if it holds; `by_distance` are Belady's residencies."""
        self._place(LayoutPlacer(self._indexed, by_distance), PARAMS.width_growth)
        if self._is_over:
            return
        self.least_cost_in_bytes, found = cheapest_residencies(self._indexed, self._order, by_distance, self._half)
        if self._is_the_only_order:
            self._incumbent.raise_bound(self.least_cost_in_bytes)
        self.solve_near(found or by_distance)

    def solve_near(self, schedule: OperatorSchedule) -> None:
        """Find addresses for a schedule of the minimum known cost in bytes, or for one near it."""
        self.place_soon(schedule)
        steps = {"conflicts": self.learn, "layouts": lambda turn: self.widen(schedule, turn)}
        strategies = [
            Stepped(name, self._incumbent, self._run, each, is_ready=lambda: not self._is_over)
            for name, each in steps.items()
        ]
        Portfolio(self._incumbent, strategies, Budget(self._run)).solve()

    def place_by_beams(self, schedule: OperatorSchedule) -> None:
        """Offer plans near the schedule that narrow beams find at once."""
        placer = LayoutPlacer(self._indexed, schedule)
        for width in (PARAMS.width_growth, PARAMS.width_growth**2):
            self._place(placer, width)

    def place_soon(self, schedule: OperatorSchedule) -> None:
        """Offer the schedule, or one near it, if addresses are found soon."""
        self.place_by_beams(schedule)
        problem = packing_problem(self._indexed, schedule)
        dear, value = PARAMS.dear_addresses * non_compulsory_cost(self._indexed, schedule), self._incumbent.value
        is_dear = value is not None and value > dear
        if not self._is_over and not is_dear and not has_too_many_pairs(problem.buffers, STEP.searched_pairs):
            attempt = Attempt(problem, self._half)
            attempt.go_on(STEP.plan_nodes)
            if attempt.offsets_bytes is not None:
                self._offer(schedule, attempt.offsets_bytes, "packed")

    @property
    def _half(self) -> Run:
        return self._run.within(self._run.seconds_left / 2) if self._run.deadline.is_set else self._run

    @property
    def _is_over(self) -> bool:
        value = self._incumbent.value
        attains_bytes = value is not None and value <= self.least_cost_in_bytes
        return attains_bytes or self._incumbent.is_proven or self._run.stop is not None

    def widen(self, schedule: OperatorSchedule, turn: Stepped) -> Iterator[float]:
        """Place by ever wider beams, the last as wide as the turn allows; a node is a beam of the first width."""
        placer, layouts_left, last = LayoutPlacer(self._indexed, schedule), PARAMS.layouts // len(self._order), 0
        first, seconds_each = PARAMS.width_growth**3, 0.0
        width = first
        while not self._is_over:
            if not self._run.deadline.is_set:
                width = min(width, layouts_left)
            elif seconds_each:
                width = min(width, int(turn.run.seconds_left / seconds_each))
            if width <= last:
                return
            began = self._run.seconds
            self._place(placer, width)
            seconds_each = max((self._run.seconds - began) / width, 1e-9)
            yield width / first
            last, width, layouts_left = width, PARAMS.width_growth * width, layouts_left - width

    def learn(self, turn: Stepped) -> Iterator[float]:
        """Learn conflicts over addresses if the order is short."""
        if len(self._order) <= PARAMS.learnable_steps and not self._is_over:
            most_work = inf if self._is_the_only_order else STEP.long_work
            only = self._is_the_only_order
            learning = ConflictLearning(self._incumbent, self._order, is_the_only_order=only, most_work=most_work)
            yield from learning.rounds(turn)

    def _place(self, placer: LayoutPlacer, width: int) -> None:
        placed = None if self._is_over else placer.place(width, self._run)
        if placed is not None:
            self._offer(*placed, f"placed among {width} layouts")

    def _offer(self, schedule: OperatorSchedule, offsets_bytes: tuple[int, ...], phase: str) -> None:
        self._incumbent.offer(schedule, offsets_bytes, non_compulsory_cost(self._indexed, schedule), phase)


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

    def turns(self) -> Iterator[float | None]:
        """Leave the best plan and the best bound with the incumbent; yield the nodes of each turn of one worker."""
        first, then = {"bound of gaps": self._bound_by_gaps}, {"bound of parts": self._bound_by_parts}
        plans = {"ordering": self._find_order, "placing": self._place, "conflicts": self._learn}
        if self._run.limits.workers == 1:
            yield from self._portfolio(self._run, {**first, **plans, **then}).turns()
            return
        others = replace(self._run, limits=replace(self._run.limits, workers=self._run.limits.workers - 1))

        def bound() -> None:
            self._portfolio(others, first).solve()
            while not self._has_ordered.wait(WATCH_EVERY_SECONDS) and self._run.stop is None:
                pass
            self._portfolio(others, then).solve()

        with ThreadPoolExecutor(1) as pool:
            bounded = pool.submit(bound)
            try:
                self._portfolio(of_one_worker(self._run), plans).solve()
            finally:
                self._has_ordered.set()
            bounded.result()
        yield None

    def _portfolio(
        self, run: Run, steps_by_name: Mapping[str, Callable[[Stepped], Iterator[float | None]]]
    ) -> Portfolio:
        """Return strategies in one portfolio; all but two of them need an order."""
        has_ordered, first = self._has_ordered.is_set, ("bound of gaps", "ordering")
        strategies = [
            Stepped(name, self._incumbent, run, steps, is_ready=(lambda: True) if name in first else has_ordered)
            for name, steps in steps_by_name.items()
        ]
        return Portfolio(self._incumbent, strategies, Budget(run))

    def _bound_by_gaps(self, turn: Stepped) -> Iterator[None]:
        """Bound by gaps of each tensor, then of families of tensors, then by gaps of some orders."""
        self._raise_by_gaps(SureGapsBound(self._indexed, self._precedence, self._gaps), turn.part(2))
        yield
        known = (self._indexed, self._precedence)
        gaps = tuple(sure_gaps(*known, self._descent, lambda: turn.run.stop is not None))
        if len(self._descent.families) < len(self._descent.parents):
            self._raise_by_gaps(SureGapsBound(*known, gaps), turn.run)
            yield
        if not self._much_surely_waits(self._incumbent.value or 0):
            return
        order = range(self._indexed.operator_count)
        for reach in PARAMS.reaches:
            possible = PossibleGaps(*known, self._descent, order, reach)
            if not self._raise_by_gaps(SureGapsBound(*known, gaps, possible), turn.run):
                return
            yield

    def _raise_by_gaps(self, bound: SureGapsBound, run: Run) -> bool:
        """Return True if the bound is higher than those before."""
        known = self._incumbent.lower_bound
        self._incumbent.raise_bound(bound.solve(run))
        return self._incumbent.lower_bound > known

    def _much_surely_waits(self, cost: int) -> bool:
        """True if over a quarter of a cost is paid in any order; windows alone do not choose residencies then."""
        return 4 * self._incumbent.lower_bound > cost

    def _find_order(self, turn: Stepped) -> Iterator[None]:
        """Choose residencies, and move windows of the order; twice, except where windows are moved with addresses."""
        schedule = self._residencies(self._order, None, turn.part(5))
        self._place_soon(schedule, turn.part(4))
        plan, is_short = MovablePlan(self._indexed, schedule), len(schedule.order) <= PARAMS.short_steps
        moves = (
            WindowMoves()
            if is_short or self._much_surely_waits(plan.cost)
            else WindowMoves(WINDOWS.widest_before_addresses)
        )
        self._improve(plan, moves, turn.part(3))
        if is_short or self._much_surely_waits(self._incumbent.value or plan.cost):
            found = MovablePlan(self._indexed, self._residencies(plan.order, plan.schedule, turn.part(2)))
            if found.cost < plan.cost:
                moves.begin_again()
            self._improve(found, moves, turn.part(2))
            plan = found
        self._schedule = plan.schedule
        self._place_soon(self._schedule, turn.run)
        self._has_ordered.set()
        yield

    def _improve(self, plan: MovablePlan, moves: WindowMoves, run: Run) -> None:
        """Move windows, and place the plan by narrow beams after each width."""
        for _ in moves.improve(plan, without_figures(run)):
            if (planner := self._planner_near(plan.schedule, run)) is not None:
                planner.place_by_beams(plan.schedule)

    def _residencies(self, order: Sequence[int], known: OperatorSchedule | None, run: Run) -> OperatorSchedule:
        """Return the cheapest schedule found for an order, which is never more expensive than the known one."""
        begun = known or schedule_of_moves(self._indexed, belady_moves(self._indexed, order))
        if self._incumbent.is_proven:
            return begun
        work, alone = inf if run.deadline.is_set else STEP.short_work, of_one_worker(without_figures(run))
        _, found = cheapest_residencies(self._indexed, order, begun, alone, work)
        costs = [MovablePlan(self._indexed, one).cost for one in (begun, found or begun)]
        return begun if found is None or costs[1] > costs[0] else found

    def _place_soon(self, schedule: OperatorSchedule, run: Run) -> None:
        if (planner := self._planner_near(schedule, run)) is not None:
            planner.place_soon(schedule)

    def _planner_near(self, schedule: OperatorSchedule, run: Run) -> OneOrderPlanner | None:
        """Return a planner of addresses near a schedule; None if its cost is no gain."""
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

    def _learn(self, turn: Stepped) -> Iterator[float]:
        """Learn conflicts over addresses in a short order."""
        schedule = self._schedule
        if schedule is None or len(schedule.order) > PARAMS.short_steps:
            return
        if (planner := self._planner_near(schedule, turn.whole_run)) is not None:
            yield from planner.learn(turn)

    def _place(self, turn: Stepped) -> Iterator[float | None]:
        """Widen beams; or place a long schedule by two, and plan windows of the result again, with addresses."""
        if self._schedule is None or (planner := self._planner_near(self._schedule, turn.whole_run)) is None:
            return
        if len(self._schedule.order) <= PARAMS.short_steps:
            yield from planner.widen(self._schedule, turn)
            return
        found, placer = None, LayoutPlacer(self._indexed, self._schedule)
        for power in (1, 2):
            layouts = PARAMS.width_growth ** (1 + power)
            found = placer.place(layouts, turn.part(3 - power)) or found
        if found is None:
            return
        placed = AddressedPlan(self._indexed, *found)
        self._incumbent.offer(*found, placed.cost, "placed among layouts")
        for _ in improve_in_placed_windows(placed, without_figures(turn.whole_run)):
            self._incumbent.offer(*placed.answer, placed.cost, "windows planned again with addresses")
            yield None
