"""Blocks of an axis of the input's tiles, alike ones together: those at the border, those amidst, the last."""

from __future__ import annotations

from typing import Final

import numpy as np

from onchip.ir.layer import LOOPS
from onchip.solve.mapping.wide.dimension import PartsAlike
from onchip.solve.mapping.wide.lattice import Lattice, Served
from onchip.solve.mapping.wide.rows import AxisRows
from onchip.solve.mapping.wide.unrolled_ways import UnrolledWays

KINDS: Final = 4
"""The longest, with blocks of a length of their own; all others count as one kind."""


def blocks_alike(
    way: UnrolledWays, rows: AxisRows, lattice: Lattice, served: Served, any_part: PartsAlike
) -> list[PartsAlike]:
    """Return an axis' parts by their lengths where they are known, else all as `any_part`, by cells of its two loops.

    They are known where a cell is one coordinate, and all are neighbours or reach no less far. Parts that meet nothing
    stored are left out.
    """
    loops = LOOPS.index(rows.axis.output_loop), LOOPS.index(rows.axis.filter_loop)
    outputs, taps = (lattice.dimensions[at].known_turns for at in loops)
    if not rows.all_are_neighbours:
        units, whole = way.units[loops[0]].most, served.most[loops[0]]
        is_known = way.units[loops[1]].most == 1 and whole == units and rows.outputs % units == 0
        outputs, taps = outputs * units * is_known, np.where(rows.reach_as_neighbours(taps), taps, 0)
    if not (outputs.any() and taps.any()):
        return [any_part]
    shape = [len(lattice.dimensions[at].first) if at in loops else 1 for at in range(len(LOOPS))]
    cells = len(outputs), len(taps)
    parts, longest, together = (np.zeros((KINDS, *cells)) for _ in range(3))
    whole = np.ones((KINDS, *cells))
    for found, own in ((parts, any_part.parts), (longest, any_part.longest), (together, any_part.together)):
        found[0] = np.broadcast_to(own, shape).reshape(cells)
    for at, other in np.argwhere((outputs[:, None] > 0) & (taps > 0)):
        blocks = [one for one in rows.blocks(int(outputs[at]), int(taps[other])) if one[0] > 0]
        for kind in range(KINDS):
            alike = blocks[kind : kind + 1] if kind + 1 < KINDS else blocks[kind:]
            own = kind, at, other
            parts[own], together[own] = sum(count for _, count in alike), sum(long * count for long, count in alike)
            longest[own], whole[own] = alike[0][0] if alike else 0, alike[0][0] if len(alike) == 1 else 1
    each = zip(parts, longest, together, whole, strict=True)
    return [PartsAlike(*(one.reshape(shape) for one in kind)) for kind in each if kind[0].any()]
