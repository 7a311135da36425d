"""A packing problem as the exact search sees it: sections instead of steps, units instead of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from onchip.answer.packing import Buffer, PackingProblem
from onchip.memory.allocate.construct.best_fit import overlapping_pairs
from onchip.native import BufferLives, PackingBuffer

NO_TWIN: Final = -1
NOT_FIXED: Final = -1
UNFILLABLE: Final = -1
"""The limit of what not even an empty section keeps."""
MOST_SUM_BITS: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class PackingInUnits:
    """Every size is a multiple of a unit of `unit_bytes`; by section `limits` says how far it may be filled, in units.

    In some packing, if there is one, each offset is a sum of sizes: no packing has a lower sum of offsets than one in
    which every buffer rests on another or on the ground. So sizes, offsets and limits are counted in units of the
    greatest common divisor, and limits are rounded down to what sizes add up to. A buffer may also rest on a fixed one:
    fixed offsets are multiples of the unit, and beside them limits are rounded to the unit alone.
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
    """Return the greatest sum of some of the sizes that is not above the limit; of many large ones no more than it."""
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
