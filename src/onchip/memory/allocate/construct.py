"""Greedy packings: best fit, TFLite's order by size, and filling a capacity with what fits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from onchip.answer.packing import Overflow, Packing, PackingProblem
from onchip.memory.allocate.sections import lives_of, overlapping_pairs
from onchip.native import StopToken, fill_within, sweep_within
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

NO_CAPACITY: Final = 1 << 62
"""Capacity of a problem in which the topmost gap is taken last."""


class BestFit:
    """Places buffers of one problem in any order, fixed ones first; the lives' overlaps are found once."""

    def __init__(self, problem: PackingProblem) -> None:
        self._problem = problem
        self._neighbours = overlapping_pairs(problem.buffers)

    def place(self, order: Iterable[int]) -> tuple[list[int], int | None]:
        """Place in this order; return offsets (-1: not placed) and the first buffer that did not fit."""
        offsets = [-1 if one.offset_bytes is None else one.offset_bytes for one in self._problem.buffers]
        for index in order:
            if offsets[index] >= 0:
                continue
            offset = self._offset(index, offsets)
            if offset is None:
                return offsets, index
            offsets[index] = offset
        return offsets, None

    def blockers(self, index: int, offsets: Sequence[int]) -> list[int]:
        """Return the placed buffers that live in some step with this one."""
        return [other for other in self._neighbours[index] if offsets[other] >= 0]

    def pack(self, tries: int, run: Run) -> Packing | None:
        """Try the usual orders, then random ones; None if none of them packs, or none before the run has to stop.

        The first order is always tried.
        """
        for order in self._orders(tries, run.limits.seed):
            offsets, unplaced = self.place(order)
            if unplaced is None:
                return Packing(tuple(offsets))
            if run.stop is not None:
                break
        return None

    def _offset(self, index: int, offsets: Sequence[int]) -> int | None:
        """Return the start of the smallest gap that takes the buffer, None if there is none."""
        buffers, alignment = self._problem.buffers, self._problem.alignment_bytes
        size = buffers[index].size_bytes
        placed = sorted((offsets[other], buffers[other].size_bytes) for other in self.blockers(index, offsets))
        best: tuple[int, int] | None = None
        top = 0
        for offset, length in (*placed, (self._problem.capacity_bytes, 0)):
            gap = offset - top
            if gap >= size and (best is None or gap < best[0]):
                best = (gap, top)
            top = max(top, -(-(offset + length) // alignment) * alignment)
        return None if best is None else best[1]

    def _orders(self, tries: int, seed: int) -> Iterator[list[int]]:
        buffers = self._problem.buffers
        keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
            lambda i: (-buffers[i].size_bytes, buffers[i].start),
            lambda i: (buffers[i].start, -buffers[i].size_bytes),
            lambda i: (buffers[i].start - buffers[i].stop, -buffers[i].size_bytes),
            lambda i: ((buffers[i].start - buffers[i].stop) * buffers[i].size_bytes, buffers[i].start),
        )
        for key in keys:
            yield sorted(range(len(buffers)), key=key)
        chance = random.Random(seed)
        for _ in range(tries):
            noise = [chance.uniform(0.5, 1.5) for _ in buffers]
            key = keys[chance.choice((0, 3))]
            yield sorted(range(len(buffers)), key=lambda i, noise=noise, key=key: key(i)[0] * noise[i])  # type: ignore[misc]


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
    return tuple(BestFit(replace(problem, capacity_bytes=NO_CAPACITY)).place(order_by_size(problem))[0])


OUTSIDE = -1


class Filling:
    """Places the buffers of one problem without fixed offsets, in any order."""

    def __init__(self, problem: PackingProblem) -> None:
        self._problem = problem
        self._blocks = lives_of(problem).blocks()

    def sweep(self) -> Overflow:
        """Place each buffer when it begins, in the smallest free range; takes n log n time and cannot be stopped."""
        return _overflow(sweep_within(self._blocks, self._problem.capacity_bytes))

    def fill(self, order: Iterable[int], given: Sequence[int | None], run: Run) -> Overflow:
        """Place, in this order, the buffers that the given offsets leave outside, each at the lowest free offset.

        Buffers whose turn has not come when the run has to stop are outside.
        """
        offsets = [OUTSIDE if offset is None else offset for offset in given]
        indices, token, most = list(order), StopToken(), self._problem.capacity_bytes
        return _overflow(run_watched(lambda: fill_within(self._blocks, indices, offsets, most, token), token.ask, run))

    def orders(self, first: Sequence[int] = ()) -> Iterator[list[int]]:
        """Yield all buffers by size, by life, by start and by least use of room; those in `first` come first."""
        buffers, is_first = self._problem.buffers, set(first)
        keys: tuple[Callable[[int], tuple[int, int]], ...] = (
            lambda i: (-buffers[i].size_bytes, buffers[i].stop - buffers[i].start),
            lambda i: (buffers[i].stop - buffers[i].start, -buffers[i].size_bytes),
            lambda i: (buffers[i].start, -buffers[i].size_bytes),
            lambda i: ((buffers[i].start - buffers[i].stop) * buffers[i].size_bytes, buffers[i].start),
        )
        for key in keys:
            by_key = sorted(range(len(buffers)), key=key)
            yield sorted(by_key, key=lambda i: i not in is_first) if is_first else by_key


def _overflow(offsets: Sequence[int]) -> Overflow:
    return Overflow(tuple(None if offset == OUTSIDE else offset for offset in offsets))
