"""The locally cheapest eviction: what COSMA calls the ILP-based greedy replacement (V-A2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from onchip.memory.decisions.compose import SearchMove
from onchip.model.lifetimes.indexed import IndexedProblem


@dataclass(frozen=True, slots=True)
class Eviction:
    """A set of tensors that frees `units` and costs `cost`; `waits` adds up how far off their next uses are."""

    units: int
    cost: int
    waits: int
    tensors: tuple[int, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """Cheapest first; ties to the farthest next uses."""
        return self.cost, -self.waits


def greedy_moves(indexed: IndexedProblem, order: Sequence[int]) -> tuple[SearchMove, ...]:
    """Return the order, where an operator does not fit with the set of evictions that costs least right then.

    An eviction costs the reload, and the spill unless DRAM has a copy. Every operator must fit by itself.
    """
    uses: list[list[int]] = [[] for _ in indexed.tensors]
    for step in range(len(order) - 1, -1, -1):
        for tensor in indexed.operand_lists[order[step]]:
            uses[tensor].append(step)
    room, used = indexed.room, 0
    resident: set[int] = set()
    copied: set[int] = set()
    moves: list[SearchMove] = []
    for step, operator in enumerate(order):
        operands = indexed.operand_lists[operator]
        idle = resident.difference(operands)
        used += room.units_of_all(tensor for tensor in operands if tensor not in resident)
        resident.update(operands)
        evicted: tuple[int, ...] = ()
        if used > room.capacity_units:
            candidates = [
                Eviction(room.units[t], _evict_cost(indexed, t, copied), uses[t][-1] - step, (t,)) for t in sorted(idle)
            ]
            evicted = cheapest_eviction(indexed, resident, candidates)
        resident.difference_update(evicted)
        copied.update(evicted)
        used -= room.units_of_all(evicted)
        moves.append(SearchMove(operator, tuple(sorted(evicted))))
        for tensor in operands:
            uses[tensor].pop()
            if not uses[tensor]:
                resident.remove(tensor)
                used -= room.units[tensor]
    return tuple(moves)


def _evict_cost(indexed: IndexedProblem, tensor: int, copied: Collection[int]) -> int:
    has_copy = tensor in copied or indexed.backed >> tensor & 1
    return indexed.load_costs[tensor] + (0 if has_copy else indexed.store_costs[tensor])


def cheapest_eviction(
    indexed: IndexedProblem, resident: Collection[int], candidates: Iterable[Eviction]
) -> tuple[int, ...]:
    """Return the cheapest candidates without which the rest of `resident` fits.

    The rest may end within the last, partial unit of the capacity if a tensor of it may.
    """
    room, single = indexed.room, tuple(candidates)
    excess = room.units_of_all(resident) - room.capacity_units
    choices = [_least_cover(single, excess)]
    choices += (
        _least_cover([one for one in single if one.tensors != (tensor,)], excess - 1)
        for tensor in sorted(resident)
        if room.ends_short((tensor,))
    )
    return min((choice for choice in choices if choice is not None), key=lambda choice: choice.rank).tensors


def _least_cover(candidates: Sequence[Eviction], excess: int) -> Eviction | None:
    """Return the cheapest set that frees at least `excess` units, exactly: a knapsack over non-dominated sets."""
    frontier = [Eviction(0, 0, 0, ())]
    if excess <= 0:
        return frontier[0]
    for one in candidates:
        grown = [
            Eviction(min(excess, e.units + one.units), e.cost + one.cost, e.waits + one.waits, e.tensors + one.tensors)
            for e in frontier
            if e.units < excess
        ]
        frontier = _undominated([*frontier, *grown])
    return frontier[0] if frontier[0].units >= excess else None


def _undominated(evictions: list[Eviction]) -> list[Eviction]:
    """Return those of which none frees as much for less, most units first."""
    kept: list[Eviction] = []
    for eviction in sorted(evictions, key=lambda e: (-e.units, *e.rank)):
        if not kept or eviction.rank < kept[-1].rank:
            kept.append(eviction)
    return kept
