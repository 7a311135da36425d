"""TFLite's allocator: buffers by size, each at the start of the tightest gap, above all else if there is none.

As `arena_planner.cc` and `simple_memory_arena.cc` of TensorFlow Lite do it: what lives throughout
comes first, then the larger before the smaller, ties in order of creation. It knows no capacity.
"""

from __future__ import annotations

from collections.abc import Sequence

from onchip.answer.packing import PackingProblem
from onchip.memory.allocate.construct.best_fit import overlapping_pairs


def order_by_size(problem: PackingProblem) -> list[int]:
    """Return the buffers in the order in which they are placed."""
    buffers = problem.buffers
    last = max((buffer.stop for buffer in buffers), default=0)

    def key(index: int) -> tuple[bool, int, int, int]:
        buffer = buffers[index]
        lives_throughout = buffer.start == 0 and buffer.stop == last
        return (not lives_throughout, 0 if lives_throughout else -buffer.size_bytes, buffer.start, index)

    return sorted(range(len(buffers)), key=key)


def place_by_size(problem: PackingProblem) -> tuple[int, ...]:
    """Return the offsets in bytes; the arena may end above the capacity."""
    neighbours = overlapping_pairs(problem.buffers)
    offsets = [-1] * len(problem.buffers)
    for index in order_by_size(problem):
        placed = sorted(
            (offsets[other], problem.buffers[other].size_bytes) for other in neighbours[index] if offsets[other] >= 0
        )
        offsets[index] = _tightest_gap(placed, problem.buffers[index].size_bytes, problem.alignment_bytes)
    return tuple(offsets)


def _tightest_gap(placed: Sequence[tuple[int, int]], size_bytes: int, alignment_bytes: int) -> int:
    """Return the start of the smallest gap below a placed buffer that takes the size, else the top of all."""
    best: tuple[int, int] | None = None
    top = 0
    for offset, length in placed:
        gap = offset - top
        if gap >= size_bytes and (best is None or gap < best[0]):
            best = (gap, top)
        top = max(top, -(-(offset + length) // alignment_bytes) * alignment_bytes)
    return top if best is None else best[1]
