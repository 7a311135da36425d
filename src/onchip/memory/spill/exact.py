"""`--method exact`: a first plan, the bound in bytes by search, addresses, and proof.

Belady's evictions for the given order and for one of minimum peak are legal plans at once. Then strategies take turns:

* the minimum cost z in bytes (`search.py`), a lower bound for plans with addresses;
* where z is far, large graphs are bounded by their parts and improved window by window, small ones by one order;
* addresses: a packed schedule of cost z is optimal. Otherwise other optima, plans with slack, conflicts, and one model.
  A bound beyond z comes from conflicts for a given order, and from the model for any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from onchip.answer.problem import Objective, Order, Placement, Problem
from onchip.answer.program import Compute, Plan
from onchip.answer.result import SearchResult, Status
from onchip.memory.allocate.exact import Attempt, Knowledge, pack_by_cp_sat
from onchip.memory.allocate.repair import place_or_cut, place_or_cut_by_time
from onchip.memory.allocate.residencies import chained, has_countable_layouts, pack_with_ties
from onchip.memory.allocate.sections import has_too_many_pairs
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, SearchMove, non_compulsory_cost, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.retention.addressed import prove_with_addresses
from onchip.memory.retention.kept_gaps import ConflictLearning
from onchip.memory.spill.any_order import PARAMS as ORDER_PARAMS
from onchip.memory.spill.any_order import AnyOrderPlanner, OneOrderPlanner
from onchip.memory.spill.min_peak import orders_to_start_from, solve_peak, with_order_settled
from onchip.memory.spill.scratchpads import ScratchpadsPlanner
from onchip.memory.spill.search import BestFirstSearch, LeastBytes, LeastBytesParams, optimal_moves
from onchip.model.capacity.bounds import greatest_need, operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach
from onchip.search.strategy.portfolio import Portfolio, Stepped, Strategy
from onchip.search.strategy.start import without_bound


@dataclass(frozen=True, slots=True)
class AddressParams:
    """Constants of the search for addresses."""

    modelled_operators: int = 40
    """Operators of one order up to which the model with addresses follows a plan that does not pack."""
    optima: int = 40
    """Other optima in bytes that are packed."""


PARAMS: Final = AddressParams()


class AddressSearch:
    """Looks for addresses for a plan as cheap as the best in bytes, or nearly so.

    If that cost is not a proven minimum in bytes, the search does not look for other optima. A search that
    proves may then go on in other turns, so each step ends with its `turn`.
    """

    def __init__(self, incumbent: PlanIncumbent, moves: tuple[SearchMove, ...], *, is_optimal: bool) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._moves = moves
        self._is_optimal = is_optimal
        self._bound_in_bytes = incumbent.lower_bound

    def solve(self) -> None:
        """Search until the plan is proven, nothing is left to try, or the run has to stop."""
        run = self._incumbent.run
        Portfolio(self._incumbent, [Stepped("addresses", self._incumbent, run, self.steps)], Budget(run)).solve()

    def steps(self, turn: Stepped) -> Iterator[float | None]:
        """Search step by step; a turn may end after each."""
        self._try_to_pack(schedule_of_moves(self._indexed, self._moves), turn.run, "packed", STEP.short_work)
        yield None
        if self._is_optimal:
            yield from Portfolio(self._incumbent, self._strategies(turn.whole_run), Budget(turn.whole_run)).turns()
        else:
            yield from self._conflicts(turn)
            yield from self._slack(turn)

    def _strategies(self, run: Run) -> list[Strategy]:
        """Return the members that apply, the model last: without a time limit it waits for all others to end."""
        is_free, shares_bytes = self._indexed.problem.order is Order.FREE, self._indexed.problem.graph.shares_bytes
        others: list[Strategy] = []
        if is_free or shares_bytes:
            others.append(Stepped("other optima", self._incumbent, run, self._other_optima))
            others.append(Stepped("slack", self._incumbent, run, self._slack))
        if not shares_bytes:
            others.append(Stepped("conflicts", self._incumbent, run, self._conflicts))

        def is_ready() -> bool:
            return run.deadline.is_set or all(one.ended_by is not None for one in others)

        return [*others, Stepped("model with addresses", self._incumbent, run, self._model, is_ready=is_ready)]

    def _other_optima(self, turn: Stepped) -> Iterator[None]:
        """Break ties in another way: another optimum in bytes may pack, unless it is proven that none does."""
        for seed in range(1, 1 + PARAMS.optima):
            if self._incumbent.lower_bound > self._bound_in_bytes:
                return
            moves = optimal_moves(self._indexed, turn.whole_run, self._bound_in_bytes + 1, seed)
            if moves is not None:
                self._try_to_pack(schedule_of_moves(self._indexed, moves), turn.run, "another optimum packed")
            yield

    def _conflicts(self, turn: Stepped) -> Iterator[float]:
        """Find the best plan with addresses for the optimum's order; it is proven if no other order is allowed."""
        only = self._indexed.problem.order is Order.GIVEN
        if cp_sat_is_within_reach(turn.run):
            order, work = [move.operator for move in self._moves], inf if only else STEP.long_work
            yield from ConflictLearning(self._incumbent, order, is_the_only_order=only, most_work=work).rounds(turn)

    def _slack(self, turn: Stepped) -> Iterator[None]:
        """Plan for a smaller scratchpad, pack into the whole one; halve the slack between too little and enough."""
        capacity = self._indexed.memory.capacity_bytes
        too_little, enough = 0, capacity - greatest_need(self._indexed.problem).need_bytes
        slack = enough // 16
        while slack > too_little + capacity // 128:
            if self._packs_with_slack(capacity - slack, turn.run):
                enough = slack
            else:
                too_little = slack
            slack = (too_little + enough) // 2 if enough < 4 * slack else 2 * slack
            yield

    def _packs_with_slack(self, capacity_bytes: int, run: Run) -> bool:
        memory = replace(self._indexed.memory, capacity_bytes=capacity_bytes)
        smaller = IndexedProblem.of(replace(self._indexed.problem, memories=(memory,)))
        moves = optimal_moves(smaller, run, self._incumbent.value, 0, STEP.whole_states)
        return moves is None or self._try_to_pack(schedule_of_moves(smaller, moves), run, "packed with slack")

    def _model(self, turn: Stepped) -> Iterator[None]:
        while not prove_with_addresses(self._incumbent, turn.run):
            yield

    def _try_to_pack(self, schedule: OperatorSchedule, run: Run, phase: str, work: float = STEP.quick_work) -> bool:
        """Offer the schedule if it packs: by branching, then by CP-SAT with `work` as its limit."""
        chains = chained(self._indexed, schedule)
        if has_too_many_pairs(chains.problem.buffers):
            return False
        attempt = Attempt(chains.problem, run)
        finding = attempt.go_on(STEP.plan_nodes)
        found = attempt.offsets_bytes
        if finding is Knowledge.OPEN:
            packing = pack_by_cp_sat(chains.problem, run, most_work=work).answer
            found = packing.offsets_bytes if packing else None
        if found is not None:
            cost = non_compulsory_cost(self._indexed, schedule)
            self._incumbent.offer(chains.schedule, chains.offsets_bytes(found), cost, phase)
            return True
        return self._packs_with_other_ties(schedule, run, phase, work)

    def _packs_with_other_ties(self, schedule: OperatorSchedule, run: Run, phase: str, work: float) -> bool:
        """Offer the schedule if it packs with fewer ties, or in bytes that chains leave unused."""
        if not self._indexed.problem.graph.shares_bytes:
            return False
        placed = pack_with_ties(self._indexed, schedule, run, work).answer
        if placed is not None:
            self._incumbent.offer(*placed, non_compulsory_cost(self._indexed, schedule), phase)
        return placed is not None


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
        elif len(order) <= PARAMS.modelled_operators:
            AddressSearch(self._incumbent, found.moves, is_optimal=True).solve()
        else:
            planner.solve_near(schedule_of_moves(self._indexed, found.moves))
        self._incumbent.stopped_by = self._run.stop or found.stop

    def _is_worth_a_look(self) -> bool:
        """True if the order to start from may have a much better plan than the best known, and until it is planned."""
        if self._least.is_settled or not has_countable_layouts(self._indexed):
            return False
        if self._least.is_paused:
            return True
        is_large = self._indexed.operator_count > self._params.large_operators
        return not self._least.has_solved_the_orders or (is_large and self._least.is_far)

    def _look_ahead(self, turn: Stepped) -> Iterator[float | None]:
        """Bound large graphs by their parts, and move them window by window; plan one order of small ones.

        The search of a large graph waits meanwhile, because it will not end.
        """
        if self._params.large_operators < self._indexed.operator_count <= ORDER_PARAMS.whole_steps:
            planner = AnyOrderPlanner(self._incumbent, turn.whole_run, self._by_distance.order)
            self._least.is_paused = True
            try:
                yield from planner.turns()
            finally:  # the search goes on if the planner runs out of memory
                self._least.is_paused = False
            self._least.raise_bound(self._incumbent.lower_bound)
            if planner.least_cost_in_bytes is not None:
                self._least.keep(None, planner.least_cost_in_bytes, turn.name)
        else:
            first, run = self._by_distance, without_bound(turn.run)
            OneOrderPlanner(self._incumbent, first.order, run, is_the_only_order=False).solve(first)
        yield None

    def _is_worth_packing(self) -> bool:
        """True if the search in bytes is settled or over, or for one early attempt if addresses cost much more."""
        least = self._least
        if least.answer is None or least.value is None or least.is_paused:
            return False
        dear = ORDER_PARAMS.dear_addresses * least.value
        is_dear = self._run.deadline.is_set and (self._incumbent.value or 0) > dear
        return least.is_settled or least.search_ended_by is not None or (is_dear and not self._has_packed_early)

    def _find_addresses(self, turn: Stepped) -> Iterator[float | None]:
        is_last = False
        while not is_last:
            moves, is_optimal = self._least.answer or (), self._least.is_proven
            is_last, self._has_packed_early = is_optimal or self._least.search_ended_by is not None, True
            yield from AddressSearch(self._incumbent, moves, is_optimal=is_optimal).steps(turn)
            yield None

    def _offer_moves(self, moves: tuple[SearchMove, ...], cost: int, phase: str) -> None:
        if self._incumbent.value is None or cost < self._incumbent.value:
            self._offer(schedule_of_moves(self._indexed, moves), phase)

    def _offer(self, schedule: OperatorSchedule, phase: str) -> None:
        """Give a schedule addresses, with more evictions if it does not pack."""
        self._keep(*place_or_cut(self._indexed, schedule, self._run, STEP.check_nodes), phase)

    def _keep(self, placed: OperatorSchedule, offsets_bytes: tuple[int, ...], phase: str) -> None:
        self._incumbent.offer(placed, offsets_bytes, non_compulsory_cost(self._indexed, placed), phase)
