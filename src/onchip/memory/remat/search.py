"""Minimum cost in bytes with recomputation: best-first search over operators run, residents and copies in DRAM.

A state has the operators that ran at least once, the resident tensors, and the spilled tensors with a copy in DRAM. A
tensor comes when an operator reads it, and leaves when another needs its capacity. Leaving is free: the first reload
of a tensor also pays for the store when it left (docs/recomputation.md has the proofs).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from onchip.memory.decisions import SearchMove
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.search.budget.limits import Run

SETS_BETWEEN_LOOKS = 1024


@dataclass(frozen=True, slots=True)
class RunState:
    """Masks: operators that have run, tensors resident, produced tensors that were spilled and are in DRAM."""

    run: int
    resident: int
    stored: int


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """`moves` of minimum cost, None if not found; a proven bound on the cost in bytes, None if no plan exists."""

    moves: tuple[SearchMove, ...] | None
    lower_bound: int | None


@dataclass(slots=True)
class _Frontier:
    """States that no other state dominates, by the operators that have run, and how each was reached."""

    heap: list[tuple[int, int, int, RunState]] = field(default_factory=list)
    reached: dict[RunState, tuple[RunState, SearchMove] | None] = field(default_factory=dict)
    _least: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    _number: Iterator[int] = field(default_factory=count)

    def offer(self, cost: int, state: RunState, origin: tuple[RunState, SearchMove] | None) -> None:
        """Keep a state unless one that has run the same holds and stores as much for no more."""
        others = self._least.setdefault(state.run, [])
        for resident, stored, other in others:
            if other <= cost and not state.resident & ~resident and not state.stored & ~stored:
                return
        others[:] = [one for one in others if not _is_useless(one, state, cost)]
        others.append((state.resident, state.stored, cost))
        self.reached[state] = origin
        heappush(self.heap, (cost, -state.run.bit_count(), next(self._number), state))

    def is_current(self, cost: int, state: RunState) -> bool:
        """True if no state has dominated this one since it was offered."""
        return (state.resident, state.stored, cost) in self._least[state.run]


def _is_useless(one: tuple[int, int, int], state: RunState, cost: int) -> bool:
    resident, stored, other = one
    return cost <= other and not resident & ~state.resident and not stored & ~state.stored


class RecomputationSearch:
    """Search over at most `most_sets` sets of tensors; `capacity_units` may be less than the scratchpad's."""

    def __init__(self, indexed: IndexedProblem, run: Run, most_sets: int, capacity_units: int | None = None) -> None:
        self._indexed = indexed
        self._run = run
        self._most_sets = most_sets
        self._looked = 0
        self._is_over = False
        self._capacity_units = capacity_units
        self._may_spill = not indexed.problem.objective.forbids_spills
        operators = indexed.problem.graph.operators
        self._costs = [indexed.problem.cost_again(one) for one in operators]
        self._may_run_again = [indexed.problem.may_run_again(one) for one in operators]
        self._useful: dict[int, int] = {}
        self._frontier = _Frontier()

    def search(self) -> SearchAnswer:
        """Search until the cheapest plan is found, nothing is left, or the limits end it."""
        frontier = self._frontier
        frontier.offer(0, RunState(0, 0, 0), None)
        while frontier.heap:
            cost, _, _, state = heappop(frontier.heap)
            if state.run == self._indexed.all_operators:
                return SearchAnswer(self._moves_to(state), cost)
            if not frontier.is_current(cost, state):
                continue
            self._expand(cost, state)
            if self._is_over:  # successors of this state are missing, and no other state is cheaper
                return SearchAnswer(None, cost)
        return SearchAnswer(None, None)

    def _moves_to(self, state: RunState) -> tuple[SearchMove, ...]:
        moves: list[SearchMove] = []
        while (origin := self._frontier.reached[state]) is not None:
            state, move = origin
            moves.append(move)
        return tuple(reversed(moves))

    def _expand(self, cost: int, state: RunState) -> None:
        useful = self._useful_after(state.run)
        for operator in range(self._indexed.operator_count):
            has_run = bool(state.run >> operator & 1)
            if has_run and not self._pays_again(operator, state, useful):
                continue
            if not has_run and self._indexed.predecessors[operator] & ~state.run:
                continue
            brought = self._brought(operator, state)
            if brought is not None:
                more = brought[0] + (self._costs[operator] if has_run else 0)
                self._run_operator(cost + more, state, operator, state.stored | brought[1])

    def _pays_again(self, operator: int, state: RunState, useful: int) -> bool:
        """True if the operator writes a tensor that may be needed and is not resident."""
        return self._may_run_again[operator] and bool(self._indexed.writes[operator] & useful & ~state.resident)

    def _brought(self, operator: int, state: RunState) -> tuple[int, int] | None:
        """Return the cost of bringing the missing inputs, and those stored by then; None if they cannot be brought."""
        indexed, cost, stored = self._indexed, 0, 0
        for tensor in bits(indexed.reads[operator] & ~state.resident):
            is_first = indexed.producer[tensor] < 0 and not indexed.readers[tensor] & state.run
            if is_first:
                continue
            if not self._may_spill:
                return None
            cost += indexed.load_costs[tensor]
            if not (indexed.backed | state.stored) >> tensor & 1:
                cost += indexed.store_costs[tensor]
                stored |= 1 << tensor
        return cost, stored

    def _run_operator(self, cost: int, state: RunState, operator: int, stored: int) -> None:
        """Offer the states after a run of the operator, one for each minimal set that has to leave for it."""
        indexed = self._indexed
        executed = state.run | 1 << operator
        staying = state.resident & ~indexed.operands[operator]
        for leaving in self._smallest_that_leave(indexed.operands[operator], staying):
            resident = (state.resident & ~leaving | indexed.operands[operator]) & self._useful_after(executed)
            move = SearchMove(operator, tuple(bits(leaving)))
            self._frontier.offer(cost, RunState(executed, resident, stored), (state, move))

    def _smallest_that_leave(self, needed: int, staying: int) -> Iterator[int]:
        """Yield minimal sets of tensors without which the others fit with the operands."""
        tensors = sorted(bits(staying), key=lambda tensor: -self._indexed.room.units[tensor])
        yield from self._without(needed | staying, tuple(tensors), 0, 0)

    def _without(self, there: int, tensors: tuple[int, ...], first: int, left: int) -> Iterator[int]:
        self._looked += 1
        if self._looked > self._most_sets or (self._looked % SETS_BETWEEN_LOOKS == 0 and self._run.stop is not None):
            self._is_over = True
        if self._is_over:
            return
        if self._fits(there):
            if not any(self._fits(there | 1 << tensor) for tensor in bits(left)):
                yield left
            return
        for place in range(first, len(tensors)):
            one = 1 << tensors[place]
            yield from self._without(there & ~one, tensors, place + 1, left | one)

    def _fits(self, tensors: int) -> bool:
        room = self._indexed.room
        units = room.units_of(tensors)
        if self._capacity_units is not None:
            return units <= self._capacity_units
        return room.holds(tensors, units)

    def _useful_after(self, run: int) -> int:
        """Return the tensors with a reader that has not run, or that may run again for such a reader."""
        if run not in self._useful:
            indexed, useful = self._indexed, 0
            for operator in reversed(range(indexed.operator_count)):
                has_run = bool(run >> operator & 1)
                if not has_run or (self._may_run_again[operator] and indexed.writes[operator] & useful):
                    useful |= indexed.reads[operator]
            self._useful[run] = useful
        return self._useful[run]
