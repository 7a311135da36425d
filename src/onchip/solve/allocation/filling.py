"""As much as fits, one buffer after another: an answer at once, and one out of a choice that does not pack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from onchip.answer.packing import Overflow, PackingProblem
from onchip.solve.allocation.best_fit import overlapping_pairs


class Filling:
    """Places buffers of one problem in any order and leaves outside what finds no gap."""

    def __init__(self, problem: PackingProblem) -> None:
        self._problem = problem
        self._neighbours = overlapping_pairs(problem.buffers)

    def fill(self, order: Iterable[int], given: Sequence[int | None]) -> Overflow:
        """Place in this order, each at the lowest offset that is free, what the given offsets leave outside."""
        offsets = list(given)
        for index in order:
            if offsets[index] is None:
                offsets[index] = self._lowest_offset(index, offsets)
        return Overflow(tuple(offsets))

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
            yield sorted(by_key, key=lambda i: i not in is_first)

    def _lowest_offset(self, index: int, offsets: Sequence[int | None]) -> int | None:
        buffers, alignment = self._problem.buffers, self._problem.alignment_bytes
        placed = sorted(
            (offset, offset + buffers[other].size_bytes)
            for other in self._neighbours[index]
            if (offset := offsets[other]) is not None
        )
        size, top = buffers[index].size_bytes, 0
        for offset, end in placed:
            if offset - top >= size:
                break
            top = max(top, -(-end // alignment) * alignment)
        return top if top + size <= self._problem.capacity_bytes else None
