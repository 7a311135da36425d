"""The heart: a best-first search over order and residencies that proves the least cost in bytes.

A state is what has been executed, what is resident, and of what DRAM has a copy. `docs/search.md`
has the argument why each part (lazy transfers, safe moves, dominance, deferral) is exact.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from onchip.answer.result import Stop
from onchip.facts.indexed import IndexedProblem, bits
from onchip.solve.joint.evictions import Choice, Evictions, Listing
from onchip.solve.joint.state import SearchState
from onchip.solve.run.compose import SearchMove
from onchip.solve.run.limits import Run

REPORT_EVERY = 64
UNLIMITED = 1 << 62
Deferred = tuple[int, int, int, SearchState, SearchMove | Choice | None]


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """`moves` and `cost` are None unless an optimum was found; `lower_bound` holds in any case."""

    moves: tuple[SearchMove, ...] | None
    cost: int | None
    lower_bound: int
    states: int
    stop: Stop


class BestFirstSearch:
    """Least non-compulsory cost over all orders and residencies, addresses aside."""

    def __init__(self, indexed: IndexedProblem, run: Run, state_limit: int | None = None) -> None:
        self._indexed = indexed
        self._run = run
        self._state_limit = min(run.limits.node_limit or UNLIMITED, state_limit or UNLIMITED)
        self._room = indexed.room
        self._evictions = Evictions(indexed)
        self._heap: list[Deferred] = []
        self._frontier: dict[int, list[SearchState]] = {}
        self._pushed = 0
        self._states = 0

    def solve(self) -> SearchOutcome:
        """Pop the cheapest deferred child, build it, drop it if dominated, defer its children.

        A `Choice` popped stands for children that were not listed yet; it counts as a state.
        """
        self._defer(0, 0, self._root(), None)
        bound = 0
        while self._heap:
            bound, _, _, parent, deferred = heapq.heappop(self._heap)
            if parent.is_dominated:
                continue
            if isinstance(deferred, Choice):
                state, choices = parent, [deferred]
            else:
                state = parent if deferred is None else self._child(parent, deferred, bound)
                if state.executed == self._indexed.all_operators:
                    return SearchOutcome(_path(state), bound, bound, self._states, Stop.COMPLETED)
                if not self._is_undominated(state):
                    continue
                choices = [Choice(operator) for operator in bits(state.ready)]
            self._states += 1
            for choice in choices:
                if stop := self._stop(bound):
                    return SearchOutcome(None, None, bound, self._states, stop)
                self._defer_evictions(state, choice)
        raise AssertionError("every order has a plan once each operator fits")

    def _stop(self, bound: int) -> Stop | None:
        if self._states % REPORT_EVERY == 0:
            self._run.report(None, bound, f"{self._states} states")
        return Stop.NODE_LIMIT if self._states >= self._state_limit else self._run.stop

    def _root(self) -> SearchState:
        ready = sum(1 << o for o, befores in enumerate(self._indexed.predecessors) if not befores)
        return self._after_safe_moves(SearchState(0, 0, ready, 0, 0, 0, None, ()))

    # Moves

    def _child(self, parent: SearchState, move: SearchMove, cost: int) -> SearchState:
        """Build a deferred child: evict, run the operator, then every safe move."""
        child = SearchState(
            cost,
            parent.executed,
            parent.ready,
            parent.resident & ~move.evicted,
            parent.used_units - self._room.units_of(move.evicted),
            parent.copied | move.evicted & ~self._indexed.backed,
            parent,
            (move,),
        )
        self._execute(child, move.operator)
        return self._after_safe_moves(child)

    def _execute(self, state: SearchState, operator: int) -> None:
        """Run an operator that fits: its operands become resident, then dead tensors leave."""
        indexed, units = self._indexed, self._room.units
        state.used_units += self._room.units_of(indexed.operands[operator] & ~state.resident)
        state.resident |= indexed.operands[operator]
        state.executed |= 1 << operator
        state.ready &= ~(1 << operator)
        for tensor in indexed.operand_lists[operator]:
            if not indexed.readers[tensor] & ~state.executed:
                state.resident &= ~(1 << tensor)
                state.copied &= ~(1 << tensor)
                state.used_units -= units[tensor]
        for successor in indexed.successors[operator]:
            if not indexed.predecessors[successor] & ~state.executed:
                state.ready |= 1 << successor

    def _after_safe_moves(self, state: SearchState) -> SearchState:
        """Run operators that some optimal continuation runs next, until there is none."""
        while (operator := self._safe_move(state)) is not None:
            self._execute(state, operator)
            state.moves += (SearchMove(operator, 0),)
        return state

    def _safe_move(self, state: SearchState) -> int | None:
        return next((operator for operator in bits(state.ready) if self._is_safe(state, operator)), None)

    def _is_safe(self, state: SearchState, operator: int) -> bool:
        """Whether running the operator now costs nothing and takes no room from anyone later."""
        indexed = self._indexed
        missing = indexed.operands[operator] & ~state.resident
        if not self._room.holds(state.resident | missing, state.used_units + self._room.units_of(missing)):
            return False
        still_needed = ~(state.executed | 1 << operator)
        freed = []
        for tensor in indexed.read_lists[operator]:
            is_resident = state.resident >> tensor & 1
            if not indexed.readers[tensor] & still_needed:
                if is_resident:
                    freed.append(tensor)
            elif not is_resident:
                return False
        live = [tensor for tensor in indexed.write_lists[operator] if indexed.readers[tensor]]
        return not live or any(self._can_stand_in(state, live, tensor) for tensor in freed)

    def _can_stand_in(self, state: SearchState, outputs: list[int], freed: int) -> bool:
        """Whether outputs may lie where one freed input lay, and leave when it would have left."""
        units = self._room.units
        difference = units[freed] - sum(units[tensor] for tensor in outputs)
        if difference < 0 or sum(map(self._full_evict_cost, outputs)) > self._evict_cost(freed, state.copied):
            return False
        may_end_short = self._room.may_end_short
        return difference > 0 or not may_end_short >> freed & 1 or any(may_end_short >> o & 1 for o in outputs)

    # Costs

    def _full_evict_cost(self, tensor: int) -> int:
        return self._evict_cost(tensor, 0)

    def _evict_cost(self, tensor: int, copied: int) -> int:
        return self._evictions.evict_cost(tensor, copied)

    # Children

    def _defer(self, cost: int, steps: int, parent: SearchState, deferred: SearchMove | Choice | None) -> None:
        """Ties: most operators executed first, then first come."""
        self._pushed += 1
        heapq.heappush(self._heap, (cost, -steps, self._pushed, parent, deferred))

    def _defer_evictions(self, state: SearchState, choice: Choice) -> None:
        """Defer a child for each set listed, and what is not listed yet."""
        steps, listing = state.executed.bit_count() + 1, self._least_evictions(state, choice)
        for evicted, cost in listing.sets:
            self._defer(state.cost + cost, steps, state, SearchMove(choice.operator, evicted))
        for later, cost in listing.rest:
            self._defer(state.cost + cost, steps, state, later)

    def _least_evictions(self, state: SearchState, choice: Choice) -> Listing:
        return self._evictions.listed(state, choice)

    # Dominance

    def _is_undominated(self, state: SearchState) -> bool:
        """Enter a state among those with the same executed set, unless one of them is as good."""
        peers = self._frontier.setdefault(state.executed, [])
        if any(self._dominates(peer, state) for peer in peers):
            return False
        survivors = [peer for peer in peers if not self._dominates(state, peer)]
        if len(survivors) < len(peers):
            for peer in peers:
                peer.is_dominated = peer not in survivors
        survivors.append(state)
        self._frontier[state.executed] = survivors
        return True

    def _dominates(self, better: SearchState, worse: SearchState) -> bool:
        """Whether `better` can do whatever `worse` can, at no more cost.

        It first evicts what it holds in excess and writes the copies that only the other has.
        """
        cost = better.cost
        if cost > worse.cost:
            return False
        excess = better.resident & ~worse.resident
        for tensor in bits(excess):
            cost += self._evict_cost(tensor, better.copied)
        for tensor in bits(worse.copied & ~better.copied & ~excess):
            cost += self._indexed.store_costs[tensor]
        return cost <= worse.cost


def _path(state: SearchState) -> tuple[SearchMove, ...]:
    """Return all moves from the start to this state."""
    stretches: list[tuple[SearchMove, ...]] = []
    node: SearchState | None = state
    while node is not None:
        stretches.append(node.moves)
        node = node.parent
    return tuple(move for stretch in reversed(stretches) for move in stretch)
