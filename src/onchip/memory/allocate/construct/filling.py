"""Greedy packings within a capacity: buffers are placed one after another, and those without a gap stay outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from onchip.answer.packing import Overflow, PackingProblem
from onchip.memory.allocate.exact.sections import lives_of
from onchip.native import StopToken, fill_within, sweep_within
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

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
