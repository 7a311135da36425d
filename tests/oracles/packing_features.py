"""Exhaustive answers for tiny packings with gaps, alignments, fixed offsets, several memories and groups.

Every offset of every buffer in every memory is tried. Nothing is shared with the solver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product


@dataclass(frozen=True, slots=True)
class Item:
    """A buffer, live at each of its steps."""

    steps: frozenset[int]
    size: int
    alignment: int = 1
    fixed: int | None = None


def is_legal(items: Sequence[Item], offsets: Sequence[int], capacity: int) -> bool:
    """Return True if the offsets are aligned, as fixed, within the capacity, and without overlap."""
    places = list(zip(items, offsets, strict=True))
    are_placed = all(
        0 <= at <= capacity - one.size and at % one.alignment == 0 and one.fixed in (None, at) for one, at in places
    )
    return are_placed and not any(
        one.steps & other.steps and at < place + other.size and place < at + one.size
        for (one, at), (other, place) in combinations(places, 2)
    )


def fits(items: Sequence[Item], capacity: int) -> bool:
    """Return True if some offsets are legal; fixed buffers come first, then the largest."""
    ordered = sorted(items, key=lambda one: (one.fixed is None, -one.size))

    def place(offsets: tuple[int, ...]) -> bool:
        if len(offsets) == len(ordered):
            return True
        one = ordered[len(offsets)]
        possible = range(0, capacity - one.size + 1, one.alignment) if one.fixed is None else (one.fixed,)
        return any(
            is_legal(ordered[: len(offsets) + 1], (*offsets, at), capacity) and place((*offsets, at)) for at in possible
        )

    return place(())


def least_arena(items: Sequence[Item], most: int) -> int | None:
    """Return the least capacity that suffices, None if that is more than `most`."""
    return next((capacity for capacity in range(most + 1) if fits(items, capacity)), None)


def is_irreducible(items: Sequence[Item], capacity: int) -> bool:
    """Return True if the buffers do not fit, and all but any one of them do."""
    return not fits(items, capacity) and all(
        fits([*items[:at], *items[at + 1 :]], capacity) for at in range(len(items))
    )


@dataclass(frozen=True, slots=True)
class Pools:
    """Memories by capacity and alignment; by buffer, the cost of each memory that may hold it (None: outside)."""

    memories: Sequence[tuple[int, int]]
    costs: Sequence[Mapping[int | None, int]]
    together: Sequence[Sequence[int]] = ()
    apart: Sequence[Sequence[int]] = ()

    def selections(self) -> Iterator[tuple[int | None, ...]]:
        """Yield every choice of a memory for every buffer that the groups allow."""
        for choice in product(*(list(costs) for costs in self.costs)):
            are_together = all(len({choice[index] for index in group}) == 1 for group in self.together)
            are_apart = all(len({choice[index] for index in group}) == len(set(group)) for group in self.apart)
            if are_together and are_apart:
                yield choice


def least_cost(items: Sequence[Item], pools: Pools) -> int | None:
    """Return the least cost of a choice whose memories all fit, None if there is none."""
    best: int | None = None
    for choice in pools.selections():
        cost = sum(costs[memory] for costs, memory in zip(pools.costs, choice, strict=True))
        if best is not None and cost >= best:
            continue
        if all(_fits_in(items, choice, number, memory) for number, memory in enumerate(pools.memories)):
            best = cost
    return best


def _fits_in(items: Sequence[Item], choice: Sequence[int | None], number: int, memory: tuple[int, int]) -> bool:
    from math import lcm

    capacity, alignment = memory
    inside = [
        Item(one.steps, one.size, lcm(one.alignment, alignment), one.fixed)
        for one, chosen in zip(items, choice, strict=True)
        if chosen == number
    ]
    are_aligned = all(one.fixed is None or one.fixed % one.alignment == 0 for one in inside)
    return are_aligned and fits(inside, capacity)
