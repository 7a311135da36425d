"""Buffers that always find a place: they are left out of the search and placed after it.

A placed neighbour of `a` units takes `a + b - 1` of the offsets of a buffer of `b` units. One
whose neighbours together leave it an offset, wherever they are, can wait; without it, its
neighbours have one neighbour less. The same thought colours graphs (Chaitin, 1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from onchip.answer.packing import PackingProblem
from onchip.memory.allocate.construct.best_fit import overlapping_pairs


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
        """Return the lowest offset between what is placed, [start, end) each, that leaves room for so many bytes."""
        alignment, top = self.whole.alignment_bytes, 0
        placed.sort()
        for offset, end in placed:
            if offset - top >= size_bytes:
                break
            top = max(top, -(-end // alignment) * alignment)
        return top


def core_of(problem: PackingProblem) -> Core:
    """Postpone what can be, again and again: nothing beside fixed buffers, which may lie apart from all others."""
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
