"""Less beside the peak: an order as good, of which fewer steps need nearly as much, so that its addresses are easy."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from onchip.memory.spill.large.movable_order import MovableOrder
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import PeakOutcome, StopToken
from onchip.search.budget.limits import Run

WIDTH: Final = 32
"""Steps that are put into their best order together."""
STATES: Final = 20_000
SHARE_OF_PEAK: Final = 0.8
"""Steps that need less are left as they are."""
MOST_BYTES: Final = 1 << 30


def flattened(indexed: IndexedProblem, order: Sequence[int], run: Run) -> tuple[int, ...]:
    """Put the steps around each needy step into an order in which none needs as much, the neediest first.

    No step comes to need more than the neediest of those it stood among.
    """
    movable = MovableOrder(indexed, order)
    level = SHARE_OF_PEAK * max(movable.needs_bytes)
    waiting = [(-need, step) for step, need in enumerate(movable.needs_bytes) if need > level]
    heapq.heapify(waiting)
    while waiting and run.stop is None:
        need, step = heapq.heappop(waiting)
        if movable.needs_bytes[step] != -need:
            continue
        begin = max(0, step - WIDTH // 2)
        stop = min(begin + WIDTH, len(movable.order))
        program = movable.between(begin, stop)
        search = program.search(0, -need - 1, MOST_BYTES)
        if search.run(StopToken(), STATES) is PeakOutcome.FOUND:
            movable.put(begin, program, search.order)
            for at in range(begin, stop):
                if movable.needs_bytes[at] > level:
                    heapq.heappush(waiting, (-movable.needs_bytes[at], at))
    return tuple(movable.order)
