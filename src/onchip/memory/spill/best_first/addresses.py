"""When the optimum in bytes does not pack: other optima, slack, conflicts learnt, the model with addresses.

What is proven beyond the bound in bytes is proven by conflicts for a given order, and by the model for any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from onchip.answer.problem import Order
from onchip.memory.allocate.construct.best_fit import has_too_many_pairs
from onchip.memory.allocate.construct.chains import chained
from onchip.memory.allocate.exact.attempt import Attempt
from onchip.memory.allocate.exact.branching import Knowledge
from onchip.memory.allocate.exact.cp_sat import pack_by_cp_sat
from onchip.memory.allocate.exact.tied import pack_with_ties
from onchip.memory.decisions.compose import OperatorSchedule, SearchMove, non_compulsory_cost, schedule_of_moves
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.memory.effort import STEP
from onchip.memory.retention.addressed import prove_with_addresses
from onchip.memory.retention.learning import ConflictLearning
from onchip.memory.spill.best_first.least_bytes import optimal_moves
from onchip.memory.spill.best_first.placed_plans import PlacedPlans
from onchip.memory.spill.best_first.plan_graph import PlanGraph
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach
from onchip.search.strategy.portfolio import Stepped

MOST_OPERATORS = 40
MOST_PASSAGES, MOST_BEGINNINGS = 200_000, 10_000
FIRST_OPTIMA, MORE_OPTIMA = 6, 40
SLACK_STATES = 200_000
SLACK_STEPS = 6


class AddressSearch:
    """Looks for addresses for a plan as cheap as the best in bytes, or nearly so.

    If that is not proven optimal in bytes, there is no point in looking for its equals. A search that proves may then
    go on, so that each step ends with the `turn` in which it began.
    """

    def __init__(
        self, incumbent: PlanIncumbent, moves: tuple[SearchMove, ...], *, is_optimal: bool, turn: Stepped | None = None
    ) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._turn = None if is_optimal else turn
        self._moves = moves
        self._is_optimal = is_optimal
        self._bound_in_bytes = incumbent.lower_bound

    def solve(self) -> None:
        """Go through the steps until the plan is proven or the run has to stop."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """Hand back after each step."""
        self._try_to_pack(schedule_of_moves(self._indexed, self._moves), "packed", STEP.patient_work)
        for step in self._steps():
            yield
            if not self._is_over:
                step()

    @property
    def _run(self) -> Run:
        return self._incumbent.run if self._turn is None else self._turn.run

    def _steps(self) -> list[Callable[[], None]]:
        if self._indexed.problem.graph.shares_bytes:
            return [self._few_other_optima, self._leave_slack, self._model]
        if not self._is_optimal:
            return [self._learn_conflicts, self._leave_slack]
        is_free = self._indexed.problem.order is Order.FREE
        nearby = [self._few_other_optima, self._leave_slack] if is_free else []
        if self._indexed.operator_count <= MOST_OPERATORS:
            return [self._cheapest_plans, *nearby, self._learn_conflicts, self._model]
        return [*nearby, self._learn_conflicts, *([self._many_other_optima] if is_free else []), self._model]

    @property
    def _is_over(self) -> bool:
        return self._incumbent.is_proven or self._incumbent.run.stop is not None

    def _cheapest_plans(self) -> None:
        """Go through all plans below the best one, the cheapest first, as far as they have addresses."""
        incumbent = self._incumbent
        if incumbent.value is None:
            return
        graph = PlanGraph(self._indexed, incumbent.value - 1, MOST_PASSAGES, self._run)
        plans = PlacedPlans(self._indexed, graph, self._run)
        plans.solve(MOST_BEGINNINGS)
        incumbent.raise_bound(plans.lower_bound)
        if plans.plan is not None:
            placed = plans.plan
            incumbent.offer(placed.schedule, placed.offsets_bytes, placed.cost, "cheapest with addresses")

    def _few_other_optima(self) -> None:
        self._other_optima(range(1, 1 + FIRST_OPTIMA), STEP.quick_work)

    def _many_other_optima(self) -> None:
        self._other_optima(range(1, 1 + MORE_OPTIMA), STEP.patient_work)

    def _other_optima(self, seeds: range, work: float) -> None:
        """Break ties otherwise: another optimum in bytes may pack, unless it is proven that none does."""
        for seed in seeds:
            if self._is_over or self._incumbent.lower_bound > self._bound_in_bytes:
                return
            moves = optimal_moves(self._indexed, self._run, self._bound_in_bytes + 1, seed)
            if moves is not None:
                self._try_to_pack(schedule_of_moves(self._indexed, moves), "another optimum packed", work)

    def _learn_conflicts(self) -> None:
        """Find the best plan with addresses for the optimum's order; if no other is allowed, that is proven."""
        order = [move.operator for move in self._moves]
        is_the_only_order = self._indexed.problem.order is Order.GIVEN
        if not cp_sat_is_within_reach(self._run):
            return
        most_work = float("inf") if is_the_only_order else STEP.long_work
        ConflictLearning(self._incumbent, order, self._run, most_work).solve(is_the_only_order=is_the_only_order)

    def _leave_slack(self) -> None:
        """Plan for a smaller scratchpad, pack into the whole one; halve the slack between too little and enough."""
        capacity = self._indexed.memory.capacity_bytes
        too_little, enough = 0, capacity - greatest_need(self._indexed.problem).need_bytes
        slack = enough // 16
        for _ in range(SLACK_STEPS):
            if self._is_over or slack <= too_little:
                return
            if self._packs_with_slack(capacity - slack):
                enough = slack
            else:
                too_little = slack
            slack = (too_little + enough) // 2 if enough < 4 * slack else 2 * slack

    def _packs_with_slack(self, capacity_bytes: int) -> bool:
        memory = replace(self._indexed.memory, capacity_bytes=capacity_bytes)
        problem = replace(self._indexed.problem, memories=(memory,))
        smaller = IndexedProblem.of(problem)
        moves = optimal_moves(smaller, self._run, self._incumbent.value, 0, SLACK_STATES)
        if moves is None:
            return True
        return self._try_to_pack(schedule_of_moves(smaller, moves), "packed with slack")

    def _model(self) -> None:
        prove_with_addresses(self._incumbent)

    def _try_to_pack(self, schedule: OperatorSchedule, phase: str, work: float = STEP.quick_work) -> bool:
        """Offer the schedule as it stands if it packs: by branching first, then by another solver for so much work."""
        chains = chained(self._indexed, schedule)
        if has_too_many_pairs(chains.problem.buffers):
            return False
        attempt = Attempt(chains.problem, self._run)
        finding = attempt.go_on(STEP.plan_nodes)
        found = attempt.offsets_bytes
        if finding is Knowledge.OPEN:
            packing = pack_by_cp_sat(chains.problem, self._run, most_work=work).answer
            found = packing.offsets_bytes if packing else None
        if found is not None:
            cost = non_compulsory_cost(self._indexed, schedule)
            self._incumbent.offer(chains.schedule, chains.offsets_bytes(found), cost, phase)
            return True
        return self._packs_with_other_ties(schedule, phase, work)

    def _packs_with_other_ties(self, schedule: OperatorSchedule, phase: str, work: float) -> bool:
        """Whether it packs where less is overwritten, or in bytes that the chains leave unused."""
        if not self._indexed.problem.graph.shares_bytes:
            return False
        placed = pack_with_ties(self._indexed, schedule, self._run, work).answer
        if placed is not None:
            self._incumbent.offer(*placed, non_compulsory_cost(self._indexed, schedule), phase)
        return placed is not None
