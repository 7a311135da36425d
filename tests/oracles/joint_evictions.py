"""What may leave before an operator that does not fit, plainly: the inclusion-minimal sets, a few at a time.

There may be millions of them. After so many nodes the rest is handed back as `Choice`s, each with a bound on what
its sets cost, so that the search comes back to it only when nothing cheaper is left. `docs/search.md` has the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onchip.model.lifetimes.bit_masks import bits
from onchip.model.lifetimes.indexed import IndexedProblem
from oracles.joint_state import SearchState

NODES_OF_A_CHOICE = 1 << 10


@dataclass(frozen=True, slots=True)
class Choice:
    """Sets of evictions before `operator` that are not listed yet.

    They contain the mask `evicted`, and beyond it only candidates from the place `following` on.
    """

    operator: int
    evicted: int = 0
    following: int = 0


@dataclass(slots=True)
class Listing:
    """`sets` are masks with what they cost; `rest` is not listed yet, with the least that any of its sets costs."""

    sets: list[tuple[int, int]] = field(default_factory=list)
    rest: list[tuple[Choice, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A resident tensor that may leave: its units, what that costs, and the tensor that would rather leave."""

    tensor: int
    units: int
    cost: int
    rather: int | None


class Evictions:
    """Lists the sets of one problem's states."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self._indexed = indexed
        self._room = indexed.room
        self._ancestors = ancestors_of(indexed)

    def listed(self, state: SearchState, choice: Choice) -> Listing:
        """List the inclusion-minimal sets of a choice, depth first over the candidates, for so many nodes."""
        indexed, room = self._indexed, self._room
        operands = indexed.operands[choice.operator]
        everything = state.resident | operands
        used = state.used_units + room.units_of(operands & ~state.resident)
        if room.holds(everything, used):
            return Listing([(0, 0)])
        candidates = self._candidates(state, operands)
        return _Lister(self, candidates, everything, used, choice).listing()

    def evict_cost(self, tensor: int, copied: int) -> int:
        """Return the cost of a live tensor that leaves: it has to come back, and be written unless DRAM has a copy."""
        cost = self._indexed.load_costs[tensor]
        if not (self._indexed.backed | copied) >> tensor & 1:
            cost += self._indexed.store_costs[tensor]
        return cost

    def is_minimal(self, everything: int, evicted: int, left_units: int) -> bool:
        """Whether none of the evicted could have stayed."""
        room = self._room
        return not any(
            room.holds(everything & ~evicted | 1 << tensor, left_units + room.units[tensor]) for tensor in bits(evicted)
        )

    def holds(self, everything: int, evicted: int, left_units: int) -> bool:
        """Whether what is not evicted fits, beside units that are left."""
        return self._room.holds(everything & ~evicted, left_units)

    def least_units(self, left_units: int) -> int:
        """Return how many units have to go at least, while so many are left; one may end short."""
        return max(0, left_units - self._room.capacity_units - 1)

    def _candidates(self, state: SearchState, operands: int) -> list[Candidate]:
        """Return them largest first; of the same size, those that are read last first, so `rather` comes before."""
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
        """Return what is the same of tensors that are alike: the room they take, what it costs to move them."""
        may_end_short = self._room.may_end_short >> tensor & 1
        costs = (self._indexed.load_costs[tensor], self.evict_cost(tensor, copied))
        return (self._room.units[tensor], may_end_short, *costs)

    def _leaves_rather(self, readers: dict[int, int], rather: int, tensor: int) -> bool:
        """Whether the first of two that are alike may leave in place of the second.

        So it is where both wait for the same operators; and where the second waits for one alone, which runs before
        (or is) each that the first waits for.
        """
        if readers[rather] == readers[tensor]:
            return True
        awaited = readers[tensor]
        is_one = not awaited & (awaited - 1)
        return is_one and all(awaited & (1 << o | self._ancestors[o]) for o in bits(readers[rather]))


class _Lister:
    """One search through the sets of one choice."""

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
        """List depth first, at each node with the next candidates one by one; hand back what is left in the end."""
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
        """Return the next place whose candidate may leave: the one that would rather leave has gone."""
        while place < len(self._candidates):
            rather = self._candidates[place].rather
            if rather is None or evicted >> rather & 1:
                break
            place += 1
        return place

    def _defer(self, listing: Listing, chosen: Sequence[Candidate], following: int) -> None:
        """Hand back the sets with the chosen and none, or some, from `following` on, unless there are none."""
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
        """Return the price of a unit that gives the greatest bound for all candidates: the dual of a knapsack."""
        return max(
            (0, *(candidate.cost // candidate.units for candidate in self._candidates)),
            key=lambda price: price * units - sum(max(0, price * c.units - c.cost) for c in self._candidates),
        )


def ancestors_of(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return per operator the mask of all that have to run before it; operators stand in a topological order."""
    ancestors: list[int] = []
    for befores in indexed.predecessors:
        before = befores
        for operator in bits(befores):
            before |= ancestors[operator]
        ancestors.append(before)
    return tuple(ancestors)
