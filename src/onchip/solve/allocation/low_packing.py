"""Packings of any size, low but not proven: greedy orders and skylines, in near n log n (docs/packing.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from onchip.answer.packing import PackingProblem
from onchip.native import ArenaBlock, ArenaSearch, StopToken
from onchip.solve.allocation.greedy_by_size import order_by_size
from onchip.solve.allocation.sections import sections_of
from onchip.solve.run.interruptible import run_watched
from onchip.solve.run.limits import Run

GIVEN_ROUNDS: Final = 6
"""Skylines whose ranking is not drawn."""
GREEDY_SHARE: Final = 0.5
"""Of the time that is left, for greedy orders."""


class LowPacking:
    """The lowest packing found so far of a problem of at least one buffer; it may be above the capacity.

    `rounds` counts the skylines that it was asked for.
    """

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self._problem = problem
        self._run = run
        self.rounds = 0
        self._search = ArenaSearch(blocks_of(problem), run.limits.seed)

    @property
    def arena_bytes(self) -> int:
        """The highest end of any buffer; 2^60 while there is no packing."""
        return self._search.arena

    @property
    def offsets_bytes(self) -> tuple[int, ...]:
        """Where the buffers lie, all at 0 while there is no packing."""
        return tuple(self._search.offsets)

    def place_quickly(self, target_bytes: int) -> None:
        """Fill the given skylines, then place by size and by life in gaps, until the arena is the target.

        The first skyline is finished whatever the limit: there is always a packing. Of the time left the greedy
        orders take half.
        """
        self._search.fill_skylines(1, target_bytes, StopToken())
        self.fill(GIVEN_ROUNDS - 1, target_bytes)
        if self.arena_bytes <= target_bytes:
            return
        greedy = self._run.within(self._run.seconds_left * GREEDY_SHARE) if self._run.deadline.is_set else self._run
        self._watched(lambda token: self._place_in_orders(target_bytes, token), greedy)

    def fill(self, rounds: int, target_bytes: int) -> None:
        """Fill so many skylines more, or until the arena is the target or the run has to stop."""
        self.rounds += rounds
        self._watched(lambda token: self._search.fill_skylines(rounds, target_bytes, token), self._run)

    def _place_in_orders(self, target_bytes: int, token: StopToken) -> None:
        """Best fit by size, TFLite's and TFLite Micro's; best fit by life, the longest and the shortest first."""
        buffers = self._problem.buffers
        numbers = range(len(buffers))
        by_size = sorted(numbers, key=lambda i: (-buffers[i].size_bytes, buffers[i].start))
        last_first = sorted(numbers, key=lambda i: (-buffers[i].size_bytes, -i))
        by_life = sorted(numbers, key=lambda i: (buffers[i].start - buffers[i].stop, -buffers[i].size_bytes))
        orders = ((by_size, True), (by_life, True), (order_by_size(self._problem), True), (last_first, False))
        for order, in_smallest_gap in orders:
            if self.arena_bytes > target_bytes and not token.is_asked:
                self._search.place(order, in_smallest_gap=in_smallest_gap, stop=token)

    def _watched(self, work: Callable[[StopToken], None], run: Run) -> None:
        token = StopToken()
        run_watched(lambda: work(token), token.ask, run)


def blocks_of(problem: PackingProblem) -> list[ArenaBlock]:
    """Count lives in sections and pad sizes to the alignment."""
    alignment = problem.alignment_bytes
    lives, _ = sections_of(problem.buffers)
    return [
        ArenaBlock(
            first=first,
            stop=stop,
            size=-(-buffer.size_bytes // alignment) * alignment,
            used=buffer.size_bytes,
            steps=buffer.stop - buffer.start,
        )
        for (first, stop), buffer in zip(lives, problem.buffers, strict=True)
    ]
