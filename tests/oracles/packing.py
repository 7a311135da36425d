"""Exhaustive answers for tiny packing problems: every offset of every buffer, every choice of buffers left out.

A buffer is (start, stop, bytes), live over the half-open range of steps. Nothing is shared with the solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import itemgetter

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
