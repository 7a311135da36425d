"""`--method exact` for several scratchpads, and for static placement: least cost of transfers.

1. Nothing stays, or what is needed again last leaves: legal plans at once.
2. The given order: which tensor stays in which scratchpad, with addresses, by learning conflicts.
3. Any order: a bound from one scratchpad as large as all; the orders that attain it, placed as in 2.
4. What is still open: order, places and addresses in one model.
"""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.problem import Order, Placement
from onchip.bounds.retention.merged_scratchpads import pooled
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.baselines.belady_places import belady_schedule, placed_schedule
from onchip.memory.baselines.streamed import stacked, streamed_schedule
from onchip.memory.decisions.compose import (
    OperatorSchedule,
    PlannedResidency,
    SearchMove,
    non_compulsory_cost,
    schedule_of_moves,
)
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.memory.decisions.repair import QUICK_WORK, place_or_cut
from onchip.memory.retention.addressed import prove_with_addresses
from onchip.memory.retention.kept_gaps import KeptGaps
from onchip.memory.retention.learning import ConflictLearning
from onchip.memory.retention.linked_proof import prove_with_links
from onchip.memory.spill.best_first.given import orders_to_start_from
from onchip.memory.spill.best_first.least_bytes import LeastBytes, optimal_moves
from onchip.search.budget.budget import Budget
from onchip.search.strategy.interruptible import cp_sat_is_within_reach
from onchip.search.strategy.portfolio import Portfolio

OTHER_ORDERS = 6


class ScratchpadsPlanner:
    """Every operator must fit by itself."""

    def __init__(self, incumbent: PlanIncumbent) -> None:
        self._incumbent = incumbent
        self._indexed = incumbent.indexed
        self._run = incumbent.run

    def solve(self) -> None:
        """Leave the best plan and the best bound with the incumbent."""
        given = tuple(range(self._indexed.operator_count))
        nothing_stays = streamed_schedule(self._indexed, given)
        offsets_bytes = stacked(self._indexed, nothing_stays)
        self._incumbent.offer(
            nothing_stays, offsets_bytes, non_compulsory_cost(self._indexed, nothing_stays), "nothing stays"
        )
        for order in orders_to_start_from(self._indexed.problem, self._run):
            if self._is_over:
                break
            if self._is_dynamic:
                self._offer(belady_schedule(self._indexed, order), "farthest next use")
            self._pool(order)
            self._learn(order)
        if self._indexed.problem.order is Order.FREE and not self._is_over:
            self._any_order()
        if not self._is_over:
            (prove_with_links if self._indexed.links else prove_with_addresses)(self._incumbent)
        self._incumbent.stopped_by = self._run.stop or self._incumbent.stopped_by

    @property
    def _is_over(self) -> bool:
        return self._incumbent.is_proven or self._run.stop is not None

    def _pool(self, order: tuple[int, ...]) -> None:
        """Plan one order for one scratchpad as large as all: a bound, and a guide to what stays."""
        if self._is_over or not self._is_dynamic or not cp_sat_is_within_reach(self._run):
            return
        relaxed = pooled(self._indexed)
        problem = replace(relaxed.indexed.problem, memories=(relaxed.indexed.memory,))
        indexed = replace(relaxed.indexed, problem=problem)
        gaps = KeptGaps(indexed, order)
        gaps.begin_with(schedule_of_moves(indexed, belady_moves(indexed, order)))
        chosen = gaps.solve(self._run)
        if self._indexed.has_one_order:
            self._incumbent.raise_bound(chosen.lower_bound + relaxed.forced_cost)
        if chosen.answer is not None and relaxed.indexed is self._indexed and not self._is_over:
            self._offer(placed_schedule(self._indexed, chosen.answer), "guided by one scratchpad as large as all")

    def _learn(self, order: tuple[int, ...]) -> None:
        """Plan one order, without links; its bound is one for all where there is neither another order nor a link."""
        if not self._is_over and cp_sat_is_within_reach(self._run):
            learning = ConflictLearning(self._incumbent, order, self._run)
            learning.solve(is_the_only_order=self._indexed.has_one_order and not self._indexed.links)

    @property
    def _is_dynamic(self) -> bool:
        return self._indexed.problem.placement is Placement.DYNAMIC

    def _offer(self, schedule: OperatorSchedule, phase: str) -> None:
        """Give a schedule addresses in each scratchpad, at the price of more evictions where it does not pack."""
        residencies: list[PlannedResidency] = []
        offsets_bytes: list[int] = []
        for memory, view in enumerate(self._indexed.views):
            part, offsets = place_or_cut(view, schedule.in_memory(memory), self._run, QUICK_WORK)
            residencies += part.residencies
            offsets_bytes += offsets
        placed = OperatorSchedule(schedule.order, tuple(residencies))
        self._incumbent.offer(placed, offsets_bytes, non_compulsory_cost(self._indexed, placed), phase)

    def _any_order(self) -> None:
        relaxed = pooled(self._indexed)

        def raise_bound(bound: int) -> None:
            self._incumbent.raise_bound(bound + relaxed.forced_cost)

        run = self._run.within(self._run.seconds_left / 2) if self._run.deadline.is_set else self._run
        search = LeastBytes(relaxed.indexed, run, self._learn_order_of, raise_bound)
        Portfolio(search, search.strategies(search), Budget(run)).solve()
        for seed in range(1, 1 + OTHER_ORDERS):
            if self._is_over or not search.is_proven:
                return
            moves = optimal_moves(relaxed.indexed, self._run, search.lower_bound + 1, seed)
            if moves is not None:
                self._learn(tuple(move.operator for move in moves))

    def _learn_order_of(self, moves: tuple[SearchMove, ...], _cost: int, _phase: str) -> None:
        self._learn(tuple(move.operator for move in moves))
