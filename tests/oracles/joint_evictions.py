"""Possible evictions before an operator that does not fit: inclusion-minimal sets, a few at a time, in plain code.

There may be millions of sets. After a number of nodes the rest is returned as `Choice`s, each with a lower bound on the
cost of its sets, so that the search resumes them only when nothing cheaper is left. `docs/search.md` has the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onchip.model.lifetimes.indexed import IndexedProblem, bits
from oracles.joint_state import SearchState

NODES_OF_A_CHOICE = 1 << 10


@dataclass(frozen=True, slots=True)
class Choice:
    """Sets of evictions before `operator` that are not listed yet.

    They contain the mask `evicted`, and beyond it only candidates with indices from `following` on.
    """

    operator: int
    evicted: int = 0
    following: int = 0


@dataclass(slots=True)
class Listing:
    """`sets` are masks with their costs; `rest` are unlisted choices with the least cost of their sets."""

    sets: list[tuple[int, int]] = field(default_factory=list)
    rest: list[tuple[Choice, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A resident tensor that may be evicted: its units, its cost, and the tensor that dominance evicts before it."""

    tensor: int
    units: int
    cost: int
    rather: int | None


class Evictions:
    """A generator of eviction sets for the states of one problem."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self._indexed = indexed
        self._room = indexed.room
        self._ancestors = ancestors_of(indexed)

    def listed(self, state: SearchState, choice: Choice) -> Listing:
        """List the inclusion-minimal sets of a choice, depth first over the candidates, up to a number of nodes."""
        indexed, room = self._indexed, self._room
        operands = indexed.operands[choice.operator]
        everything = state.resident | operands
        used = state.used_units + room.units_of(operands & ~state.resident)
        if room.holds(everything, used):
            return Listing([(0, 0)])
        candidates = self._candidates(state, operands)
        return _Lister(self, candidates, everything, used, choice).listing()

    def evict_cost(self, tensor: int, copied: int) -> int:
        """Return the cost of evicting a live tensor: its reload, and its write-back unless DRAM has a copy."""
        cost = self._indexed.load_costs[tensor]
        if not (self._indexed.backed | copied) >> tensor & 1:
            cost += self._indexed.store_costs[tensor]
        return cost

    def is_minimal(self, everything: int, evicted: int, left_units: int) -> bool:
        """Return True if none of the evicted tensors could have stayed."""
        room = self._room
        return not any(
            room.holds(everything & ~evicted | 1 << tensor, left_units + room.units[tensor]) for tensor in bits(evicted)
        )

    def holds(self, everything: int, evicted: int, left_units: int) -> bool:
        """Return True if the tensors that are not evicted fit, given the units in use."""
        return self._room.holds(everything & ~evicted, left_units)

    def least_units(self, left_units: int) -> int:
        """Return the least number of units to evict while `left_units` are in use; one tensor may end short."""
        return max(0, left_units - self._room.capacity_units - 1)

    def _candidates(self, state: SearchState, operands: int) -> list[Candidate]:
        """Return candidates by descending size, then by latest first reader, so that `rather` comes earlier."""
        units, unread = self._room.units, ~state.executed
        readers = {t: self._indexed.readers[t] & unread for t in bits(state.resident & ~operands)}
        order = sorted(readers, key=lambda t: (-units[t], -(readers[t] & -readers[t]), t))
        alike: dict[tuple[int, ...], list[int]] = {}
        candidates: list[Candidate] = []
        for tensor in order:
            before = alike.setdefault(self._look(tensor, state.copied), [])
            rather = next((other for other in reversed(before) if self._leaves_rather(readers, other, tensor)), None)
            before.append(tensor)
            candidates.append(Candidate(tensor, units[tensor], self.evict_cost(tensor, state.copied), rather))
        return candidates

    def _look(self, tensor: int, copied: int) -> tuple[int, ...]:
        """Return the key of equivalent tensors: their units, and the cost of moving them."""
        may_end_short = self._room.may_end_short >> tensor & 1
        costs = (self._indexed.load_costs[tensor], self.evict_cost(tensor, copied))
        return (self._room.units[tensor], may_end_short, *costs)

    def _leaves_rather(self, readers: dict[int, int], rather: int, tensor: int) -> bool:
        """Return True if the first of two equivalent tensors may be evicted instead of the second.

        This holds if both wait for the same operators, or if the second waits for a single operator that precedes (or
        is) each operator that the first waits for.
        """
        if readers[rather] == readers[tensor]:
            return True
        awaited = readers[tensor]
        is_one = not awaited & (awaited - 1)
        return is_one and all(awaited & (1 << o | self._ancestors[o]) for o in bits(readers[rather]))


class _Lister:
    """A search through the sets of one choice."""

    def __init__(
        self, evictions: Evictions, candidates: Sequence[Candidate], everything: int, used_units: int, choice: Choice
    ) -> None:
        self._evictions = evictions
        self._candidates = candidates
        self._everything = everything
        self._used_units = used_units
        self._choice = choice
        self._worth = self._worth_of_a_unit(evictions.least_units(used_units))

    def listing(self) -> Listing:
        """List sets depth first, trying the next candidates in turn at each node; return the remainder as choices."""
        listing, chosen = Listing(), [c for c in self._candidates if self._choice.evicted >> c.tensor & 1]
        fixed, places, following = len(chosen), list[int](), self._choice.following
        evicted, left = self._choice.evicted, self._used_units - sum(candidate.units for candidate in chosen)
        for _ in range(NODES_OF_A_CHOICE):
            is_enough = self._evictions.holds(self._everything, evicted, left)
            if is_enough and self._evictions.is_minimal(self._everything, evicted, left):
                listing.sets.append((evicted, sum(candidate.cost for candidate in chosen)))
            following = len(self._candidates) if is_enough else self._next_place(following, evicted)
            if following < len(self._candidates):
                chosen.append(self._candidates[following])
                places.append(following)
                following += 1
            elif places:
                chosen.pop()
                following = places.pop() + 1
            else:
                return listing
            changed = self._candidates[following - 1]
            evicted ^= 1 << changed.tensor
            left += changed.units if not evicted >> changed.tensor & 1 else -changed.units
        self._defer(listing, chosen, following)
        for depth, place in reversed(list(enumerate(places))):
            self._defer(listing, chosen[: fixed + depth], place + 1)
        return listing

    def _next_place(self, place: int, evicted: int) -> int:
        """Return the next index of a candidate that may leave, as its dominating tensor has left."""
        while place < len(self._candidates):
            rather = self._candidates[place].rather
            if rather is None or evicted >> rather & 1:
                break
            place += 1
        return place

    def _defer(self, listing: Listing, chosen: Sequence[Candidate], following: int) -> None:
        """Add the remaining sets with the chosen candidates, and any from `following` on, to the unlisted choices."""
        evicted = sum(1 << candidate.tensor for candidate in chosen)
        left = self._used_units - sum(candidate.units for candidate in chosen)
        after = self._candidates[following:]
        units = self._evictions.least_units(left)
        if sum(candidate.units for candidate in after) < units:
            return
        gained = sum(max(0, self._worth * candidate.units - candidate.cost) for candidate in after)
        cost = sum(candidate.cost for candidate in chosen) + max(0, self._worth * units - gained)
        listing.rest.append((Choice(self._choice.operator, evicted, following), cost))

    def _worth_of_a_unit(self, units: int) -> int:
        """Return the price per unit that gives the greatest bound for all candidates: the dual of a knapsack."""
        return max(
            (0, *(candidate.cost // candidate.units for candidate in self._candidates)),
            key=lambda price: price * units - sum(max(0, price * c.units - c.cost) for c in self._candidates),
        )


def ancestors_of(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return, by operator, the mask of its ancestors; operators are numbered in topological order."""
    ancestors: list[int] = []
    for befores in indexed.predecessors:
        before = befores
        for operator in bits(befores):
            before |= ancestors[operator]
        ancestors.append(before)
    return tuple(ancestors)
