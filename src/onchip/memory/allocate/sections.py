"""Sections for steps, and units for bytes, in which models of packing problems count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onchip.answer.packing import Buffer, PackingProblem
from onchip.memory.effort import STEP
from onchip.native import BufferLives

MOST_SUM_BITS: Final = 1 << 22


def has_too_many_pairs(buffers: Sequence[Buffer], most: int | None = None) -> bool:
    """True if more than `most` (or `listed_pairs`) pairs are alive together, too many for lists of pairs."""
    pairs = ended = 0
    stops = sorted(buffer.stop for buffer in buffers)
    for begun, start in enumerate(sorted(buffer.start for buffer in buffers)):
        while stops[ended] <= start:
            ended += 1
        pairs += begun - ended
    return pairs > (STEP.listed_pairs if most is None else most)


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
    """Return the buffers in columns, as native packings of many buffers take them."""
    buffers = problem.buffers
    return BufferLives(
        starts=[one.start for one in buffers],
        stops=[one.stop for one in buffers],
        sizes=[one.size_bytes for one in buffers],
        alignment=problem.alignment_bytes,
    )


def greatest_sum(sizes: Sequence[int], limit: int) -> int:
    """Return the greatest sum of sizes within the limit, or the limit if the sizes are many and large."""
    total = sum(sizes)
    if total <= limit or limit * len(sizes) > MOST_SUM_BITS:
        return min(total, limit)
    within = (1 << limit + 1) - 1
    sums = 1
    for size in sizes:
        sums |= sums << size & within
    return sums.bit_length() - 1
