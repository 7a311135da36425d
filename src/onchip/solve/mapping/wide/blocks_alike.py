"""Blocks of an axis of the input's tiles, alike ones together: those at the border, those amidst, the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from onchip.ir.layer import LOOPS
from onchip.solve.mapping.wide.lattice import Lattice, Served
from onchip.solve.mapping.wide.parts_alike import PartsAlike
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
        none_is_idle = way.units[loops[0]].known_turns(rows.outputs) * units == rows.outputs
        is_known = way.units[loops[1]].most == 1 and whole == units and none_is_idle
        outputs, taps = outputs * units * is_known, np.where(rows.reach_as_neighbours(taps), taps, 0)
    if not (outputs.any() and taps.any()):
        return [any_part]
    shape = [len(lattice.dimensions[at].first) if at in loops else 1 for at in range(len(LOOPS))]
    cells = len(outputs), len(taps)
    found = [_Table(cells) for _ in range(KINDS)]
    found[0].set_all(any_part, shape)
    for at, other in np.argwhere((outputs[:, None] > 0) & (taps > 0)):
        blocks = [one for one in rows.blocks(int(outputs[at]), int(taps[other])) if one[0] > 0]
        for kind, table in enumerate(found):
            table.set((int(at), int(other)), blocks[kind : kind + 1] if kind + 1 < KINDS else blocks[kind:])
    return [one.reshaped(shape) for one in found if one.parts.any()]


class _Table:
    """Parts of one kind, by cells of outputs and of taps."""

    def __init__(self, cells: tuple[int, int]) -> None:
        self.parts, self.longest, self.together = np.zeros(cells), np.zeros(cells), np.zeros(cells)
        self.whole, self.lacks = np.ones(cells), np.full(cells, np.inf)

    def set_all(self, parts: PartsAlike, shape: Sequence[int]) -> None:
        """As one kind, in each cell."""
        own = (
            np.broadcast_to(one, shape).reshape(self.parts.shape)
            for one in (parts.parts, parts.longest, parts.together)
        )
        self.parts[:], self.longest[:], self.together[:] = own

    def set(self, cell: tuple[int, int], blocks: Sequence[tuple[int, int]]) -> None:
        """Blocks of so many positions, and how many there are of each, longest first."""
        self.parts[cell] = sum(count for _, count in blocks)
        self.longest[cell] = blocks[0][0] if blocks else 0
        self.together[cell] = sum(long * count for long, count in blocks)
        self.whole[cell] = blocks[0][0] if len(blocks) == 1 else 1
        self.lacks[cell] = 0.0 if len(blocks) == 1 else np.inf

    def reshaped(self, shape: Sequence[int]) -> PartsAlike:
        """Return them in the shape of a lattice."""
        found = PartsAlike.of_side(self.parts, self.longest, self.together, self.whole, self.lacks)
        return found.reshaped(tuple(shape))
