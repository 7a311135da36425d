"""When the optimum in bytes does not pack: other optima, conflicts learnt, slack, the model with addresses.

What is proven beyond the bound in bytes is proven by conflicts for a given order, and by the model for any.
"""

from __future__ import annotations

from dataclasses import replace

from onchip.analysis.bounds import greatest_need
from onchip.analysis.indexed import IndexedProblem
from onchip.plan.problem import Order
from onchip.solve.allocation.pack import pack_schedule
from onchip.solve.compose import Move, Schedule, non_compulsory_cost, schedule_of_moves
from onchip.solve.joint.addressed import is_quick, prove_with_addresses
from onchip.solve.joint.incumbent import Incumbent
from onchip.solve.joint.learning import ConflictLearning
from onchip.solve.joint.staged import optimal_moves

OTHER_OPTIMA = 24
PACKING_SECONDS = 2.0
SLACK_STEPS = 6


class AddressSearch:
    """Looks for addresses for a plan as cheap as the bound in bytes, or nearly so."""

    def __init__(self, incumbent: Incumbent, optimum: tuple[Move, ...]) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._run = incumbent.run
        self._optimum = optimum

    def solve(self) -> None:
        """Go through the steps until the plan is proven or the run has to stop."""
        self._try_to_pack(schedule_of_moves(self._indexed, self._optimum), "packed")
        steps = [self._learn_conflicts, self._model]
        if self._indexed.problem.order is Order.FREE:
            steps = [self._other_optima, self._learn_conflicts, self._leave_slack, self._model]
        if is_quick(self._indexed):
            steps.reverse()
        for step in steps:
            if not self._is_over:
                step()

    @property
    def _is_over(self) -> bool:
        return self._incumbent.is_proven or self._run.stop is not None

    def _other_optima(self) -> None:
        """Break ties otherwise: another optimum in bytes may pack."""
        cost = self._incumbent.lower_bound
        for seed in range(1, OTHER_OPTIMA + 1):
            if self._is_over:
                return
            moves = optimal_moves(self._indexed, self._run, cost + 1, seed)
            if moves is not None:
                self._try_to_pack(schedule_of_moves(self._indexed, moves), "another optimum packed")

    def _learn_conflicts(self) -> None:
        """Find the best plan with addresses for the optimum's order; if no other is allowed, that is proven."""
        order = [move.operator for move in self._optimum]
        is_the_only_order = self._indexed.problem.order is Order.GIVEN
        ConflictLearning(self._incumbent, order).solve(is_the_only_order=is_the_only_order)

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
        moves = optimal_moves(smaller, self._run.within(PACKING_SECONDS), self._incumbent.value, 0)
        if moves is None:
            return True
        return self._try_to_pack(schedule_of_moves(smaller, moves), "packed with slack")

    def _model(self) -> None:
        prove_with_addresses(self._incumbent)

    def _try_to_pack(self, schedule: Schedule, phase: str) -> bool:
        """Offer the schedule as it stands if it packs."""
        offsets = pack_schedule(self._indexed, schedule, self._run.within(PACKING_SECONDS))
        if offsets is None:
            return False
        self._incumbent.offer(schedule, offsets, non_compulsory_cost(self._indexed, schedule), phase)
        return True
