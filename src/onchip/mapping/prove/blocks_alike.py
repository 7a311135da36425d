"""The blocks of an input axis, grouped by length: border blocks, inner blocks and the last one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from onchip.bounds.layer.arrangements import blocks_of_parts
from onchip.ir.layer import LOOPS
from onchip.mapping.chains.lattice import Lattice, Served
from onchip.mapping.chains.rows import AxisRows
from onchip.mapping.prove.parts_alike import PartsAlike
from onchip.mapping.prove.unrolled_ways import UnrolledWays

KINDS: Final = 4
"""Maximum number of sets per cell: the longest lengths have a set each, all others share the last."""


def blocks_alike(
    way: UnrolledWays, rows: AxisRows, lattice: Lattice, served: Served, any_part: PartsAlike, *, is_block: bool
) -> list[PartsAlike]:
    """Return an axis' parts grouped by length where lengths are known, else `any_part`, by cells of its two loops.

    Lengths are known if a cell is one coordinate and all parts are contiguous or reach at least as far. They are also
    known if an instance holds one block, since no arrangement of the units has shorter blocks. Parts that meet nothing
    stored are omitted.
    """
    known = _known_lengths(way, rows, lattice, served, is_block=is_block)
    if not known:
        return [any_part]
    shape = _shape(rows, lattice)
    found = [_Table((shape[_loops(rows)[0]], shape[_loops(rows)[1]])) for _ in range(KINDS)]
    found[0].set_all(any_part, shape)
    for cell, lengths in known.items():
        blocks = [(length, count) for length, count in lengths if length > 0]
        for kind, table in enumerate(found):
            table.set(cell, blocks[kind : kind + 1] if kind + 1 < KINDS else blocks[kind:])
    return [one.reshaped(tuple(shape)) for one in found if one.parts.any()]


def longest_blocks(way: UnrolledWays, rows: AxisRows, lattice: Lattice, served: Served) -> NDArray[np.float64]:
    """Return a lower bound on the positions of an instance's longest part; zero if unknown."""
    shape = _shape(rows, lattice)
    found = np.zeros([shape[at] for at in _loops(rows)])
    for cell, lengths in _known_lengths(way, rows, lattice, served, is_block=True).items():
        found[cell] = lengths[0][0]
    return found.reshape(shape)


def _loops(rows: AxisRows) -> tuple[int, int]:
    return LOOPS.index(rows.axis.output_loop), LOOPS.index(rows.axis.filter_loop)


def _shape(rows: AxisRows, lattice: Lattice) -> list[int]:
    """Return the lattice's shape along an axis' two loops, with one cell along all others."""
    return [len(own.first) if at in _loops(rows) else 1 for at, own in enumerate(lattice.dimensions)]


def _known_lengths(
    way: UnrolledWays, rows: AxisRows, lattice: Lattice, served: Served, *, is_block: bool
) -> dict[tuple[int, int], Sequence[tuple[int, int]]]:
    """Return by cells of outputs and taps the pairs of part length and count, longest first."""
    output, tap = _loops(rows)
    outputs, taps = (lattice.dimensions[at].known_turns for at in (output, tap))
    cells = list(zip(*np.nonzero(np.outer(outputs, taps)), strict=True)) if way.units[tap].most == 1 else []
    by_arrangement = is_block and way.units[output].most > 1
    found = {}
    for at, other in cells:
        inside = int(outputs[at]), int(taps[other])
        lengths = _of_arrangements(way, rows, served, inside) if by_arrangement else None
        if lengths is None and _are_no_shorter_than_neighbours(way, rows, served, inside[1]):
            lengths = rows.blocks(inside[0] * way.units[output].most, inside[1])
        if lengths is not None:
            found[int(at), int(other)] = lengths
    return found


def _of_arrangements(
    way: UnrolledWays, rows: AxisRows, served: Served, inside: tuple[int, int]
) -> Sequence[tuple[int, int]] | None:
    output = _loops(rows)[0]
    units, beside = way.units[output], way.beside(output, served)
    turns = units.known_turns(rows.outputs)
    lengths = blocks_of_parts(rows.axis, rows.outputs, rows.taps, turns, beside, inside, any_is_idle=units.any_is_idle)
    return None if lengths is None else [(length, len(list(own))) for length, own in groupby(lengths)]


def _are_no_shorter_than_neighbours(way: UnrolledWays, rows: AxisRows, served: Served, taps: int) -> bool:
    """Return True if parts with that many taps reach as far as with spatial loops inside all temporal loops."""
    if rows.all_are_neighbours:
        return True
    output = _loops(rows)[0]
    units = way.units[output]
    none_is_idle = units.known_turns(rows.outputs) * units.most == rows.outputs
    return none_is_idle and served.most[output] == units.most and bool(rows.reach_as_neighbours(np.array([taps]))[0])


class _Table:
    """A set of parts, by cells of outputs and of taps."""

    def __init__(self, cells: tuple[int, int]) -> None:
        self.parts, self.longest, self.together = np.zeros(cells), np.zeros(cells), np.zeros(cells)
        self.whole, self.lacks = np.ones(cells), np.full(cells, np.inf)

    def set_all(self, parts: PartsAlike, shape: Sequence[int]) -> None:
        """Use one set of parts in every cell."""
        own = (
            np.broadcast_to(one, shape).reshape(self.parts.shape)
            for one in (parts.parts, parts.longest, parts.together)
        )
        self.parts[:], self.longest[:], self.together[:] = own

    def set(self, cell: tuple[int, int], blocks: Sequence[tuple[int, int]]) -> None:
        """Set a cell's blocks, given as pairs of length and count, longest first."""
        self.parts[cell] = sum(count for _, count in blocks)
        self.longest[cell] = blocks[0][0] if blocks else 0
        self.together[cell] = sum(long * count for long, count in blocks)
        self.whole[cell] = blocks[0][0] if len(blocks) == 1 else 1
        self.lacks[cell] = 0.0 if len(blocks) == 1 else np.inf

    def reshaped(self, shape: Sequence[int]) -> PartsAlike:
        """Return the parts in the shape of a lattice."""
        found = PartsAlike.of_side(self.parts, self.longest, self.together, self.whole, self.lacks)
        return found.reshaped(tuple(shape))
