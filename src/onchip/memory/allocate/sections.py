"""Packing problems in a reduced form: sections for steps, units for bytes, and a core without easy buffers.

Buffers that fit wherever their neighbours lie are postponed: a placed neighbour of `a` units blocks `a + b - 1` offsets
of a buffer of `b` units. Graph colouring postpones nodes of small degree for the same reason (Chaitin, 1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from onchip.answer.packing import Buffer, PackingProblem
from onchip.native import BufferLives, PackingBuffer

NO_TWIN: Final = -1
NOT_FIXED: Final = -1
UNFILLABLE: Final = -1
"""The limit of what not even an empty section keeps."""
MOST_SUM_BITS: Final = 1 << 22


MOST_PAIRS: Final = 20_000_000
"""Of buffers of a plan that live together: their lists take some 400 MB."""


def has_too_many_pairs(buffers: Sequence[Buffer], most: int | None = None) -> bool:
    """True if more than `most` (or MOST_PAIRS) pairs are alive together, too many for lists of pairs."""
    pairs = ended = 0
    stops = sorted(buffer.stop for buffer in buffers)
    for begun, start in enumerate(sorted(buffer.start for buffer in buffers)):
        while stops[ended] <= start:
            ended += 1
        pairs += begun - ended
    return pairs > (MOST_PAIRS if most is None else most)


def overlapping_pairs(buffers: Sequence[Buffer]) -> list[list[int]]:
    """Return per buffer the others that live in some step with it."""
    neighbours: list[list[int]] = [[] for _ in buffers]
    alive: list[int] = []
    for index in sorted(range(len(buffers)), key=lambda i: buffers[i].start):
        start = buffers[index].start
        alive = [other for other in alive if buffers[other].stop > start]
        for other in alive:
            neighbours[other].append(index)
            neighbours[index].append(other)
        alive.append(index)
    return neighbours


@dataclass(frozen=True, slots=True)
class PackingInUnits:
    """Sizes are multiples of `unit_bytes`; `limits` are the units of each section that may be filled.

    A packing of the lowest sum of offsets has each buffer on another or on the ground, so each offset is a sum of
    sizes. So sizes, offsets and limits are counted in units of their greatest common divisor, and limits are rounded
    down to sums of sizes. A buffer may also rest on a fixed one: fixed offsets are multiples of the unit, and with them
    limits are rounded to the unit only.
    """

    buffers: tuple[PackingBuffer, ...]
    limits: tuple[int, ...]
    unit_bytes: int


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


def lives_of(problem: PackingProblem) -> BufferLives:
    """Return the buffers in columns, as native searches of large problems take them."""
    buffers = problem.buffers
    return BufferLives(
        starts=[one.start for one in buffers],
        stops=[one.stop for one in buffers],
        sizes=[one.size_bytes for one in buffers],
        fixed=[NOT_FIXED if one.offset_bytes is None else one.offset_bytes for one in buffers],
        alignment=problem.alignment_bytes,
    )


def packing_in_units(problem: PackingProblem) -> PackingInUnits:
    """Count the sections and the units of a problem of at least one buffer."""
    buffers, alignment = problem.buffers, problem.alignment_bytes
    whole, partial = divmod(problem.capacity_bytes, alignment)
    aligned = [-(-one.size_bytes // alignment) for one in buffers]
    fixed = [None if one.offset_bytes is None else one.offset_bytes // alignment for one in buffers]
    unit = gcd(*aligned, *(offset for offset in fixed if offset is not None))
    sizes = [size // unit for size in aligned]
    ends_short = [0 < one.size_bytes % alignment <= partial for one in buffers]
    rounded = {short: (whole + short) // unit for short in (False, True)}
    if not problem.has_fixed:
        rounded = {short: greatest_sum(sizes, limit) for short, limit in rounded.items()}
    lives, steps = sections_of(buffers)
    limits = [rounded[False]] * len(steps)
    for (first, stop), short in zip(lives, ends_short, strict=True):
        if short:
            limits[first:stop] = [rounded[True]] * (stop - first)
    neighbours = overlapping_pairs(buffers)
    twins = _twins(buffers, lives)
    counted = (
        PackingBuffer(
            first=first,
            stop=stop,
            size=sizes[index],
            last=rounded[ends_short[index]] - sizes[index],
            twin=twins[index],
            neighbours=neighbours[index],
            fixed=NOT_FIXED if (offset := fixed[index]) is None else offset // unit,
        )
        for index, (first, stop) in enumerate(lives)
    )
    return PackingInUnits(tuple(counted), tuple(limits), unit * alignment)


def greatest_sum(sizes: Sequence[int], limit: int) -> int:
    """Return the greatest sum of sizes within the limit, or the limit if the sizes are many and large."""
    if limit < 0:
        return UNFILLABLE
    total = sum(sizes)
    if total <= limit:
        return total
    if limit * len(sizes) > MOST_SUM_BITS:
        return limit
    within = (1 << limit + 1) - 1
    sums = 1
    for size in sizes:
        sums |= sums << size & within
    return sums.bit_length() - 1


def _twins(buffers: Sequence[Buffer], lives: Sequence[tuple[int, int]]) -> list[int]:
    """The last buffer before each with the same life, size and fixed offset; NO_TWIN where there is none."""
    latest: dict[tuple[int, int, int, int | None], int] = {}
    twins: list[int] = []
    for index, (life, buffer) in enumerate(zip(lives, buffers, strict=True)):
        key = (*life, buffer.size_bytes, buffer.offset_bytes)
        twins.append(latest.get(key, NO_TWIN))
        latest[key] = index
    return twins


@dataclass(frozen=True, slots=True)
class Core:
    """`kept` are the buffers of `problem`, `postponed` the others, the one to be placed last first.

    The core packs exactly if the whole does.
    """

    whole: PackingProblem
    problem: PackingProblem
    kept: tuple[int, ...]
    postponed: tuple[int, ...]
    neighbours: Sequence[Sequence[int]]

    def complete(self, core_offsets_bytes: Sequence[int]) -> tuple[int, ...]:
        """Return the offsets in bytes of the whole, from those of the core."""
        buffers = self.whole.buffers
        spans: list[tuple[int, int] | None] = [None] * len(buffers)
        for index, offset in zip(self.kept, core_offsets_bytes, strict=True):
            spans[index] = offset, offset + buffers[index].size_bytes
        for index in reversed(self.postponed):
            size = buffers[index].size_bytes
            offset = self._lowest_gap(size, [span for other in self.neighbours[index] if (span := spans[other])])
            spans[index] = offset, offset + size
        return tuple(-1 if span is None else span[0] for span in spans)

    def _lowest_gap(self, size_bytes: int, placed: list[tuple[int, int]]) -> int:
        """Return the lowest offset with so many free bytes between placed ranges [start, end)."""
        alignment, top = self.whole.alignment_bytes, 0
        placed.sort()
        for offset, end in placed:
            if offset - top >= size_bytes:
                break
            top = max(top, -(-end // alignment) * alignment)
        return top


def core_of(problem: PackingProblem) -> Core:
    """Postpone buffers as long as any can be; none beside fixed buffers, which may lie apart from all others."""
    buffers, alignment = problem.buffers, problem.alignment_bytes
    aligned = [-(-buffer.size_bytes // alignment) for buffer in buffers]
    unit = gcd(*aligned) or 1
    sizes = [size // unit for size in aligned]
    capacity = problem.capacity_bytes // alignment // unit
    neighbours = overlapping_pairs(buffers)
    free = [
        capacity - size + 1 - sum(map(sizes.__getitem__, others)) - len(others) * (size - 1)
        for size, others in zip(sizes, neighbours, strict=True)
    ]
    if problem.has_fixed:
        free = [0] * len(buffers)
    waiting = [index for index, offsets in enumerate(free) if offsets > 0]
    is_kept = [offsets <= 0 for offsets in free]
    postponed: list[int] = []
    while waiting:
        index = waiting.pop()
        postponed.append(index)
        for other in neighbours[index]:
            if is_kept[other]:
                free[other] += sizes[index] + sizes[other] - 1
                if free[other] > 0:
                    is_kept[other] = False
                    waiting.append(other)
    kept = tuple(index for index, is_in_core in enumerate(is_kept) if is_in_core)
    core = PackingProblem(tuple(buffers[index] for index in kept), problem.capacity_bytes, alignment)
    return Core(problem, core, kept, tuple(postponed), neighbours)
