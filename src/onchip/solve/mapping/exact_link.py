"""The least value of a criterion over all chains of tiles for one way to use the array, level by level.

docs/mapping.md says why that is exact.
"""

from __future__ import annotations

import numpy as np

from onchip.cost.layer_tables import Reals
from onchip.solve.mapping.exact_compiled import CLOSED, compiled, inlined
from onchip.solve.mapping.exact_tables import NO_CLASS, Space
from onchip.solve.mapping.exact_work import Work


@compiled
def link(space: Space, w: Work, criterion: int) -> float:
    """Fills stage, run, ended and best, level by level; returns the least cost of a whole chain."""
    count, levels = w.tiles[0], w.fits.shape[0]
    for level in range(levels):
        w.exists[level] = False
        w.exists[level, CLOSED] = True
        closed = w.stage[criterion, level, CLOSED]
        for tile in range(count):
            before = w.best[criterion, level - 1, tile] if level else 0.0
            closed[tile] = before if w.fits[level, tile] else np.inf
        for operand in range(3):
            if space.holds[operand, level]:
                open_run(w, criterion, level, operand, level, closed)
        for operand in range(3):
            for first in range(level):
                if w.exists[level - 1, state_of(operand, first, levels)]:
                    open_run(
                        w,
                        criterion,
                        level,
                        operand,
                        first,
                        w.run[criterion, level - 1, state_of(operand, first, levels)],
                    )
        pay(space, w, criterion, level)
        close(space, w, criterion, level)
    if levels == 0:
        return float(w.fixed[criterion])
    return float(w.fixed[criterion] + w.best[criterion, levels - 1, count - 1])


@inlined
def state_of(operand: int, first: int, levels: int) -> int:
    """The run of an operand's loops right above the tiles of its levels from `first` on has not ended."""
    return 1 + operand * levels + first


@inlined
def open_run(w: Work, criterion: int, level: int, operand: int, first: int, before: Reals) -> None:
    """Tiles in a run that begins at level `first`: nothing of its operand is paid yet."""
    state = state_of(operand, first, w.fits.shape[0])
    w.exists[level, state] = True
    values = w.stage[criterion, level, state]
    for tile in range(w.tiles[0]):
        values[tile] = before[tile] if w.fits[level, tile] else np.inf


@inlined
def pay(space: Space, w: Work, criterion: int, level: int) -> None:
    """At its cut each operand whose run is not open."""
    for state in range(w.exists.shape[1]):
        if w.exists[level, state]:
            values = w.stage[criterion, level, state]
            for operand in range(3):
                is_open = state != CLOSED and (state - 1) // w.fits.shape[0] == operand
                if space.holds[operand, level] and not is_open:
                    for tile in range(w.tiles[0]):
                        values[tile] += w.term[criterion, operand, level, tile]


@inlined
def close(space: Space, w: Work, criterion: int, level: int) -> None:
    """Ends runs: what was open is paid where they end."""
    count, levels = w.tiles[0], w.fits.shape[0]
    ended = w.ended[criterion, level]
    for tile in range(count):
        ended[tile] = w.stage[criterion, level, CLOSED, tile]
    for state in range(1, w.exists.shape[1]):
        if not w.exists[level, state]:
            continue
        operand, first = (state - 1) // levels, (state - 1) % levels
        run = w.run[criterion, level, state]
        for tile in range(count):
            run[tile] = w.stage[criterion, level, state, tile]
        spread(space, w, run, operand)
        for tile in range(count):
            cost = run[tile]
            for one in range(first, level + 1):
                if space.holds[operand, one]:
                    cost += w.term[criterion, operand, one, tile]
            if cost < ended[tile]:
                ended[tile] = cost
    best = w.best[criterion, level]
    for tile in range(count):
        best[tile] = ended[tile]
    spread(space, w, best, NO_CLASS)


@inlined
def spread(space: Space, w: Work, values: Reals, loops_of: int) -> None:
    """To each tile the least value of those inside it, by loops of one class (NO_CLASS: any loops)."""
    count = w.tiles[0]
    for digit in range(space.digit_loop.size):
        if w.radix[digit] == 1 or loops_of not in (NO_CLASS, space.class_of[space.digit_loop[digit]]):
            continue
        stride, block = w.stride[digit], w.stride[digit] * w.radix[digit]
        for start in range(0, count, block):
            for tile in range(start + stride, start + block):
                if values[tile - stride] < values[tile]:
                    values[tile] = values[tile - stride]
