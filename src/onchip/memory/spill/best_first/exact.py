"""`--method exact`: a first plan at once, the bound in bytes by search, then addresses, then proof.

1. Belady's evictions at the given order and at one of least peak, addresses at any price: legal plans at once.
2. Best-first search: the least cost z in bytes, a lower bound for plans with addresses.
3. Pack a schedule of cost z: if one packs, it is optimal.
4. Otherwise other optima, plans with a little slack, conflicts learnt, and one model of all, from bound z on.

Independent components are planned alone (`components.py`).
Where 2 is far from its end, large graphs are bounded by their parts, and improved window by window, before it goes on.
"""

from __future__ import annotations

from onchip.answer.problem import Objective, Placement, Problem
from onchip.answer.program import Compute, Plan
from onchip.answer.result import Result, Status
from onchip.memory.allocate.construct.by_time import place_or_cut_by_time
from onchip.memory.allocate.construct.layouts import has_countable_layouts
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions.compose import OperatorSchedule, SearchMove, non_compulsory_cost, schedule_of_moves
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.memory.decisions.repair import QUICK_WORK, place_or_cut
from onchip.memory.spill.best_first.addresses import MOST_OPERATORS, AddressSearch
from onchip.memory.spill.best_first.given import orders_to_start_from, with_order_settled
from onchip.memory.spill.best_first.one_order import MOST_STEPS_WHOLE, OneOrderPlanner
from onchip.memory.spill.best_first.peak import solve_peak
from onchip.memory.spill.best_first.search import BestFirstSearch
from onchip.memory.spill.best_first.staged import FEW_OPERATORS, StagedSearch
from onchip.memory.spill.large.any_order import AnyOrderPlanner
from onchip.memory.spill.large.components import solve_in_components
from onchip.memory.spill.scratchpads.scratchpads import ScratchpadsPlanner
from onchip.model.capacity.fitting import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.strategy.stage import without_bound

METHOD = "exact"
ADDRESSES_COST_TOO_MUCH = 1.1
SHARE_BESIDE_ADDRESSES = 0.6
ONE_ORDER_STATES = 2_000
SHARE_FOR_THE_GIVEN_ORDER = 0.4


def solve_exactly(problem: Problem, run: Run) -> Result[Plan]:
    """Prove the least traffic or the least arena, as far as the limits allow.

    INFEASIBLE if a single operator does not fit, or (peak) if no order fits without spills.
    """
    indexed = IndexedProblem.of(problem)
    if operators_that_do_not_fit(indexed):
        return Result(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    if not any(indexed.operand_lists):  # all tensors are states on the chip
        computes = tuple(Compute(operator.name) for operator in problem.graph.operators)
        return Result(Status.OPTIMAL, Plan(problem.memories, computes), 0, 0, run.seconds, METHOD)
    apart = solve_in_components(problem, run, solve_exactly, METHOD)
    if apart is not None:
        return apart
    settled = with_order_settled(problem, run)
    incumbent = PlanIncumbent(indexed if settled is problem else IndexedProblem.of(settled), run)
    if problem.objective is Objective.PEAK:
        solve_peak(incumbent)
    elif len(problem.memories) > 1 or problem.placement is Placement.STATIC:
        ScratchpadsPlanner(incumbent).solve()
    else:
        TrafficPlanner(incumbent).solve()
    return incumbent.result(METHOD)


class TrafficPlanner:
    """The four steps for the objective traffic."""

    def __init__(self, incumbent: PlanIncumbent) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._run = incumbent.run
        self._least_cost_in_bytes = 0
        self._by_distance = OperatorSchedule((), ())
        self._orders: list[tuple[int, ...]] = []

    def solve(self) -> None:
        """Leave the best plan and the best bound with the incumbent."""
        if self._incumbent.is_proven:
            return
        known = self._incumbent.value
        self._least_cost_in_bytes = known or 0
        self._try_first_orders()
        if self._incumbent.is_proven:
            return
        if self._indexed.has_one_order and has_countable_layouts(self._indexed):
            self._plan_the_only_order()
            return
        search = StagedSearch(
            self._indexed, self._run, self._offer_moves, self._share_for_the_proof, self._look_ahead, self._orders
        )
        search.begin_with(known, self._incumbent.lower_bound)
        search.solve()
        self._incumbent.raise_bound(search.lower_bound)
        self._incumbent.stopped_by = search.stop
        if search.moves is not None and not self._incumbent.is_proven:
            AddressSearch(self._incumbent, search.moves, is_optimal=search.is_proven).solve()

    def _try_first_orders(self) -> None:
        """Plan the given order and one of least peak by Belady's evictions; the cheaper in bytes is where to start."""
        least_cost = None
        for order in orders_to_start_from(self._indexed.problem, self._run):
            schedule = schedule_of_moves(self._indexed, belady_moves(self._indexed, order))
            cost = non_compulsory_cost(self._indexed, schedule)
            if least_cost is None or cost < least_cost:
                self._by_distance, least_cost = schedule, cost
            self._orders.append(order)
            self._keep(*place_or_cut_by_time(self._indexed, schedule), "first plan")
            if self._incumbent.is_proven or self._indexed.has_one_order:
                return

    def _plan_the_only_order(self) -> None:
        """Search as long as that takes no time, which is enough for most; then for any size."""
        found = BestFirstSearch(self._indexed, self._run, ONE_ORDER_STATES).solve()
        self._incumbent.raise_bound(found.lower_bound)
        order = self._by_distance.order
        planner = OneOrderPlanner(self._incumbent, order, self._run, is_the_only_order=True)
        if found.moves is None:
            planner.solve(self._by_distance)
        elif len(order) <= MOST_OPERATORS:
            AddressSearch(self._incumbent, found.moves, is_optimal=True).solve()
        else:
            planner.solve_near(schedule_of_moves(self._indexed, found.moves))
        self._incumbent.stopped_by = self._run.stop or found.stop

    def _look_ahead(self) -> tuple[int | None, int]:
        """Where search is far from a proof, large graphs are bounded by parts, and moved window by window.

        Of small ones the order to start from may have a much better plan than is known.
        """
        if not has_countable_layouts(self._indexed):
            return None, 0
        if FEW_OPERATORS < self._indexed.operator_count <= MOST_STEPS_WHOLE:
            planner = AnyOrderPlanner(self._incumbent, self._run, self._by_distance.order)
            planner.solve()
            return planner.least_cost_in_bytes, self._incumbent.lower_bound
        run = without_bound(self._run.within(SHARE_FOR_THE_GIVEN_ORDER * self._run.seconds_left))
        first = self._by_distance
        OneOrderPlanner(self._incumbent, first.order, run, is_the_only_order=False).solve(first)
        return None, 0

    def _offer_moves(self, moves: tuple[SearchMove, ...], cost: int, phase: str) -> None:
        self._least_cost_in_bytes = cost
        if self._incumbent.value is None or cost < self._incumbent.value:
            self._offer(schedule_of_moves(self._indexed, moves), phase)

    def _share_for_the_proof(self) -> float:
        """Return how much of the time goes on with the search: not all, where addresses cost more than bytes."""
        is_far = (self._incumbent.value or 0) > ADDRESSES_COST_TOO_MUCH * self._least_cost_in_bytes
        return SHARE_BESIDE_ADDRESSES if is_far else 1.0

    def _offer(self, schedule: OperatorSchedule, phase: str) -> None:
        """Give a schedule addresses, at the price of more evictions where it does not pack."""
        self._keep(*place_or_cut(self._indexed, schedule, self._run, QUICK_WORK), phase)

    def _keep(self, placed: OperatorSchedule, offsets_bytes: tuple[int, ...], phase: str) -> None:
        self._incumbent.offer(placed, offsets_bytes, non_compulsory_cost(self._indexed, placed), phase)
