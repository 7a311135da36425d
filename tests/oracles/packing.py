"""Exhaustive answers for tiny packing problems: every offset, every memory of every buffer, every choice left out.

Nothing is shared with the solver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import lcm

from ortools.sat.python import cp_model

Buffer = tuple[int, int, int]
"""Start, stop (half-open steps) and bytes."""
MOST_STATES = 100_000


class TooLargeError(Exception):
    """Raised if the problem is too large for exhaustive search."""


@dataclass(frozen=True, slots=True)
class Item:
    """A buffer, live at each of its steps."""

    steps: frozenset[int]
    size: int
    alignment: int = 1
    fixed: int | None = None


def items_of(buffers: Sequence[Buffer], alignment: int = 1, fixed: Sequence[int | None] = ()) -> list[Item]:
    """Return the buffers as items; their steps are those at which some buffer starts."""
    starts = sorted({start for start, _, _ in buffers})
    return [
        Item(frozenset(at for at, step in enumerate(starts) if start <= step < stop), size, alignment, offset)
        for (start, stop, size), offset in zip(buffers, fixed or (None,) * len(buffers), strict=True)
    ]


def items_fit(items: Sequence[Item], capacity: int) -> bool:
    """Return True if there are offsets at which no two simultaneously live items overlap.

    Items are placed by their first step, at every offset or at their fixed one; dead items no longer matter. Raises
    TooLargeError after a number of states that would take minutes.
    """
    steps = {step for one in items for step in one.steps}
    if any(sum(one.size for one in items if step in one.steps) > capacity for step in steps):
        return False
    ordered = sorted(items, key=lambda one: min(one.steps))
    masks = [sum(1 << step for step in one.steps) for one in ordered]
    hopeless: set[tuple[int, tuple[tuple[int, int, int], ...]]] = set()

    def place(index: int, before: tuple[tuple[int, int, int], ...]) -> bool:
        if index == len(ordered):
            return True
        one, mask = ordered[index], masks[index]
        live = tuple(sorted(placed for placed in before if placed[0] >> min(one.steps)))
        if (index, live) in hopeless:
            return False
        taken = 0
        for other, size, offset in live:
            taken |= (((1 << size) - 1) << offset) * bool(other & mask)
        for at in range(0, capacity - one.size + 1, one.alignment):
            is_free = one.fixed in (None, at) and not taken >> at & ((1 << one.size) - 1)
            if is_free and place(index + 1, (*live, (mask, one.size, at))):
                return True
        hopeless.add((index, live))
        if len(hopeless) > MOST_STATES:
            raise TooLargeError
        return False

    return place(0, ())


def is_legal(items: Sequence[Item], offsets: Sequence[int | None], capacity: int) -> bool:
    """Return True if the offsets (None: left out) are aligned, as fixed, within the capacity, and without overlaps."""
    placed = [(one, at) for one, at in zip(items, offsets, strict=True) if at is not None]
    return all(
        0 <= at <= capacity - one.size and at % one.alignment == 0 and one.fixed in (None, at) for one, at in placed
    ) and not any(
        one.steps & other.steps and at < place + other.size and place < at + one.size
        for (one, at), (other, place) in combinations(placed, 2)
    )


@dataclass(frozen=True, slots=True)
class Pools:
    """Memories by capacity and alignment; by item, the cost of each memory that may hold it (None: outside)."""

    memories: Sequence[tuple[int, int]]
    costs: Sequence[Mapping[int | None, int]]
    together: Sequence[Sequence[int]] = ()
    apart: Sequence[Sequence[int]] = ()

    def selections(self) -> Iterator[tuple[int | None, ...]]:
        """Yield every choice of a memory for every item that the groups allow."""
        for choice in product(*(list(costs) for costs in self.costs)):
            are_together = all(len({choice[index] for index in group}) == 1 for group in self.together)
            are_apart = all(len({choice[index] for index in group}) == len(set(group)) for group in self.apart)
            if are_together and are_apart:
                yield choice

    def cost(self, choice: Sequence[int | None]) -> int:
        """Return the cost of a choice."""
        return sum(costs[memory] for costs, memory in zip(self.costs, choice, strict=True))


def least_cost(items: Sequence[Item], pools: Pools) -> int | None:
    """Return the least cost of a choice whose memories all fit, None if there is none."""
    for choice in sorted(pools.selections(), key=pools.cost):
        if all(_fits_in(items, choice, number, memory) for number, memory in enumerate(pools.memories)):
            return pools.cost(choice)
    return None


def _fits_in(items: Sequence[Item], choice: Sequence[int | None], number: int, memory: tuple[int, int]) -> bool:
    capacity, alignment = memory
    return items_fit(
        [
            Item(one.steps, one.size, lcm(one.alignment, alignment), one.fixed)
            for one, chosen in zip(items, choice, strict=True)
            if chosen == number
        ],
        capacity,
    )


def fits(buffers: Sequence[Buffer], capacity: int, alignment: int, fixed: Sequence[int | None] = ()) -> bool:
    """Return True if the buffers fit; raises TooLargeError."""
    return items_fit(items_of(buffers, alignment, fixed), capacity)


def most_bytes_alive(buffers: Sequence[Buffer]) -> int:
    """Return the most bytes of buffers live at one step, a lower bound on the capacity."""
    return max((sum(size for a, b, size in buffers if a <= start < b) for start, _, _ in buffers), default=0)


def least_capacity(buffers: Sequence[Buffer], alignment_bytes: int) -> int:
    """Return the least capacity into which the buffers fit."""
    capacity = most_bytes_alive(buffers)
    while not fits(buffers, capacity, alignment_bytes):
        capacity += 1
    return capacity


def least_outside_bytes(buffers: Sequence[Buffer], capacity: int, alignment: int) -> int:
    """Return the least total size of buffers that must be left out for the others to fit."""
    pools = Pools([(capacity, 1)], [{0: 0, None: size} for _, _, size in buffers])
    least = least_cost(items_of(buffers, alignment), pools)
    if least is None:
        raise AssertionError("with nothing inside everything fits")
    return least


def bounds_of_packing(
    buffers: Sequence[Buffer], capacity: int, alignment: int, question: str, seconds: float
) -> tuple[int | None, int | None]:
    """Return a lower bound (None: infeasible) and an upper bound (None: unknown) on the optimum.

    The `question` is `fits` (value 0), `minimize` (the capacity) or `overflow` (the bytes left out).
    """
    model = cp_model.CpModel()
    room = sum(-(-size // alignment) * alignment for _, _, size in buffers) if question == "minimize" else capacity
    top = model.new_int_var(0, room, "top")
    lives, places, outside = [], [], []
    for start, stop, size in buffers:
        is_inside = model.new_bool_var("")
        unit = model.new_int_var(0, room // alignment, "")
        model.add(alignment * unit + size <= top).only_enforce_if(is_inside)
        lives.append(model.new_optional_fixed_size_interval_var(start, stop - start, is_inside, ""))
        places.append(model.new_optional_fixed_size_interval_var(alignment * unit, size, is_inside, ""))
        outside.append(size * ~is_inside)
        if question != "overflow":
            model.add(is_inside == 1)
    model.add_no_overlap_2d(lives, places)
    if question != "fits":
        model.minimize(top if question == "minimize" else sum(outside))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None, None
    is_found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    if question == "fits":
        return 0, 0 if is_found else None
    return max(0, round(solver.best_objective_bound)), round(solver.objective_value) if is_found else None
