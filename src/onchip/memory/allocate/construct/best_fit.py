"""Best fit: buffers one after another, each into the smallest gap that takes it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.search.budget.limits import Run

MOST_PAIRS: Final = 20_000_000
"""Of buffers of a plan that live together: their lists take some 400 MB."""


def has_too_many_pairs(buffers: Sequence[Buffer], most: int | None = None) -> bool:
    """Whether more pairs than `most`, or MOST_PAIRS, live together: what holds each pair is then out of reach."""
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
