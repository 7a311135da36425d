"""The best-first search over order and residencies in plain code, the reference for `native/joint.hpp`.

A state is the executed operators, the resident tensors, and the tensors with a copy in DRAM. `docs/search.md` proves
that each part (lazy transfers, safe moves, dominance, deferral) is exact.
"""

from __future__ import annotations

import heapq
from collections import deque

from onchip.answer.result import Stop
from onchip.memory.decisions import SearchMove
from onchip.memory.spill.search import UNLIMITED, SearchOutcome
from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of
from oracles.joint_evictions import Choice, Evictions, Listing
from oracles.joint_state import SearchState

Deferred = tuple[SearchState, SearchMove | Choice, int]
WORD = (1 << 64) - 1


class PlainSearch:
    """The least non-compulsory cost over all orders and residencies, without addresses; options as in the search."""

    def __init__(
        self,
        indexed: IndexedProblem,
        state_limit: int = UNLIMITED,
        *,
        upper_bound: int = UNLIMITED,
        seed: int = 0,
        greed: int = 0,
    ) -> None:
        self._indexed = indexed
        self._state_limit = state_limit
        self._upper_bound = upper_bound
        self._seed = seed
        self._greed = greed
        self._room = indexed.room
        self._evictions = Evictions(indexed)
        self._keys: list[tuple[int, int]] = []
        self._deferred: dict[tuple[int, int], deque[Deferred]] = {}
        self._frontier: dict[int, list[SearchState]] = {}
        self._popped = 0
        self._states = 0
        self._bound = 0

    def solve(self) -> SearchOutcome:
        """Pop the cheapest deferred child, build it, drop it if dominated, defer its children.

        A popped `Choice` represents children that are not listed yet; it counts as a state.
        """
        if self._expand(root := self._root()):
            return self._outcome(root, Stop.COMPLETED)
        while self._keys:
            if self._states >= self._state_limit:
                return self._outcome(None, Stop.NODE_LIMIT)
            parent, deferred, cost = self._pop()
            if parent.is_dominated:
                continue
            self._bound = 0 if self._greed else cost
            if isinstance(deferred, Choice):
                self._states += 1
                self._defer_evictions(parent, deferred)
            elif self._expand(child := self._child(parent, deferred, cost)):
                return self._outcome(child, Stop.COMPLETED)
        self._bound = self._upper_bound
        return self._outcome(None, Stop.COMPLETED)

    def _expand(self, state: SearchState) -> bool:
        """Defer the children of an undominated state; return True if the state is a complete plan."""
        if self._is_undominated(state):
            self._states += 1
            for operator in bits(state.ready):
                self._defer_evictions(state, Choice(operator))
        return state.executed == self._indexed.all_operators

    def _outcome(self, state: SearchState | None, stop: Stop) -> SearchOutcome:
        if state is None:
            return SearchOutcome(None, None, self._bound, self._states, stop)
        return SearchOutcome(_path(state), state.cost, self._bound, self._states, stop)

    def _root(self) -> SearchState:
        ready = sum(1 << o for o, befores in enumerate(self._indexed.predecessors) if not befores)
        return self._after_safe_moves(SearchState(0, 0, ready, 0, 0, 0, None, ()))

    # Moves

    def _child(self, parent: SearchState, move: SearchMove, cost: int) -> SearchState:
        """Build a deferred child: evict, run the operator, then make every safe move."""
        evicted = mask_of(move.evicted)
        child = SearchState(
            cost,
            parent.executed,
            parent.ready,
            parent.resident & ~evicted,
            parent.used_units - self._room.units_of(evicted),
            parent.copied | evicted & ~self._indexed.backed,
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
        """Run operators that some optimal continuation runs next, while there are any."""
        while (operator := self._safe_move(state)) is not None:
            self._execute(state, operator)
            state.moves += (SearchMove(operator),)
        return state

    def _safe_move(self, state: SearchState) -> int | None:
        return next((operator for operator in bits(state.ready) if self._is_safe(state, operator)), None)

    def _is_safe(self, state: SearchState, operator: int) -> bool:
        """Return True if running the operator now costs nothing and takes no capacity from later operators."""
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
        """Return True if the outputs can take the bytes of one freed input, and can be evicted in its place."""
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

    def _defer(self, state: SearchState, cost: int, deferred: SearchMove | Choice) -> None:
        """Enter a child by cost, less `greed` per executed operator; ties prefer more executed operators."""
        if cost >= self._upper_bound:
            return
        steps = state.executed.bit_count() + 1
        key = (cost - self._greed * steps, -steps)
        if key not in self._deferred:
            self._deferred[key] = deque()
            heapq.heappush(self._keys, key)
        self._deferred[key].append((state, deferred, cost))

    def _pop(self) -> Deferred:
        """Return the first entry with the least key, or a random one of them with a seed."""
        alike = self._deferred[self._keys[0]]
        if self._seed:
            at = mixed(self._seed ^ mixed(self._popped)) % len(alike)
            alike[0], alike[at] = alike[at], alike[0]
        self._popped += 1
        popped = alike.popleft()
        if not alike:
            del self._deferred[heapq.heappop(self._keys)]
        return popped

    def _defer_evictions(self, state: SearchState, choice: Choice) -> None:
        """Defer a child for each listed set, and the choices that are not listed yet."""
        listing = self._least_evictions(state, choice)
        for evicted, cost in listing.sets:
            self._defer(state, state.cost + cost, SearchMove(choice.operator, tuple(bits(evicted))))
        for later, cost in listing.rest:
            self._defer(state, state.cost + cost, later)

    def _least_evictions(self, state: SearchState, choice: Choice) -> Listing:
        return self._evictions.listed(state, choice)

    # Dominance

    def _is_undominated(self, state: SearchState) -> bool:
        """Enter a state among those with the same executed set; return False if one of them dominates it."""
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
        """Return True if `better` can do everything that `worse` can, at no higher cost.

        It first evicts its excess tensors, and writes the copies that only the other has.
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


def mixed(word: int) -> int:
    """Scramble a 64-bit number (SplitMix64)."""
    word = (word + 1) * 0x9E3779B97F4A7C15 & WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def _path(state: SearchState) -> tuple[SearchMove, ...]:
    """Return all moves from the start to this state."""
    stretches: list[tuple[SearchMove, ...]] = []
    node: SearchState | None = state
    while node is not None:
        stretches.append(node.moves)
        node = node.parent
    return tuple(move for stretch in reversed(stretches) for move in stretch)
