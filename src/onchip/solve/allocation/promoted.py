"""Arenas of any number of buffers: best fit in the usual orders, then in ones in which what ended too high goes first.

After each order what ends above the bound is promoted, by twice as far as before it (squeaky wheels: Joslin and
Clements, 1999). One order takes n squared looks, 0.2 s for 20,000 buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from onchip.answer.packing import PackingProblem
from onchip.native import PackingBestFit, StopToken
from onchip.solve.run.interruptible import run_watched
from onchip.solve.run.limits import Run

MOST_IN_VAIN: Final = 30
"""Orders one after the other that are no better."""
LARGEST: Final = 1 << 60
PROMOTION: Final = 0.5
NOISE: Final = 0.05


def are_countable(problem: PackingProblem) -> bool:
    """Whether no address can be too large to be counted, were all buffers beside each other."""
    return sum(one.size_bytes + problem.alignment_bytes for one in problem.buffers) < LARGEST


class PromotedOrders:
    """Orders of the buffers of one problem that `are_countable`; `offsets_bytes` are the best so far, if any."""

    def __init__(self, problem: PackingProblem, run: Run, enough_bytes: int) -> None:
        self.offsets_bytes: tuple[int, ...] | None = None
        self.arena_bytes = LARGEST
        self._run, self._enough_bytes = run, enough_bytes
        lives = [(one.start, one.stop, one.size_bytes) for one in problem.buffers]
        self._starts, self._stops, self._sizes = np.array(lives, np.int64).reshape(-1, 3).T
        self._packer = PackingBestFit(lives, problem.alignment_bytes)

    def try_usual(self) -> None:
        """By size, by life, by both, and as they begin."""
        for key in self._usual_keys():
            self._try(np.lexsort((self._starts, key)))

    def promote(self) -> None:
        """Go on until nothing is better for a while, the arena is small enough, or the run has to stop."""
        chance = np.random.default_rng(self._run.limits.seed)
        size = len(self._sizes)
        rank = np.empty(size)
        rank[np.lexsort((self._starts, -self._sizes))] = np.arange(1, size + 1)
        in_vain = 0
        while in_vain < MOST_IN_VAIN and not self._is_over:
            before = self.arena_bytes
            offsets = self._try(np.argsort(rank * (1 + NOISE * chance.random(size)), kind="stable"))
            if offsets is None:
                return
            rank[offsets + self._sizes > self._enough_bytes] *= PROMOTION
            in_vain = 0 if self.arena_bytes < before else in_vain + 1
            self._run.report(self.arena_bytes, self._enough_bytes, "best fit, what ended highest first")

    @property
    def _is_over(self) -> bool:
        return self.arena_bytes <= self._enough_bytes or self._run.stop is not None

    def _usual_keys(self) -> Iterator[np.typing.NDArray[np.int64]]:
        lives = self._stops - self._starts
        yield -self._sizes
        yield -lives
        yield -self._sizes.astype(np.float64) * lives
        yield self._starts

    def _try(self, order: np.typing.NDArray[np.int64]) -> np.typing.NDArray[np.int64] | None:
        if self._is_over:
            return None
        token = StopToken()
        numbers: Sequence[int] = order.tolist()
        found = run_watched(lambda: self._packer.place(numbers, token), token.ask, self._run)
        if not found:
            return None
        offsets = np.array(found, np.int64)
        arena = int((offsets + self._sizes).max(initial=0))
        if arena < self.arena_bytes:
            self.arena_bytes, self.offsets_bytes = arena, tuple(found)
        return offsets
