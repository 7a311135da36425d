"""Packings of any size, low but not proven: greedy orders and skylines, in near n log n (docs/packing.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from onchip.answer.packing import Buffer, PackingProblem
from onchip.memory.allocate.construct.best_fit import has_too_many_pairs
from onchip.memory.allocate.construct.greedy_by_size import order_by_size
from onchip.memory.allocate.exact.attempt import Attempt
from onchip.memory.allocate.exact.sections import lives_of, sections_of
from onchip.memory.effort import STEP
from onchip.native import ArenaBlock, ArenaBlocks, ArenaRepair, ArenaSearch, JoinedBlocks, StopToken
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

NO_ARENA: Final = 1 << 60
"""The arena while there is no packing."""
GIVEN_ROUNDS: Final = 6
"""Skylines whose ranking is not drawn."""
GREEDY_SHARE: Final = 0.5
"""Of the time that is left, for greedy orders."""
MOST_LEFT: Final = 0.5
"""Of the blocks, once they are joined: where more are left, they are no pieces of something larger."""
JOINED_ROUNDS: Final = 60
LOOKS_OF_A_SKYLINE: Final = 15
"""For each block, of a repair that takes as long."""
MOST_JOINED_PAIRS: Final = 50_000
"""Of what is left and lives together, for a first attempt of the exact search."""


class LowPacking:
    """The lowest packing found so far of a problem of at least one buffer; it may be above the capacity.

    `rounds` counts the skylines that it was asked for, and what takes as long.
    """

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self._problem = problem
        self._run = run
        self.rounds = 0
        watch = Stopwatch()
        self._blocks = blocks_of(problem)
        self._search = ArenaSearch(self._blocks, run.limits.seed)
        self._setup_seconds = watch.seconds
        self._repair: ArenaRepair | None = None
        self._is_greedy_only = problem.has_fixed

    @property
    def is_greedy_only(self) -> bool:
        """True if only greedy orders place the buffers: skylines and repair do not know fixed offsets."""
        return self._is_greedy_only

    @property
    def arena_bytes(self) -> int:
        """The highest end of any buffer; 2^60 while there is no packing."""
        return self._search.arena

    @property
    def offsets_bytes(self) -> tuple[int, ...]:
        """Where the buffers lie, all at 0 while there is no packing."""
        return tuple(self._search.offsets)

    def place_quickly(self, target_bytes: int) -> None:
        """Fill the given skylines, pack what can be joined, then place by size and by life; end at the target.

        If the time is over before the first of them ends, each buffer goes into the smallest free range when it
        begins: there is always a packing. Of the time left the greedy orders take half. Fixed buffers must not overlap.
        """
        if not self.is_greedy_only:
            self.fill(1, target_bytes)
            self.fill(GIVEN_ROUNDS - 1, target_bytes)
            if self.arena_bytes > target_bytes and self._run.stop is None:
                self._pack_joined(target_bytes)
        if self.arena_bytes > target_bytes and self._run.stop is None:
            share = 1.0 if self.is_greedy_only else GREEDY_SHARE
            greedy = self._run.within(self._run.seconds_left * share) if self._run.deadline.is_set else self._run
            self._watched(lambda token: self._place_in_orders(target_bytes, token), greedy)
        if self.arena_bytes == NO_ARENA:
            self._search.sweep()

    def fill(self, rounds: int, target_bytes: int) -> None:
        """Fill so many skylines more, or until the arena is the target or the run has to stop."""
        self.rounds += rounds
        if self.is_greedy_only:
            return
        if self._run.stop is None:
            self._watched(lambda token: self._search.fill_skylines(rounds, target_bytes, token), self._run)

    def repair(self, rounds: int, target_bytes: int) -> None:
        """Put in again what ends too high, as long as so many skylines take, or until the arena is the target."""
        self.rounds += rounds
        if self.is_greedy_only or self.arena_bytes <= target_bytes or self._run.stop is not None:
            return
        if self._repair is None and self._run.seconds_left < self._setup_seconds:  # its set-up takes about as long
            return
        repair = self._repair or ArenaRepair(self._blocks, self._search.offsets, self._run.limits.seed)
        self._repair = repair
        repair.offer(self._search.offsets)
        looks = rounds * LOOKS_OF_A_SKYLINE * len(self._blocks)
        self._watched(lambda token: repair.lower(looks, target_bytes, token), self._run)
        self._search.offer(repair.offsets)

    def _pack_joined(self, target_bytes: int) -> None:
        """Join blocks without waste, and pack what is left where that is far fewer."""
        token = StopToken()
        joined = run_watched(lambda: JoinedBlocks(self._blocks, token), token.ask, self._run)
        left = joined.left()
        if len(left) > MOST_LEFT * len(self._blocks):
            return
        buffers = tuple(Buffer(one.first, one.stop, one.size) for one in left)
        search, token = ArenaSearch(_in_their_sections(left), self._run.limits.seed), StopToken()
        run_watched(lambda: search.fill_skylines(JOINED_ROUNDS, target_bytes, token), token.ask, self._run)
        if search.arena > target_bytes:
            self._search_for_joined(buffers, search, target_bytes)
        if search.arena < self.arena_bytes:
            self._search.offer(joined.offsets(search.offsets))

    def _search_for_joined(self, buffers: tuple[Buffer, ...], search: ArenaSearch, target_bytes: int) -> None:
        """Ask the exact search for a packing of what is left at the target, if that is little, for a while."""
        alignment = self._problem.alignment_bytes
        if self._run.stop is not None or has_too_many_pairs(buffers, MOST_JOINED_PAIRS):
            return
        attempt = Attempt(PackingProblem(buffers, -(-target_bytes // alignment) * alignment, alignment), self._run)
        attempt.go_on(STEP.quick_nodes)
        if attempt.offsets_bytes is not None:
            search.offer(attempt.offsets_bytes)

    def _place_in_orders(self, target_bytes: int, token: StopToken) -> None:
        """Best fit by size, TFLite's and TFLite Micro's; best fit by life, the longest and the shortest first."""
        buffers = self._problem.buffers
        sizes, starts = [-one.size_bytes for one in buffers], [one.start for one in buffers]
        lives = [one.start - one.stop for one in buffers]
        numbers, last_first = range(len(buffers)), range(len(buffers) - 1, -1, -1)
        orders: tuple[tuple[Callable[[], list[int]], bool], ...] = (
            (lambda: sorted(sorted(numbers, key=starts.__getitem__), key=sizes.__getitem__), True),
            (lambda: sorted(sorted(numbers, key=sizes.__getitem__), key=lives.__getitem__), True),
            (lambda: order_by_size(self._problem), True),
            (lambda: sorted(last_first, key=sizes.__getitem__), False),
        )
        for order, in_smallest_gap in orders:
            if self.arena_bytes > target_bytes and not token.is_asked:
                self._search.place(order(), in_smallest_gap=in_smallest_gap, stop=token)

    def _watched(self, work: Callable[[StopToken], None], run: Run) -> None:
        token = StopToken()
        run_watched(lambda: work(token), token.ask, run)


def blocks_of(problem: PackingProblem) -> ArenaBlocks:
    """Count lives in sections and pad sizes to the alignment."""
    return lives_of(problem).blocks()


def _in_their_sections(blocks: ArenaBlocks) -> ArenaBlocks:
    """Count lives in the sections of these blocks alone; they have theirs in others."""
    lives, _ = sections_of([Buffer(one.first, one.stop, one.size) for one in blocks])
    return ArenaBlocks(
        [
            ArenaBlock(first=first, stop=stop, size=one.size, used=one.used, steps=one.steps)
            for (first, stop), one in zip(lives, blocks, strict=True)
        ]
    )
