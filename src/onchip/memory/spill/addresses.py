"""Searches for addresses when the first optimum in bytes does not pack.

Members: other optima, slack, conflicts learnt, and the model with addresses. A bound beyond the bound in bytes comes
from conflicts for a given order, and from the model for any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from onchip.answer.problem import Order
from onchip.memory.allocate.exact import Attempt, Knowledge, pack_by_cp_sat
from onchip.memory.allocate.residencies import chained, pack_with_ties
from onchip.memory.allocate.sections import has_too_many_pairs
from onchip.memory.decisions import OperatorSchedule, PlanIncumbent, SearchMove, non_compulsory_cost, schedule_of_moves
from onchip.memory.effort import STEP
from onchip.memory.retention.addressed import prove_with_addresses
from onchip.memory.retention.kept_gaps import ConflictLearning
from onchip.memory.spill.search import optimal_moves
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Budget, Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach
from onchip.search.strategy.portfolio import Portfolio, Stepped, Strategy


@dataclass(frozen=True, slots=True)
class AddressParams:
    """Constants of the search for addresses."""

    modelled_operators: int = 40
    """Operators of one order up to which the model with addresses follows a plan that does not pack."""
    optima: int = 40
    """Other optima in bytes that are packed."""
    slack_states: int = 200_000
    """States of a search with slack: about a second."""


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

    def steps(self, turn: Stepped) -> Iterator[None]:
        """Search step by step; a turn may end after each."""
        self._try_to_pack(schedule_of_moves(self._indexed, self._moves), turn.run, "packed", STEP.short_work)
        yield
        if self._is_optimal:
            Portfolio(self._incumbent, self._strategies(turn.whole_run), Budget(turn.whole_run)).solve()
        else:
            yield from self._conflicts(turn)
            yield from self._slack(turn)

    def _strategies(self, run: Run) -> list[Strategy]:
        """Return the members that apply, the model last: without a time limit it waits for all others to end."""
        is_free, shares_bytes = self._indexed.problem.order is Order.FREE, self._indexed.problem.graph.shares_bytes
        steps = {
            "other optima": (is_free or shares_bytes) and self._other_optima,
            "slack": (is_free or shares_bytes) and self._slack,
            "conflicts": not shares_bytes and self._conflicts,
        }
        others: list[Strategy] = [Stepped(name, self._incumbent, run, one) for name, one in steps.items() if one]

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

    def _conflicts(self, turn: Stepped) -> Iterator[None]:
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
        moves = optimal_moves(smaller, run, self._incumbent.value, 0, PARAMS.slack_states)
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
