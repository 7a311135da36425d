"""Exhaustive answers for tiny packing problems: every offset of every buffer, every choice of buffers left out.

A buffer is (start, stop, bytes), live over the half-open range of steps. Nothing is shared with the solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import itemgetter

from ortools.sat.python import cp_model

Buffer = tuple[int, int, int]
Placed = tuple[int, int, int, int]
MOST_STATES = 100_000


class TooLargeError(Exception):
    """Raised if the problem is too large for exhaustive search."""


def fits(
    buffers: Sequence[Buffer], capacity_bytes: int, alignment_bytes: int, fixed: Sequence[int | None] = ()
) -> bool:
    """Return True if there are offsets at which no two simultaneously live buffers overlap.

    Buffers are placed by start, at every offset or at their `fixed` one; dead buffers no longer matter. Raises
    TooLargeError after a number of states that would take minutes.
    """
    if most_bytes_alive(buffers) > capacity_bytes:
        return False
    ordered = sorted(zip(buffers, fixed or (None,) * len(buffers), strict=True), key=itemgetter(0))
    rest, only = [one for one, _ in ordered], [at for _, at in ordered]
    hopeless: set[tuple[int, tuple[Placed, ...]]] = set()

    def place(index: int, before: tuple[Placed, ...]) -> bool:
        if index == len(rest):
            return True
        start, _, size = rest[index]
        live = tuple(sorted(one for one in before if one[1] > start))
        if (index, live) in hopeless:
            return False
        taken = sum(((1 << bytes_of_one) - 1) << offset for _, _, bytes_of_one, offset in live)
        for at in range(0, capacity_bytes - size + 1, alignment_bytes):
            is_free = only[index] in (None, at) and not taken >> at & ((1 << size) - 1)
            if is_free and place(index + 1, (*live, (*rest[index], at))):
                return True
        hopeless.add((index, live))
        if len(hopeless) > MOST_STATES:
            raise TooLargeError
        return False

    return place(0, ())


def most_bytes_alive(buffers: Sequence[Buffer]) -> int:
    """Return the most bytes of buffers live at one step, a lower bound on the capacity."""
    return max((sum(size for a, b, size in buffers if a <= start < b) for start, _, _ in buffers), default=0)


def least_capacity(buffers: Sequence[Buffer], alignment_bytes: int) -> int:
    """Return the least capacity into which the buffers fit."""
    capacity = most_bytes_alive(buffers)
    while not fits(buffers, capacity, alignment_bytes):
        capacity += 1
    return capacity


def least_outside_bytes(buffers: Sequence[Buffer], capacity_bytes: int, alignment_bytes: int) -> int:
    """Return the least total size of buffers that must be left out for the others to fit."""
    choices = product((False, True), repeat=len(buffers))
    outside = {
        choice: sum(size for (_, _, size), is_out in zip(buffers, choice, strict=True) if is_out) for choice in choices
    }
    for choice in sorted(outside, key=outside.__getitem__):
        inside = [one for one, is_out in zip(buffers, choice, strict=True) if not is_out]
        if fits(inside, capacity_bytes, alignment_bytes):
            return outside[choice]
    raise AssertionError("with nothing inside everything fits")


def is_legal(buffers: Sequence[Buffer], offsets: Sequence[int | None], capacity: int, alignment: int) -> bool:
    """Return True if the offsets (None: left out) are aligned, within the capacity, and without overlaps."""
    placed = [(*one, at) for one, at in zip(buffers, offsets, strict=True) if at is not None]
    return all(0 <= at <= capacity - size and at % alignment == 0 for _, _, size, at in placed) and not any(
        _overlap(placed[i], placed[j]) for i in range(len(placed)) for j in range(i)
    )


def _overlap(one: Placed, other: Placed) -> bool:
    are_alive_together = one[0] < other[1] and other[0] < one[1]
    return are_alive_together and one[3] < other[3] + other[2] and other[3] < one[3] + one[2]


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


def fewest_bytes_outside(
    buffers: Sequence[Buffer], capacities: Sequence[tuple[int, int]], pinned: Sequence[int | None]
) -> int | None:
    """Return the fewest bytes left out; each capacity is (first free byte, end), aligned to 1.

    The memory number after the last means left out. Returns None if the pinned buffers do not fit.
    """
    outside = len(capacities)
    choices = [range(outside + 1) if pin is None else (pin,) for pin in pinned]
    best: int | None = None
    for choice in product(*choices):
        value = sum(size for (_, _, size), memory in zip(buffers, choice, strict=True) if memory == outside)
        if best is not None and value >= best:
            continue
        inside = [[b for b, at in zip(buffers, choice, strict=True) if at == memory] for memory in range(outside)]
        if all(fits(part, stop - start, 1) for part, (start, stop) in zip(inside, capacities, strict=True) if part):
            best = value
    return best
