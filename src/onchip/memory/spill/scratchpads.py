"""`--method exact` for several scratchpads, and for static placement: minimum cost of transfers.

1. First plans: nothing stays, or the tensor with the farthest next use leaves (Belady).
2. The given order: residencies with addresses by learning conflicts.
3. Any order: a bound from one scratchpad as large as all; the orders that attain it, placed as in 2.
4. Otherwise one model of order, places and addresses.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeAlias

from onchip.answer.problem import Order, Placement
from onchip.bounds.retention.sure_gaps import pooled
from onchip.memory.allocate.repair import place_or_cut
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.baselines.pinned import stacked, streamed_schedule
from onchip.memory.decisions import (
    OperatorSchedule,
    PlanIncumbent,
    PlannedResidency,
    SearchMove,
    non_compulsory_cost,
    schedule_of_moves,
)
from onchip.memory.effort import STEP
from onchip.memory.retention.addressed import prove_with_addresses
from onchip.memory.retention.kept_gaps import ConflictLearning, KeptGaps
from onchip.memory.retention.linked import prove_with_links
from onchip.memory.spill.min_peak import orders_to_start_from
from onchip.memory.spill.search import LeastBytes, optimal_moves
from onchip.model.capacity.bounds import places_of_operands
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.search.budget.limits import Budget
from onchip.search.strategy.interruptible import cp_sat_is_within_reach
from onchip.search.strategy.portfolio import Portfolio

NEVER = 1 << 60
Room: TypeAlias = tuple[tuple[int, int], int, tuple[int, ...]]
"""What it costs and how little is left over, the scratchpad, who leaves."""


class _Placing:
    """Places and evictions along an order; addresses aside, they always fit, if every operator fits alone.

    `guide` is a schedule for one scratchpad as large as all: where its tensors have no place, more of them leave.
    """

    def __init__(self, indexed: IndexedProblem, order: Sequence[int], guide: OperatorSchedule | None) -> None:
        self._indexed = indexed
        self._order = tuple(order)
        self._uses = indexed.uses(order)
        self._rooms = [view.room for view in indexed.views]
        self._there: list[set[int]] = [set() for _ in self._rooms]
        self._used = [0] * len(self._rooms)
        self._memory_of: dict[int, int] = {}
        self._began: dict[int, int] = {}
        self._residencies: list[PlannedResidency] = []
        self._leaves = {(r.tensor, r.stop - 1) for r in guide.residencies} if guide else set()

    def schedule(self) -> OperatorSchedule:
        for step, operator in enumerate(self._order):
            self._make_resident(step, operator)
            for tensor in self._indexed.operand_lists[operator]:
                if self._next_use(tensor, step) == NEVER or (tensor, step) in self._leaves:
                    self._leave(tensor, step + 1)
        return OperatorSchedule(self._order, tuple(sorted(self._residencies, key=lambda r: (r.start, r.tensor))))

    def _make_resident(self, step: int, operator: int) -> None:
        indexed, written = self._indexed, self._indexed.write_lists[operator]
        operands = indexed.operand_lists[operator]
        taken_in = {
            tensor: (indexed.written_in if tensor in written else indexed.read_in)[tensor] for tensor in operands
        }
        for tensor in taken_in:
            if tensor in self._memory_of and not taken_in[tensor] >> self._memory_of[tensor] & 1:
                self._leave(tensor, step)
        missing = [tensor for tensor in taken_in if tensor not in self._memory_of]
        for tensor in sorted(missing, key=lambda t: (taken_in[t].bit_count(), -indexed.sizes_bytes[t])):
            choices = [self._room_for(tensor, memory, operands, step) for memory in bits(taken_in[tensor])]
            possible = [choice for choice in choices if choice is not None]
            if not possible:
                self._start_anew(step, operator)
                return
            _, memory, evicted = min(possible)
            self._enter(tensor, memory, evicted, step)

    def _room_for(self, tensor: int, memory: int, operands: Collection[int], step: int) -> Room | None:
        """Return a room with its evictions, the farthest next uses first; None if the operands leave too little."""
        room, used = self._rooms[memory], self._used[memory] + self._rooms[memory].units[tensor]
        if used <= room.capacity_units:
            return (0, room.capacity_units - used), memory, ()
        there = {*self._there[memory], tensor}
        evicted, cost = [], 0
        others = sorted(sorted(there.difference(operands)), key=lambda t: self._next_use(t, step))
        while not room.holds_all(there, used):
            if not others:
                return None
            leaving = others.pop()
            evicted.append(leaving)
            there.remove(leaving)
            used -= room.units[leaving]
            cost += self._indexed.load_costs[leaving]
        return (cost, room.capacity_units - used), memory, tuple(evicted)

    def _start_anew(self, step: int, operator: int) -> None:
        """Place all operands again together, because those in place leave too little capacity for the others."""
        operands = self._indexed.operand_lists[operator]
        places = places_of_operands(self._indexed, operator) or {}
        for tensor, memory in places.items():
            if self._memory_of.get(tensor, memory) != memory:
                self._leave(tensor, step)
        for tensor, memory in places.items():
            if tensor not in self._memory_of:
                choice = self._room_for(tensor, memory, operands, step)
                self._enter(tensor, memory, choice[2] if choice else (), step)

    def _enter(self, tensor: int, memory: int, evicted: tuple[int, ...], step: int) -> None:
        for other in evicted:
            self._leave(other, step)
        self._memory_of[tensor], self._began[tensor] = memory, step
        self._there[memory].add(tensor)
        self._used[memory] += self._rooms[memory].units[tensor]

    def _leave(self, tensor: int, before: int) -> None:
        """The residency ends with the last use before that step, if there has been one."""
        memory, began = self._memory_of.pop(tensor), self._began.pop(tensor)
        self._there[memory].remove(tensor)
        self._used[memory] -= self._rooms[memory].units[tensor]
        if began < before:
            last_use = self._uses[tensor][bisect_left(self._uses[tensor], before) - 1]
            self._residencies.append(PlannedResidency(tensor, began, last_use + 1, memory))

    def _next_use(self, tensor: int, step: int) -> int:
        uses = self._uses[tensor]
        following = bisect_right(uses, step)
        return uses[following] if following < len(uses) else NEVER


class ScratchpadsPlanner:
    """Planner for several scratchpads; every operator must fit alone."""

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
                self._offer(_Placing(self._indexed, order, None).schedule(), "farthest next use")
            self._pool(order)
            self._learn(order)
        if self._indexed.problem.order is Order.FREE and not self._is_over:
            self._any_order()
        if not self._is_over and self._indexed.links:
            prove_with_links(self._incumbent)
        elif not self._is_over:
            prove_with_addresses(self._incumbent, self._run)
        self._incumbent.stopped_by = self._run.stop or self._incumbent.stopped_by

    @property
    def _is_over(self) -> bool:
        return self._incumbent.is_proven or self._run.stop is not None

    def _pool(self, order: tuple[int, ...]) -> None:
        """Plan one order for one scratchpad as large as all: a bound, and a guide to residencies."""
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
            placed = _Placing(self._indexed, chosen.answer.order, chosen.answer).schedule()
            self._offer(placed, "guided by one scratchpad as large as all")

    def _learn(self, order: tuple[int, ...]) -> None:
        """Plan one order, without links; its bound holds for all plans if no other order and no link exists."""
        if not self._is_over and cp_sat_is_within_reach(self._run):
            only = self._indexed.has_one_order and not self._indexed.links
            ConflictLearning(self._incumbent, order, is_the_only_order=only).solve(self._run)

    @property
    def _is_dynamic(self) -> bool:
        return self._indexed.problem.placement is Placement.DYNAMIC

    def _offer(self, schedule: OperatorSchedule, phase: str) -> None:
        """Give a schedule addresses in each scratchpad, with more evictions if it does not pack."""
        residencies: list[PlannedResidency] = []
        offsets_bytes: list[int] = []
        for memory, view in enumerate(self._indexed.views):
            part, offsets = place_or_cut(view, schedule.in_memory(memory), self._run, STEP.check_nodes)
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
        for seed in range(1, 1 + STEP.other_orders):
            if self._is_over or not search.is_proven:
                return
            moves = optimal_moves(relaxed.indexed, self._run, search.lower_bound + 1, seed)
            if moves is not None:
                self._learn(tuple(move.operator for move in moves))

    def _learn_order_of(self, moves: tuple[SearchMove, ...], _cost: int, _phase: str) -> None:
        self._learn(tuple(move.operator for move in moves))
