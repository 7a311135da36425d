"""Exhaustive checks of packings for hypothesis's examples, and packings that barely fit."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import reject
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, PackingProblem
from onchip.memory.allocate.exact import least_arena_bytes
from oracles.packing import TooLargeError, fits


def drawn_buffers(
    greatest_size: int, most: int, last_start: int = 6, greatest_life: int = 5
) -> st.SearchStrategy[list[Buffer]]:
    """Draw some buffers that start and end within few steps."""
    return st.lists(
        st.builds(
            lambda start, life, size: Buffer(start, start + life, size),
            st.integers(0, last_start),
            st.integers(1, greatest_life),
            st.integers(1, greatest_size),
        ),
        min_size=1,
        max_size=most,
    )


def is_packable(problem: PackingProblem, kept: Iterable[Buffer] | None = None) -> bool:
    """Return True if the buffers, or those kept, fit; rejects an example too large for exhaustive search."""
    buffers = [(b.start, b.stop, b.size_bytes) for b in (problem.buffers if kept is None else kept)]
    try:
        return fits(buffers, problem.capacity_bytes, problem.alignment_bytes)
    except TooLargeError:
        reject()


def full_at_every_step(chance: random.Random, steps: int, units: int, most: int, leaving: float) -> list[Buffer]:
    """Return buffers of at most `most` units that fill `units` in every step; a share `leaving` ends with each step."""
    alive: list[tuple[int, int]] = []
    buffers: list[Buffer] = []
    free = units
    for step in range(steps):
        while free:
            alive.append((step, chance.randint(1, min(free, most))))
            free -= alive[-1][1]
        for one in [one for one in alive if step == steps - 1 or chance.random() < leaving]:
            alive.remove(one)
            free += one[1]
            buffers.append(Buffer(one[0], step + 1, one[1]))
    return buffers


def brimful(seed: int) -> PackingProblem | None:
    """Return a packing full in every step, with sizes slightly below multiples of the alignment."""
    chance = random.Random(seed)
    alignment = chance.choice((2, 3, 4))
    in_units = full_at_every_step(chance, chance.randint(3, 6), chance.randint(3, 6), 4, 0.45)
    buffers = [replace(one, size_bytes=one.size_bytes * alignment - chance.randrange(alignment)) for one in in_units]
    roomy = PackingProblem(tuple(buffers), 10**6, alignment)
    capacity = least_arena_bytes(roomy)
    return replace(roomy, capacity_bytes=capacity) if len(buffers) <= 12 and capacity <= 24 else None
