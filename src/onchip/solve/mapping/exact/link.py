"""The least value of a criterion over all chains of tiles for one way to use the array, level by level.

docs/mapping.md says why that is exact.
"""

from __future__ import annotations

import numpy as np

from onchip.cost.layer.tables import Reals
from onchip.solve.mapping.exact.compiled import compiled, inlined
from onchip.solve.mapping.exact.tables import NO_CLASS, Space
from onchip.solve.mapping.exact.work import Work


@compiled
def link(space: Space, w: Work, criterion: int) -> float:
    """Fills run, ended and best, level by level; returns the least cost of a whole chain."""
    count, levels = w.tiles[0], w.fits.shape[0]
    for level in range(levels):
        ended = w.ended[criterion, level]
        for tile in range(count):
            before = w.best[criterion, level - 1, tile] if level else 0.0
            ended[tile] = before if w.fits[level, tile] else np.inf
        w.exists[level] = False
        for operand in range(3):
            for first in range(level):
                state = state_of(operand, first, levels)
                if w.exists[level - 1, state]:
                    go_on(space, w, criterion, level, operand, first, w.run[criterion, level - 1, state])
            if space.holds[operand, level]:
                go_on(space, w, criterion, level, operand, level, ended)
        for operand in range(3):
            if space.holds[operand, level]:
                for tile in range(count):
                    ended[tile] += w.term[criterion, operand, level, tile]
        end_runs(space, w, criterion, level)
        best = w.best[criterion, level]
        for tile in range(count):
            best[tile] = ended[tile]
        spread(space, w, best, NO_CLASS)
    if levels == 0:
        return float(w.fixed[criterion])
    return float(w.fixed[criterion] + w.best[criterion, levels - 1, count - 1])


@inlined
def state_of(operand: int, first: int, levels: int) -> int:
    """The run of an operand's loops right above the tiles of its levels from `first` on has not ended."""
    return operand * levels + first


@inlined
def go_on(space: Space, w: Work, criterion: int, level: int, operand: int, first: int, before: Reals) -> None:
    """A run that begins at level `first`, with any more of its loops: only others than its operand are paid yet."""
    state = state_of(operand, first, w.fits.shape[0])
    w.exists[level, state] = True
    run = w.run[criterion, level, state]
    for tile in range(w.tiles[0]):
        run[tile] = before[tile] if w.fits[level, tile] else np.inf
    for other in range(3):
        if other != operand and space.holds[other, level]:
            for tile in range(w.tiles[0]):
                run[tile] += w.term[criterion, other, level, tile]
    spread(space, w, run, operand)


@inlined
def end_runs(space: Space, w: Work, criterion: int, level: int) -> None:
    """What was open is paid where its run ends."""
    levels, ended = w.fits.shape[0], w.ended[criterion, level]
    for operand in range(3):
        for first in range(level + 1):
            state = state_of(operand, first, levels)
            if not w.exists[level, state]:
                continue
            for tile in range(w.tiles[0]):
                cost = w.run[criterion, level, state, tile]
                for one in range(first, level + 1):
                    if space.holds[operand, one]:
                        cost += w.term[criterion, operand, one, tile]
                ended[tile] = min(ended[tile], cost)


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
                values[tile] = min(values[tile], values[tile - stride])
