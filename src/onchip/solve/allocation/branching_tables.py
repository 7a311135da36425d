"""The exact packing search in flat arrays: what it reads (tables) and writes (state, frames).

`NamedTuple`s of arrays are what numba takes as one argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onchip.answer.packing import Buffer, PackingProblem
from onchip.solve.allocation.best_fit import overlapping_pairs

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

NONE = -1
COUNTERS = 7
MEMO_WORDS_PER_BUFFER = 1 << 11
MOST_MEMO_WORDS = 1 << 20
MOST_SUM_BITS = 1 << 22


class BranchingTables(NamedTuple):
    """The problem, in units of which every size is a multiple.

    Buffer `b` lives in the sections `first[b]` to `stop[b] - 1`; its neighbours are
    `neighbours[neighbours_at[b] : neighbours_at[b + 1]]`. `last` is its highest legal offset,
    `twin` one with the same life and size that is placed before it, `rank` when it is tried.
    No section may be filled above `limit`.
    """

    first: Integers
    stop: Integers
    size: Integers
    last: Integers
    twin: Integers
    rank: Integers
    neighbours_at: Integers
    neighbours: Integers
    limit: Integers


class BranchingState(NamedTuple):
    """What the search writes, in arrays by buffer or by section.

    `support[b]` is the top of the highest placed neighbour, `low[b]` the least offset not ruled
    out; the two are equal unless the buffer was passed over. `total` (of what is left), `floor`
    and `weight` (how often it was to blame) are of sections.
    """

    support: Integers
    low: Integers
    is_placed: Integers
    noted: Integers
    total: Integers
    floor: Integers
    scratch: Integers
    choices: Integers
    weight: Floats
    lists: Integers
    trail_buffer: Integers
    trail_support: Integers
    trail_low: Integers
    memo: Words


class Frames(NamedTuple):
    """One row per decision on the path; those that begin with `part_` are of the parts to be packed."""

    buffer: Integers
    position: Integers
    list_at: Integers
    list_end: Integers
    choices_at: Integers
    choices_end: Integers
    trail_top: Integers
    lists_top: Integers
    parts_top: Integers
    blame: Integers
    pending: Integers
    key_low: Words
    key_high: Words
    part_at: Integers
    part_end: Integers
    part_next: Integers
    part_owner: Integers
    part_low: Words
    part_high: Words


class BranchingWork(NamedTuple):
    """All arrays of one search together."""

    tables: BranchingTables
    state: BranchingState
    frames: Frames
    counters: Integers


def sections_of(buffers: Sequence[Buffer]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return per buffer its sections, half open, and per section a step in which all of it lives.

    A section is a largest set of buffers that live at once: a new one begins where a buffer
    starts after another has ended.
    """
    starts, stops = {b.start for b in buffers}, {b.stop for b in buffers}
    steps: list[int] = []
    section_at: dict[int, int] = {}
    section, is_open = 0, False
    for step in sorted(starts | stops):
        if is_open and step in stops:
            section, is_open = section + 1, False
        section_at[step] = section
        if step in starts:
            steps[section:] = [step]
            is_open = True
    return [(section_at[b.start], section_at[b.stop]) for b in buffers], steps


def tables_of(problem: PackingProblem) -> tuple[BranchingTables, int]:
    """Flatten a problem; also return its unit in bytes.

    In some packing, if there is one, each offset is a sum of sizes: no packing has a lower sum of
    offsets than one in which every buffer rests on another or on the ground. So sizes, offsets
    and limits are counted in units of the greatest common divisor, and limits are rounded down
    to what sizes add up to.
    """
    buffers, alignment = problem.buffers, problem.alignment_bytes
    whole, partial = divmod(problem.capacity_bytes, alignment)
    aligned = [-(-b.size_bytes // alignment) for b in buffers]
    unit = gcd(*aligned)
    sizes = [size // unit for size in aligned]
    ends_short = [0 < b.size_bytes % alignment <= partial for b in buffers]
    rounded = {short: greatest_sum(sizes, (whole + short) // unit) for short in (False, True)}
    spans, steps = sections_of(buffers)
    limit = np.full(len(steps), rounded[False], dtype=np.int64)
    for (first, stop), short in zip(spans, ends_short, strict=True):
        if short:
            limit[first:stop] = rounded[True]
    neighbours = overlapping_pairs(buffers)
    latest: dict[tuple[int, int, int], int] = {}
    twin = [NONE] * len(buffers)
    for index, ((first, stop), buffer) in enumerate(zip(spans, buffers, strict=True)):
        life = (first, stop, buffer.size_bytes)
        twin[index] = latest.get(life, NONE)
        latest[life] = index
    tables = BranchingTables(
        first=integers([first for first, _ in spans]),
        stop=integers([stop for _, stop in spans]),
        size=integers(sizes),
        last=integers([rounded[short] - size for size, short in zip(sizes, ends_short, strict=True)]),
        twin=integers(twin),
        rank=integers(range(len(buffers))),
        neighbours_at=integers([0, *accumulate(map(len, neighbours))]),
        neighbours=integers([other for others in neighbours for other in others]),
        limit=limit,
    )
    return tables, unit * alignment


def greatest_sum(sizes: Sequence[int], limit: int) -> int:
    """Return the greatest sum of some of the sizes that is not above the limit."""
    if limit < 0:
        return NONE
    if sum(sizes) <= limit or limit * len(sizes) > MOST_SUM_BITS:
        return limit
    within = (1 << limit + 1) - 1
    sums = 1
    for size in sizes:
        sums |= sums << size & within
    return sums.bit_length() - 1


def work_of(tables: BranchingTables, room: int) -> BranchingWork:
    """Make empty arrays around the tables; `room` is how many decisions a path may have."""
    buffers, sections = len(tables.size), len(tables.limit)
    trail, lists = room + buffers * 8, max(room, buffers) * (buffers // 2 + 4) + 4 * buffers
    memo = 1 << min(MEMO_WORDS_PER_BUFFER * buffers, MOST_MEMO_WORDS).bit_length()
    state = BranchingState(
        support=numbers(buffers),
        low=numbers(buffers),
        is_placed=numbers(buffers),
        noted=numbers(buffers),
        total=numbers(sections + 1),
        floor=numbers(sections + 1),
        scratch=numbers(sections + 1),
        choices=numbers(sections + 1),
        weight=np.ones(sections, dtype=np.float64),
        lists=numbers(lists),
        trail_buffer=numbers(trail),
        trail_support=numbers(trail),
        trail_low=numbers(trail),
        memo=words(memo),
    )
    return BranchingWork(tables, state, _frames(room, room + 2 * buffers), numbers(COUNTERS))


def _frames(room: int, parts: int) -> Frames:
    return Frames(
        buffer=numbers(room),
        position=numbers(room),
        list_at=numbers(room),
        list_end=numbers(room),
        choices_at=numbers(room),
        choices_end=numbers(room),
        trail_top=numbers(room),
        lists_top=numbers(room),
        parts_top=numbers(room),
        blame=numbers(room),
        pending=numbers(room),
        key_low=words(room),
        key_high=words(room),
        part_at=numbers(parts),
        part_end=numbers(parts),
        part_next=numbers(parts),
        part_owner=numbers(parts),
        part_low=words(parts),
        part_high=words(parts),
    )


def numbers(length: int) -> Integers:
    """Return an array of so many zeros, 64 bits each."""
    return np.zeros(length, dtype=np.int64)


def words(length: int) -> Words:
    """Return so many empty words."""
    return np.zeros(length, dtype=np.uint64)


def integers(values: Sequence[int]) -> Integers:
    """Return the values as an array."""
    return np.array(values, dtype=np.int64)
