"""An operand with its chain of tiles, and blocks that are alike.

All values are arrays by cell of a lattice. A cell covers positions in the nest up to which a tile stays resident. The
position includes the loops right above the cut that reuse the same tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from math import prod
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS
from onchip.mapping.chains.dimension import PartsAlike
from onchip.mapping.chains.lattice import Along, AxisRows, Lattice, Served
from onchip.mapping.prove.unrolled_ways import ADDING, CHANNELS, LEADING, OTHERS, UnrolledWays

KINDS: Final = 4
"""Maximum number of sets per cell: the longest lengths have a set each, all others share the last."""


def blocks_alike(
    way: UnrolledWays, rows: AxisRows, lattice: Lattice, served: Served, any_part: PartsAlike
) -> list[PartsAlike]:
    """Return an axis' parts grouped by length where lengths are known, else `any_part`, by cells of its two loops.

    Lengths are known if a cell is one coordinate and all parts are contiguous or reach at least as far. Parts that meet
    nothing stored are omitted.
    """
    known = _known_lengths(way, rows, lattice, served)
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
    for cell, lengths in _known_lengths(way, rows, lattice, served).items():
        found[cell] = lengths[0][0]
    return found.reshape(shape)


def _loops(rows: AxisRows) -> tuple[int, int]:
    return LOOPS.index(rows.axis.output_loop), LOOPS.index(rows.axis.filter_loop)


def _shape(rows: AxisRows, lattice: Lattice) -> list[int]:
    """Return the lattice's shape along an axis' two loops, with one cell along all others."""
    return [len(own.first) if at in _loops(rows) else 1 for at, own in enumerate(lattice.dimensions)]


def _known_lengths(
    way: UnrolledWays, rows: AxisRows, lattice: Lattice, served: Served
) -> dict[tuple[int, int], Sequence[tuple[int, int]]]:
    """Return by cells of outputs and taps the pairs of part length and count, longest first."""
    output, tap = _loops(rows)
    outputs, taps = (lattice.dimensions[at].known_turns for at in (output, tap))
    cells = list(zip(*np.nonzero(np.outer(outputs, taps)), strict=True)) if way.units[tap].most == 1 else []
    found = dict[tuple[int, int], Sequence[tuple[int, int]]]()
    for at, other in cells:
        inside = int(outputs[at]), int(taps[other])
        if _are_no_shorter_than_neighbours(way, rows, served, inside[1]):
            found[int(at), int(other)] = rows.blocks(inside[0] * way.units[output].most, inside[1])
    return found


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


P = ParamSpec("P")
T = TypeVar("T")


def asked_once(method: Callable[Concatenate[OperandChain, P], T]) -> Callable[Concatenate[OperandChain, P], T]:
    """Cache a method's result in the lattice: energy, time, and memories that serve the same units share it."""
    return _kept(method, lambda lattice: lattice.known)


def asked_once_of_any(method: Callable[Concatenate[OperandChain, P], T]) -> Callable[Concatenate[OperandChain, P], T]:
    """Cache a result that does not depend on resident tiles, also for the lattice in which no tile stays."""
    return _kept(method, lambda lattice: lattice.known_of_any)


def _kept(
    method: Callable[Concatenate[OperandChain, P], T], kept_in: Callable[[Lattice], dict[tuple[object, ...], Any]]
) -> Callable[Concatenate[OperandChain, P], T]:
    @wraps(method)
    def asked(chain: OperandChain, /, *args: P.args, **named: P.kwargs) -> T:
        at, known = (method, chain.way, chain.operand, *args, *named.items()), kept_in(chain.lattice)
        if at not in known:
            known[at] = method(chain, *args, **named)
        found: T = known[at]
        return found

    return asked


@dataclass(frozen=True)
class OperandChain:
    """The tiles of an operand, independent of the loop order."""

    way: UnrolledWays
    lattice: Lattice
    operand: Operand

    @asked_once
    def moved(self, served: Served, below: Served | None = None) -> Along:
        """Return a lower bound on the elements that move in total, to or from instances of the given units.

        For the input, `below` gives the units of the memory instances that hold the tiles.
        """
        again = self.lattice.parts(OTHERS[self.operand], served)
        if self.lattice is self.way.at_units:
            all_others = prod(self.way.bounds[at] for at in OTHERS[self.operand])
            again = np.maximum(again, all_others / self.way.together(OTHERS[self.operand], served))
        return self.elements(served, below) + (again - 1) * self._elements_but_at_the_end(served, below)

    @asked_once_of_any
    def elements(self, served: Served, below: Served | None = None) -> Along:
        """Return a lower bound on the elements that move if each tile moves once."""
        if self.operand is not Operand.INPUT:
            return np.full((1,) * len(LOOPS), float(prod(self.way.bounds[at] for at in LEADING[self.operand])))
        found: Along = np.full((1,) * len(LOOPS), float(prod(self.way.bounds[at] for at in CHANNELS)))
        for number, (rows, sides, (output, tap)) in enumerate(self._sides(served)):
            own = np.maximum(rows.moved(*sides), rows.met(*sides, *self._most_parts_of(output, tap, served)))
            if below is not None and rows.axis.stride > 1:
                own = np.maximum(own, rows.in_blocks(sides[1], *self._most_parts_of(output, tap, below)))
            if self.way.is_one:
                own = np.maximum(own, sum(one.together for one in self._blocks(number, served)))
            found = found * own
        return found

    @asked_once_of_any
    def _blocks(self, number: int, served: Served) -> list[PartsAlike]:
        """Return the parts of the axis with this number, grouped by length."""
        rows, sides, loops = list(self._sides(served))[number]
        own = self._most_parts_of(*loops, served)
        any_part = PartsAlike.of_side(own[0] * own[1], rows.block(*sides), rows.met(*sides, *own), np.ones(1))
        return blocks_alike(self.way, rows, self.lattice, served, any_part)

    def _most_parts_of(self, output: int, tap: int, served: Served) -> tuple[Along, Along]:
        return self.lattice.most_parts((output,), served), self.lattice.most_parts((tap,), served)

    @asked_once_of_any
    def tiles_alike(self, served: Served) -> list[PartsAlike]:
        """Return sets of equal tiles if each tile moves once: the maximum count and the minimum size of each set.

        No tile counts more than the longest. Valid for a single unrolling.
        """
        loops = LEADING[self.operand] if self.operand is not Operand.INPUT else CHANNELS
        tiles = self.lattice.parts_alike(loops, served)
        if self.operand is not Operand.INPUT:
            return tiles
        for number in range(len(self.way.rows)):
            tiles = [one.beside(other) for one in tiles for other in self._blocks(number, served)]
        return tiles

    def has_as_many(self, tiles: Along, served: Served) -> NDArray[np.bool_]:
        """Return True if all of that many tiles exist, each with at least one element."""
        found: NDArray[np.bool_] = self.lattice.parts(LEADING[self.operand], served) >= tiles
        return found & (self.operand is not Operand.INPUT or all(rows.all_are_stored for rows in self.way.rows))

    @asked_once_of_any
    def whole_size(self, served: Served) -> Along:
        """Return a number of elements that divides the size of every tile."""
        loops = LEADING[self.operand] if self.operand is not Operand.INPUT else CHANNELS
        return self.lattice.whole_size(loops, served)

    @property
    @asked_once
    def may_stay(self) -> NDArray[np.bool_]:
        """Return True for each cell in which tiles may stay resident where loops end short."""
        found: NDArray[np.bool_] = self.lattice.stays(LEADING[self.operand]) > 0
        return found

    @asked_once
    def _elements_but_at_the_end(self, served: Served, below: Served | None) -> Along:
        """Return the elements without those at positions where a tile may stay resident instead of moving again."""
        lattice = self.lattice
        if self.operand is not Operand.INPUT:
            return self.elements(served) * (1 - lattice.stays(LEADING[self.operand]))
        if not any(lattice.dimensions[at].stays.any() for at in LEADING[Operand.INPUT]):
            return self.elements(served, below)
        found = prod(self.way.bounds[at] for at in CHANNELS) * (1 - lattice.stays(CHANNELS))
        for rows, sides, (output, tap) in self._sides(served):
            found = found * rows.moved_but_at_the_end(*sides, lattice.stays((output,)), lattice.stays((tap,)))
        return found

    def _sides(self, served: Served) -> Iterator[tuple[AxisRows, tuple[Along, Along], tuple[int, int]]]:
        """Yield for each input axis its rows, the maximum outputs and taps of a tile, and the indices of both loops."""
        for rows in self.way.rows:
            output, tap = LOOPS.index(rows.axis.output_loop), LOOPS.index(rows.axis.filter_loop)
            sides = self.lattice.most_size((output,), served), self.lattice.most_size((tap,), served)
            yield rows, sides, (output, tap)

    @asked_once_of_any
    def largest(self, served: Served, *, is_block: bool = False) -> Along:
        """Return a lower bound on the elements of the largest tile shared by the given units.

        A tile in the memory of these units is a contiguous block; the union of tiles below them need not be.
        """
        if self.operand is not Operand.INPUT:
            return self.lattice.least_size(LEADING[self.operand], served)
        found = self.lattice.least_size(CHANNELS, served)
        for rows in self.way.rows:
            sides = (LOOPS.index(rows.axis.output_loop),), (LOOPS.index(rows.axis.filter_loop),)
            own = *(self.lattice.least_size(side, served) for side in sides), self.lattice.whole_parts(sides[0], served)
            is_one = is_block or rows.all_are_neighbours
            largest = rows.largest_block(*own) if is_one else rows.largest(*own)
            if is_block and self.way.is_one:
                largest = np.maximum(largest, longest_blocks(self.way, rows, self.lattice, served))
            found = found * largest
        return found

    @asked_once_of_any
    def at_once(self, served: Served) -> Along:
        """Return the maximum number of elements that move at once."""
        if self.operand is not Operand.INPUT:
            return self.lattice.most_size(LEADING[self.operand], served)
        found = self.lattice.most_size(CHANNELS, served)
        for rows, sides, _ in self._sides(served):
            found = found * rows.most(*sides)
        return found

    @property
    @asked_once_of_any
    def tiles(self) -> Along:
        """Return a lower bound on the number of different tiles of one instance."""
        return self.lattice.parts(LEADING[self.operand], self.way.whole)

    @property
    @asked_once
    def comes_again(self) -> Along:
        """Return a lower bound on the average number of times that each tile moves."""
        again = self.lattice.parts(OTHERS[self.operand], self.way.whole)
        return 1 + (again - 1) * (1 - self.lattice.places_that_stay(LEADING[self.operand]))

    @asked_once_of_any
    def is_incomplete(self, above: Served) -> NDArray[np.bool_]:
        """Return True for cells in which sums leave for an instance of the given units before they are complete."""
        found: NDArray[np.bool_] = self.lattice.parts(ADDING, above) > 1
        return found

    def _may_add_on(self, lower: int) -> NDArray[np.bool_]:
        """Return True for cells in which sums may cross the boundary above a memory as `adds_on` requires."""
        if self.operand is not Operand.OUTPUT or self.way.adds_on is None or lower == len(self.way.adds_on):
            return np.ones((1,) * len(LOOPS), np.bool_)
        above = self.way.served(self.way.memories(self.operand)[lower + 1])
        if not self.way.adds_on[lower]:
            return ~self.is_incomplete(above)
        found: NDArray[np.bool_] = self.lattice.least_size(ADDING, above) < prod(self.way.bounds[at] for at in ADDING)
        return found

    @asked_once_of_any
    def bits_above(self, above: Served) -> Along:
        """Return the minimum bits of an element at its source or destination, an instance of the given units."""
        layer = self.way.problem.layer
        if self.operand is not Operand.OUTPUT:
            return np.full((1,) * len(LOOPS), float(layer.bits(self.operand)))
        return np.where(self.is_incomplete(above), float(layer.partial_bits), float(layer.output_bits))

    def bits(self, lower: int, above: Served) -> Along:
        """Return an element's minimum bits in memory number `lower` of the operand's chain, where it stays resident."""
        if self.operand is Operand.OUTPUT and self._is_added_to(lower):
            return np.full((1,) * len(LOOPS), float(self.way.problem.layer.partial_bits))
        return self.bits_above(above)

    def _is_added_to(self, lower: int) -> bool:
        """Return True if sums certainly arrive at a memory before they are complete."""
        if lower > 0:
            return self.way.adds_on is not None and self.way.adds_on[lower - 1]
        nearest = self.way.served(self.way.memories(self.operand)[0])
        return any(self.way.bounds[at] > nearest.most[at] for at in ADDING)

    @asked_once_of_any
    def room_bits(self, lower: int) -> Along:
        """Return the minimum bits that the largest tile takes of a memory, doubled if the next may arrive meanwhile."""
        memories = self.way.memories(self.operand)
        level = self.way.levels[memories[lower]]
        largest = self.largest(self.way.served(memories[lower]), is_block=True)
        need = largest * self.bits(lower, self.way.served(memories[lower + 1]))
        if level.double_buffered:
            need = need * np.where(self.lattice.is_whole(LEADING[self.operand]), 1, 2)
        return need

    @asked_once_of_any
    def fits(self, lower: int) -> NDArray[np.bool_]:
        """Return True for cells in which the largest tile alone fits the memory with that number.

        Also requires that the unrolling's case allows incomplete sums there.
        """
        memory = self.way.memories(self.operand)[lower]
        found: NDArray[np.bool_] = self.room_bits(lower) <= self.way.problem.room_bits(memory)
        return found & self._may_add_on(lower)
