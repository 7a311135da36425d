"""`--method exact`: a first plan, the bound in bytes by search, addresses, and proof.

Belady's evictions for the given order and for one of minimum peak are legal plans at once. Then strategies take turns:

* the minimum cost z in bytes (`search.py`), a lower bound for plans with addresses;
* where z is far, large graphs are bounded by their parts and improved window by window, small ones by one order;
* addresses: a packed schedule of cost z is optimal. Otherwise other optima, plans with slack, conflicts, and one model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from onchip.answer.problem import Objective, Placement, Problem
from onchip.answer.program import Compute, Plan
from onchip.answer.result import SearchResult, Status
from onchip.memory.allocate.repair import QUICK_WORK, place_or_cut, place_or_cut_by_time
from onchip.memory.allocate.residencies import has_countable_layouts
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, SearchMove, non_compulsory_cost, schedule_of_moves
from onchip.memory.spill.addresses import PARAMS as ADDRESS_PARAMS
from onchip.memory.spill.addresses import AddressSearch
from onchip.memory.spill.any_order import PARAMS as ORDER_PARAMS
from onchip.memory.spill.any_order import AnyOrderPlanner, OneOrderPlanner
from onchip.memory.spill.min_peak import orders_to_start_from, with_order_settled
from onchip.memory.spill.peak import solve_peak
from onchip.memory.spill.scratchpads import ScratchpadsPlanner
from onchip.memory.spill.search import BestFirstSearch, LeastBytes, LeastBytesParams
from onchip.model.capacity.infeasible_operator import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.portfolio import Portfolio, Stepped
from onchip.search.strategy.start import without_bound

METHOD = "exact"


@dataclass(frozen=True, slots=True)
class TrafficParams:
    """Constants of plans of minimum traffic."""

    one_order_states: int = 2_000
    """States of a search of the only order: milliseconds, which are enough for most."""
    large_operators: int = 100
    """Operators above which windows of an order gain more than the search, if the search will not end."""
    least_bytes: LeastBytesParams = field(default_factory=LeastBytesParams)


def solve_exactly(problem: Problem, run: Run) -> SearchResult[Plan]:
    """Prove the minimum traffic or the minimum arena, as far as the limits allow.

    INFEASIBLE if a single operator does not fit, or (peak) if no order fits without spills.
    """
    indexed = IndexedProblem.of(problem)
    if operators_that_do_not_fit(indexed):
        return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    if not any(indexed.operand_lists):  # all tensors are states on the chip
        computes = tuple(Compute(operator.name) for operator in problem.graph.operators)
        return SearchResult(Status.OPTIMAL, Plan(problem.memories, computes), 0, 0, run.seconds, METHOD)
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
    """Plans of minimum traffic in one scratchpad."""

    def __init__(self, incumbent: PlanIncumbent, params: TrafficParams = TrafficParams()) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._run = incumbent.run
        self._params = params
        self._by_distance = OperatorSchedule((), ())
        self._orders: list[tuple[int, ...]] = []

    def solve(self) -> None:
        """Leave the best plan and the best bound with the incumbent."""
        if self._incumbent.is_proven:
            return
        known = self._incumbent.value
        self._try_first_orders()
        if self._incumbent.is_proven:
            return
        if self._indexed.has_one_order and has_countable_layouts(self._indexed):
            self._plan_the_only_order()
            return
        least = LeastBytes(
            self._indexed,
            self._run,
            self._offer_moves,
            self._incumbent.raise_bound,
            self._orders,
            self._params.least_bytes,
        )
        if known is not None:
            least.keep(None, known, "known before")
        least.raise_bound(self._incumbent.lower_bound)
        self._least, self._has_packed_early = least, False
        strategies = [
            *least.strategies(self._incumbent),
            Stepped("ahead", self._incumbent, self._run, self._look_ahead, is_ready=self._is_worth_a_look),
            Stepped("addresses", self._incumbent, self._run, self._find_addresses, is_ready=self._is_worth_packing),
        ]
        self._incumbent.stopped_by = Portfolio(self._incumbent, strategies, Budget(self._run)).solve()

    def _try_first_orders(self) -> None:
        """Plan the given order and one of minimum peak by Belady's evictions; start from the cheaper in bytes."""
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
        found = BestFirstSearch(self._indexed, self._run, self._params.one_order_states).solve()
        self._incumbent.raise_bound(found.lower_bound)
        order = self._by_distance.order
        planner = OneOrderPlanner(self._incumbent, order, self._run, is_the_only_order=True)
        if found.moves is None:
            planner.solve(self._by_distance)
        elif len(order) <= ADDRESS_PARAMS.modelled_operators:
            AddressSearch(self._incumbent, found.moves, is_optimal=True).solve()
        else:
            planner.solve_near(schedule_of_moves(self._indexed, found.moves))
        self._incumbent.stopped_by = self._run.stop or found.stop

    def _is_worth_a_look(self) -> bool:
        """True if the order to start from may have a much better plan than the best known."""
        if self._least.is_settled or not has_countable_layouts(self._indexed):
            return False
        is_large = self._indexed.operator_count > self._params.large_operators
        return not self._least.has_solved_the_orders or (is_large and self._least.is_far)

    def _look_ahead(self, turn: Stepped) -> Iterator[None]:
        """Bound large graphs by their parts, and move them window by window; plan one order of small ones."""
        if self._params.large_operators < self._indexed.operator_count <= ORDER_PARAMS.whole_steps:
            planner = AnyOrderPlanner(self._incumbent, turn.whole_run, self._by_distance.order)
            planner.solve()
            self._least.raise_bound(self._incumbent.lower_bound)
            if planner.least_cost_in_bytes is not None:
                self._least.keep(None, planner.least_cost_in_bytes, turn.name)
        else:
            first, run = self._by_distance, without_bound(turn.run)
            OneOrderPlanner(self._incumbent, first.order, run, is_the_only_order=False).solve(first)
        yield

    def _is_worth_packing(self) -> bool:
        """True if the search in bytes is settled or over, or for one early attempt if addresses cost much more."""
        least = self._least
        if least.answer is None or least.value is None:
            return False
        dear = ORDER_PARAMS.dear_addresses * least.value
        is_dear = self._run.deadline.is_set and (self._incumbent.value or 0) > dear
        return least.is_settled or least.search_ended_by is not None or (is_dear and not self._has_packed_early)

    def _find_addresses(self, turn: Stepped) -> Iterator[None]:
        is_last = False
        while not is_last:
            moves, is_optimal = self._least.answer or (), self._least.is_proven
            is_last, self._has_packed_early = is_optimal or self._least.search_ended_by is not None, True
            yield from AddressSearch(self._incumbent, moves, is_optimal=is_optimal).steps(turn)
            yield

    def _offer_moves(self, moves: tuple[SearchMove, ...], cost: int, phase: str) -> None:
        if self._incumbent.value is None or cost < self._incumbent.value:
            self._offer(schedule_of_moves(self._indexed, moves), phase)

    def _offer(self, schedule: OperatorSchedule, phase: str) -> None:
        """Give a schedule addresses, with more evictions if it does not pack."""
        self._keep(*place_or_cut(self._indexed, schedule, self._run, QUICK_WORK), phase)

    def _keep(self, placed: OperatorSchedule, offsets_bytes: tuple[int, ...], phase: str) -> None:
        self._incumbent.offer(placed, offsets_bytes, non_compulsory_cost(self._indexed, placed), phase)
