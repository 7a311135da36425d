"""TFLite Micro's allocator: what has a place keeps it, all else by size in the lowest gap that takes it.

As `greedy_memory_planner.cc` does it: the larger before the smaller, ties from the last one created to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from onchip.answer.packing import Buffer


def place_as_micro(buffers: Sequence[Buffer], fixed: Sequence[int | None]) -> tuple[int, ...]:
    """Return an offset for each buffer, in the unit of their sizes; `fixed[i]` is that of one that has a place."""
    placed = [(offset, buffer) for offset, buffer in zip(fixed, buffers, strict=True) if offset is not None]
    offsets = {index: offset for index, offset in enumerate(fixed) if offset is not None}
    left = [index for index, offset in enumerate(fixed) if offset is None]
    for index in sorted(left, key=lambda at: (-buffers[at].size_bytes, -at)):
        offsets[index] = _lowest_gap(buffers[index], placed)
        placed.append((offsets[index], buffers[index]))
    return tuple(offsets[index] for index in range(len(buffers)))


def _lowest_gap(wanted: Buffer, placed: Sequence[tuple[int, Buffer]]) -> int:
    """Return where the first gap begins that takes a buffer, among those that live when it does."""
    candidate = 0
    for offset, other in sorted(((at, one) for at, one in placed if one.overlaps(wanted)), key=itemgetter(0)):
        if offset - candidate >= wanted.size_bytes:
            break
        candidate = max(candidate, offset + other.size_bytes)
    return candidate
