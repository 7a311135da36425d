"""All plans in bytes up to a cost, as one graph: a path from its start to its end is an order and what is kept.

Nothing is left out that addresses could need: every order, and after each operator every choice of the operands that
stay until their next use. `docs/search.md` says why that is every plan.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple, TypeAlias

from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run


class PlanState(NamedTuple):
    """Between two operators: what has run, what stays until its next use, and what DRAM has a copy of.

    Masks; `copied` are live activations.
    """

    executed: int
    kept: int
    copied: int


START = PlanState(0, 0, 0)
Passage: TypeAlias = tuple[int, PlanState]
"""A way on from a state: the cost of what leaves and has to come back, and where it leads."""
Passages: TypeAlias = dict[int, list[Passage]]
"""By the operator that runs."""


class PlanGraph:
    """The plans of a cost of at most `most_cost`.

    That is less than was asked for if so many passages do not do or the run has to stop. It is negative if not
    even the plans of cost 0 are all there. `least_rest` says what a state costs from there on at least; a state without
    it leads nowhere.
    """

    def __init__(self, indexed: IndexedProblem, most_cost: int, most_passages: int, run: Run) -> None:
        self._indexed = indexed
        self._evict_costs = [
            load if indexed.backed >> tensor & 1 else load + store
            for tensor, (load, store) in enumerate(zip(indexed.load_costs, indexed.store_costs, strict=True))
        ]
        self._operators = list(zip(indexed.predecessors, indexed.operands, strict=True))
        self._fitting: dict[int, bool] = {}
        self.most_cost = most_cost
        self.passages: dict[PlanState, Passages] = {}
        self._grow(most_passages, run)
        self.least_rest = self._least_rests()

    def _grow(self, most_passages: int, run: Run) -> None:
        """Expand states, the cheapest first; what a state costs is final when it is its turn."""
        waiting, least = [(0, START)], {START: 0}
        count = 0
        while waiting and waiting[0][0] <= self.most_cost:
            cost, state = heapq.heappop(waiting)
            if cost > least[state]:
                continue
            if count > most_passages or run.stop is not None:
                self.most_cost = cost - 1
                return
            self.passages[state] = passages = self._passages_from(state, self.most_cost - cost)
            for ways in passages.values():
                count += len(ways)
                for more, target in ways:
                    if cost + more < least.get(target, self.most_cost + 1):
                        least[target] = cost + more
                        heapq.heappush(waiting, (cost + more, target))

    def _passages_from(self, state: PlanState, most_cost: int) -> Passages:
        executed, kept, _ = state
        passages: Passages = {}
        for operator, (befores, operands) in enumerate(self._operators):
            if not (executed >> operator & 1 or befores & ~executed) and self._fits(kept | operands):
                passages[operator] = self._choices(state, operator, most_cost)
        return passages

    def _fits(self, present: int) -> bool:
        """Whether tensors have room at one instant."""
        fits = self._fitting.get(present)
        if fits is None:
            room = self._indexed.room
            fits = self._fitting[present] = room.holds(present, room.units_of(present))
        return fits

    def _choices(self, state: PlanState, operator: int, most_cost: int) -> list[Passage]:
        """Each operand that is read again stays or leaves."""
        indexed, executed = self._indexed, state.executed | 1 << operator
        dead, choices = 0, [(0, state.kept & ~indexed.operands[operator], state.copied)]
        for tensor in indexed.operand_lists[operator]:
            bit = 1 << tensor
            if not indexed.readers[tensor] & ~executed:
                dead |= bit
                continue
            price = indexed.load_costs[tensor] if state.copied & bit else self._evict_costs[tensor]
            copy = bit & ~indexed.backed
            leaving = [
                (cost + price, kept, copied | copy) for cost, kept, copied in choices if cost + price <= most_cost
            ]
            choices = [(cost, kept | bit, copied) for cost, kept, copied in choices] + leaving
        return [(cost, PlanState(executed, kept, copied & ~dead)) for cost, kept, copied in choices]

    def _least_rests(self) -> dict[PlanState, int]:
        """Go back from the end, the states that have run most first."""
        rests: dict[PlanState, int] = {}
        for state in sorted(self.passages, key=lambda one: -one.executed.bit_count()):
            if state.executed == self._indexed.all_operators:
                rests[state] = 0
                continue
            onward = [
                cost + rests[target]
                for ways in self.passages[state].values()
                for cost, target in ways
                if target in rests
            ]
            if onward:
                rests[state] = min(onward)
        return rests
