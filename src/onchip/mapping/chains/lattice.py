"""The lattice of tile sizes of a layer, and its least elements.

A coordinate is the number of different indices of a dimension that the whole array covers inside the position, at its
maximum. Cells are ranges of coordinates. Bounds that decrease with the coordinate are taken at a cell's end, bounds
that increase at its beginning.

Where loops end short, a tile may stay resident while others of its operand move. This happens at the end of a
dimension, if all loops of the operand above the cut have one iteration left. `stays` is the greatest share of indices
that lie there.

Tiles of the input cover stored positions along each axis (`AxisRows`). A number of outputs and taps meets at least
`outputs + taps - 1` different positions. A stride makes it more: taps whose positions differ by no multiple of the
stride share none. Padding removes at most the (output, tap) pairs that meet nothing stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS, Axis
from onchip.mapping.chains.dimension import (
    Dimension,
    PartsAlike,
    Range,
    Said,
    Units,
    all_cells,
    dimension_of,
    parted,
    split_further,
    with_any_of,
)
from onchip.native import least_chain

Along: TypeAlias = NDArray[np.float64]  # by cell, in the lattice's shape or a shape that broadcasts to it
Ranges: TypeAlias = Sequence[Sequence[Range]]
"""Ranges of coordinates, by dimension."""
FINER: Final = 1.4


@dataclass(frozen=True, eq=False)
class Served:
    """The units of each loop that one instance of a memory serves at most, and the number of other instances.

    `along` marks the dimensions of the array that an instance serves whole. Memories of an unrolling that serve the
    same units share one object, which is a cache key: comparison is by identity.
    """

    along: tuple[bool, ...]
    most: tuple[int, ...]
    most_apart: tuple[int, ...]


ALONE: Final = Served((), (1,) * len(LOOPS), (1,) * len(LOOPS))
"""A single unit, for bounds that do not depend on units."""


@dataclass(frozen=True)
class Lattice:
    """A lattice over the positions in the nests of a set of spatial unrollings, in cells by dimension.

    Bounds over several dimensions are cached, since several boundaries use them. `known` caches results for an
    operand's tiles, `known_of_any` those that are the same if no tile may stay.
    """

    dimensions: tuple[Dimension, ...]
    known: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False, compare=False)
    known_of_any: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[tuple[str, tuple[int, ...], Served], Along] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, bounds: Sequence[int], units: Sequence[Units], most_cells: int, left: Ranges = ()) -> Lattice:
        """Return a lattice of at most `most_cells` cells, but at least two or three per dimension.

        If `left` is given, only cells that intersect its ranges remain, and the last cell of each dimension.
        """
        sides = list(zip(bounds, units, strict=True))

        def cells_of(coarseness: float) -> list[Sequence[Range]]:
            found = [_cells_of(bound, own, coarseness) for bound, own in sides]
            return [with_any_of(*each) for each in zip(found, left, strict=True)] if left else [*found]

        cells, coarseness = cells_of(0.0), 0.1
        while prod(map(len, cells)) > most_cells and coarseness < max(bounds):
            cells = cells_of(coarseness)
            coarseness *= FINER
        return cls._of_cells(bounds, units, cells)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Return the number of cells of each dimension."""
        return tuple(len(one.first) for one in self.dimensions)

    @cached_property
    def where_all_move(self) -> Lattice:
        """Return the lattice in which no tile stays while irrelevant loops advance."""
        moving = tuple(replace(one, stays=np.zeros_like(one.stays)) for one in self.dimensions)
        return Lattice(moving, known_of_any=self.known_of_any, _known=self._known)

    @classmethod
    def _of_ranges(cls, bounds: Sequence[int], units: Sequence[Units], ranges: Ranges, most_cells: int) -> Lattice:
        """Return a lattice over these ranges only, as fine as `most_cells` allows, with at least one cell per range."""
        coarseness = 0.0
        while True:
            sides = zip(bounds, units, ranges, strict=True)
            parts = [parted(bound, side, kept, coarseness) for bound, side, kept in sides]
            if prod(map(len, parts)) <= most_cells or coarseness > max(bounds):
                return cls._of_cells(bounds, units, parts)
            coarseness = max(coarseness * FINER, 0.05)

    @classmethod
    def _of_cells(cls, bounds: Sequence[int], units: Sequence[Units], cells: Ranges) -> Lattice:
        sides = zip(bounds, units, cells, strict=True)
        return cls(tuple(dimension_of(bound, side, tuple(own)) for bound, side, own in sides))

    def left(self, flags: Sequence[Sequence[int]]) -> list[list[Range]]:
        """Return the coordinate ranges of the flagged cells; the last cell of a dimension is always included."""
        each = zip(self.cells, flags, strict=True)
        return [[own[at] for at, is_kept in enumerate(kept) if is_kept or at + 1 == len(kept)] for own, kept in each]

    def within(self, units: Sequence[Units], left: Sequence[Sequence[int]], most_cells: int) -> Lattice:
        """Return a finer lattice over the flagged cells, of at most `most_cells` cells.

        If no cell becomes finer that way, each is split further, provided that the result has at most `most_cells`.
        """
        bounds = [own.bound for own in self.dimensions]
        found = Lattice._of_ranges(bounds, units, self.left(left), most_cells)
        if not found.is_part_of(self):
            return found
        sides = zip(bounds, found.cells, units, strict=True)
        parts = [split_further(bound, own, side) for bound, own, side in sides]
        return Lattice._of_cells(bounds, units, parts) if prod(map(len, parts)) <= most_cells else found

    def is_part_of(self, other: Lattice) -> bool:
        """Return True if all its cells are cells of the other lattice."""
        return all(set(own) <= set(others) for own, others in zip(self.cells, other.cells, strict=True))

    def split_at(
        self, units: Sequence[Units], left: Sequence[Sequence[int]], places: Iterable[Sequence[Range]]
    ) -> Lattice:
        """Return the flagged cells, with those that contain one of the `places` split further."""
        bounds, of_places = [own.bound for own in self.dimensions], [set(own) for own in zip(*places, strict=True)]
        sides = zip(bounds, self.left(left), units, of_places, strict=True)
        parts = [split_further(bound, cells, side, only) for bound, cells, side, only in sides]
        return Lattice._of_cells(bounds, units, parts)

    @property
    def cells(self) -> list[list[Range]]:
        """Return the first and last coordinate of each cell, by dimension."""
        return [list(zip(own.first.tolist(), own.last.tolist(), strict=True)) for own in self.dimensions]

    def along(self, loop: int, values: NDArray[np.float64]) -> Along:
        """Return values by a loop's cells in a shape that broadcasts over the lattice."""
        shape = [1] * len(LOOPS)
        shape[loop] = len(values)
        return values.reshape(shape)

    def parts(self, loops: Sequence[int], served: Served) -> Along:
        """Return a lower bound on the number of parts over these loops together."""
        return self._product("parts", Dimension.parts, loops, served)

    def least_size(self, loops: Sequence[int], served: Served) -> Along:
        """Return a lower bound on the indices of the largest tile."""
        return self._product("least", lambda one, _, apart: one.least_length(apart), loops, served)

    def most_size(self, loops: Sequence[int], served: Served) -> Along:
        """Return the maximum number of indices of any tile."""
        return self._product("most", Dimension.most_length, loops, served)

    def most_parts(self, loops: Sequence[int], served: Served) -> Along:
        """Return the maximum number of parts over these loops together."""
        return self._product("most parts", lambda one, _, apart: one.most_parts(apart), loops, served)

    def whole_parts(self, loops: Sequence[int], served: Served) -> Along:
        """Return a lower bound on the parts as long as `least_size`; zero if unknown."""
        return self._product("whole parts", Dimension.whole_parts, loops, served)

    def whole_size(self, loops: Sequence[int], served: Served) -> Along:
        """Return the product of the loops' bounds that every tile covers whole."""
        return self._product("whole", lambda one, _, apart: one.whole_length(apart), loops, served)

    def parts_alike(self, loops: Sequence[int], served: Served) -> list[PartsAlike]:
        """Return sets of equal tiles, by their parts along these loops."""
        one: Along = np.ones((1,) * len(LOOPS))
        found = [PartsAlike(one, one, one, one)]
        for loop in loops:
            if self.dimensions[loop].bound > 1:
                own = self.dimensions[loop].parts_alike(served.most[loop], served.most_apart[loop])
                shape = self.along(loop, own[0].parts).shape
                found = [tiles.beside(parts.reshaped(shape)) for tiles in found for parts in own]
        return found

    def most_turns(self, loops: Sequence[int]) -> Along:
        """Return the maximum number of temporal iterations of these loops inside a position."""
        return self._product("turns", lambda one, _, __: one.turns.astype(np.float64), loops, ALONE)

    def stays(self, loops: Sequence[int]) -> Along:
        """Return the greatest share of elements, over these loops, at positions where tiles may stay."""
        at = ("stays", *loops)
        if at not in self.known:
            found: Along = np.zeros((1,) * len(LOOPS))
            for loop in loops:
                if self.dimensions[loop].stays.any():
                    found = np.maximum(found, self.along(loop, self.dimensions[loop].stays))
            self.known[at] = found
        known: Along = self.known[at]
        return known

    def places_that_stay(self, loops: Sequence[int]) -> Along:
        """Return the greatest share of positions where tiles may stay; each such dimension has at least three."""
        found: Along = np.zeros((1,) * len(LOOPS))
        for loop in loops:
            one = self.dimensions[loop]
            places = np.maximum(3, -(-one.bound // one.last))
            found = np.maximum(found, self.along(loop, np.where(one.stays > 0, 1 / places, 0.0)))
        return found

    def is_whole(self, loops: Sequence[int]) -> NDArray[np.bool_]:
        """Return True for cells in which a tile may have all indices of these loops."""
        found = np.ones((1,) * len(LOOPS), np.bool_)
        for loop in loops:
            at_end = np.zeros(len(self.dimensions[loop].first))
            at_end[-1] = 1.0
            found = found & (self.along(loop, at_end) > 0)
        return found

    def _product(self, name: str, of: Said, loops: Sequence[int], served: Served) -> Along:
        at = (name, tuple(loops), served)
        if at not in self._known:
            found: Along = np.ones((1,) * len(LOOPS))
            for loop in loops:
                values = self.dimensions[loop].said(name, of, served.most[loop], served.most_apart[loop])
                if len(values) > 1 or values[0] != 1:
                    found = found * self.along(loop, values)
            found.flags.writeable = False
            self._known[at] = found
        return self._known[at]


@lru_cache(maxsize=1 << 14)
def _cells_of(bound: int, units: Units, coarseness: float) -> tuple[Range, ...]:
    """Return a loop's cells at this coarseness; cached, since a split changes only one loop."""
    return tuple(all_cells(bound, units, coarseness))


Boundaries: TypeAlias = Mapping[tuple[Operand, int], Along]
"""Costs by operand and boundary number, from the MACs upwards; infinite if a tile does not fit."""


def least_of(lattice: Lattice, *tables: Boundaries) -> float:
    """Return the minimum over all chains of the sum of the tables."""
    summed: dict[tuple[Operand, int], Along] = {}
    for table in tables:
        for at, own in table.items():
            summed[at] = summed[at] + own if at in summed else own
    of_operands = [
        [np.ascontiguousarray(summed[at]) for at in sorted(summed) if at[0] is operand] for operand in Operand
    ]
    return least_chain(lattice.shape, of_operands)


@dataclass(frozen=True)
class AxisRows:
    """An input axis with its outputs and taps; those of a tile are neighbours unless they are spatially unrolled."""

    axis: Axis
    outputs: int
    taps: int
    taps_are_neighbours: bool = True
    all_are_neighbours: bool = False

    def moved(self, outputs: Along, taps: Along) -> Along:
        """Return a lower bound on the positions of all tiles, given the maximum outputs and taps of a tile."""
        parts = np.ceil(self.outputs / outputs)
        of_taps = np.maximum(self._streams_of_all_taps[taps.astype(np.int64) - 1], np.ceil(self.taps / taps))
        met = of_taps * (self.outputs - parts) + parts * self.taps
        found: Along = np.maximum(met - self._outside, float(self.positions))
        return found

    def met(self, outputs: Along, taps: Along, most_output_parts: Along, most_tap_parts: Along) -> Along:
        """Return the same bound for sets of tiles in which no tile counts more than `block` positions.

        Outputs and taps are partitioned among tiles: no two parts begin or end with the same one. So the tiles meet at
        most the padding of parts that begin with the first outputs and taps and end with the last.
        """
        parts = np.ceil(self.outputs / outputs)
        of_taps = np.maximum(self._streams_of_all_taps[taps.astype(np.int64) - 1], np.ceil(self.taps / taps))
        most = np.minimum(most_output_parts, self.outputs), np.minimum(most_tap_parts, self.taps)
        outside = self._outside_of_parts[most[0].astype(np.int64) - 1, most[1].astype(np.int64) - 1]
        found: Along = np.maximum(of_taps * (self.outputs - parts) + parts * self.taps - outside, 0.0)
        return found

    def blocks(self, outputs: int, taps: int) -> Sequence[tuple[int, int]]:
        """Return pairs of stored positions covered by a part of neighbours and the number of such parts, longest first.

        All parts but the last have `outputs` outputs and `taps` taps.
        """
        return _blocks(self.axis, (self.outputs, self.taps), (outputs, taps))

    def reach_as_neighbours(self, taps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return by taps True if parts meet at least the positions of equally large parts of neighbours.

        This holds if the first part has the first output and the last part the last, since no other output is cut off.
        All parts of taps but the last have `taps` (unless 0), and each is at least a stride long.
        """
        axis, each = self.axis, np.maximum(taps, 1)
        found: NDArray[np.bool_] = np.minimum(each, (self.taps - 1) % each + 1) >= axis.stride
        return found & (axis.dilation == 1 and axis.stride >= max(axis.padding, self._beyond))

    def in_blocks(self, taps: Along, most_blocks: Along, most_tap_parts: Along) -> Along:
        """Return a lower bound on the positions of all tiles if each is a union of at most `most_blocks` blocks.

        Outputs are partitioned among blocks; each block includes the positions between its adjacent outputs.
        """
        blocks = np.minimum(most_blocks, self.outputs)
        of_outputs = self.axis.stride * self.outputs - (self.axis.stride - 1) * blocks
        parts = np.minimum(most_tap_parts, self.taps)
        outside = self._outside_of_parts[blocks.astype(np.int64) - 1, parts.astype(np.int64) - 1]
        found: Along = np.maximum(np.ceil(self.taps / taps) * of_outputs - outside, 0.0)
        return found

    def block(self, outputs: Along, taps: Along) -> Along:
        """Return the maximum number of stored positions that neighbouring outputs and taps meet."""
        reach = (outputs - 1) * self.axis.stride + (taps - 1) * self.axis.dilation + 1
        met = max(self._met, default=0) - min(self._met, default=0) + 1
        found: Along = np.minimum(np.minimum(reach, outputs * taps), float(met))
        return found

    @property
    def _beyond(self) -> int:
        """Return the positions by which the last output's last tap exceeds the stored input; negative if inside."""
        axis = self.axis
        return (self.outputs - 1) * axis.stride + (self.taps - 1) * axis.dilation - axis.padding - axis.size + 1

    @cached_property
    def _outside_of_parts(self) -> NDArray[np.float64]:
        """Return the maximum number of padding positions met, by number of parts of outputs and of taps."""
        axis = self.axis
        output, tap = np.arange(self.outputs)[:, None] * axis.stride, np.arange(self.taps)[None] * axis.dilation
        first, last = np.maximum(axis.padding - output - tap, 0), np.maximum(self._beyond - output - tap, 0)
        found: NDArray[np.float64] = (first + last).cumsum(axis=0).cumsum(axis=1).astype(np.float64)
        return found

    def moved_but_at_the_end(self, outputs: Along, taps: Along, outputs_at_end: Along, taps_at_end: Along) -> Along:
        """Return the positions of tiles without the given shares of outputs and taps at their ends."""
        before = self.outputs * (1 - outputs_at_end)
        parts = before / outputs
        of_taps = self._streams_of_all_taps[taps.astype(np.int64) - 1]
        met = of_taps * (before - parts) + parts * self.taps
        return np.maximum(met * (1 - taps_at_end) - max(self._outside, self._most_outside), 0.0)

    def largest(self, outputs: Along, taps: Along, parts: Along) -> Along:
        """Return a lower bound on the positions of the largest tile; at least `parts` tiles have that many outputs.

        At least one tile has that many outputs, and at least one that many taps.
        """
        if self._outside == self.outputs * self.taps:
            return 0.0 * outputs * taps
        streams = self._streams[taps.astype(np.int64) - 1]
        found = np.maximum(streams * (outputs - 1) + taps - self._outside, 1.0)
        if self._outputs_amidst:
            found = np.maximum(found, streams * (self._amidst(outputs, parts) - 1) + taps)
        return found

    def _amidst(self, outputs: Along, parts: Along) -> Along:
        """Return a part's outputs whose taps are all stored: all of them if too few others exist for every part."""
        others = self.outputs - self._outputs_amidst
        found: Along = np.where(parts > others, outputs, np.maximum(outputs - others, 1.0))
        return found

    def largest_block(self, outputs: Along, taps: Along, parts: Along) -> Along:
        """Return the same bound for tiles of one instance, each a block from its first to its last position.

        Padding shortens the tile with the most outputs by at most the padding of both ends. A tile that contains
        outputs with all taps stored reaches from the first of these to the last.
        """
        if self.all_are_neighbours:
            return self._largest_of_parts[outputs.astype(np.int64) - 1, taps.astype(np.int64) - 1]
        axis, found = self.axis, self.largest(outputs, taps, parts)
        if self._outside == self.outputs * self.taps:
            return found
        of_taps = (taps - 1) * axis.dilation + 1
        cut_off = max(axis.padding, 0) + max(self._beyond, 0)
        found = np.maximum(found, (outputs - 1) * axis.stride + of_taps - cut_off)
        if self._outputs_amidst:
            found = np.maximum(found, (self._amidst(outputs, parts) - 1) * axis.stride + of_taps)
        return found

    @cached_property
    def _largest_of_parts(self) -> NDArray[np.float64]:
        """Return by outputs and taps of a part a lower bound on the positions of the largest part, or of longer ones.

        All parts but the last have equal length. Up to the first part that begins with stored positions, parts get no
        shorter; after it, no longer. So for each part of taps one of two candidates is the largest.
        """
        axis, found = self.axis, np.zeros((self.outputs, self.taps))
        outputs, taps = np.arange(1, self.outputs + 1)[:, None], np.arange(1, self.taps + 1)[None]
        for part in range(self.taps):
            from_tap = part * taps * axis.dilation - axis.padding
            to_tap = np.minimum((part + 1) * taps, self.taps) * axis.dilation - axis.dilation - axis.padding
            inner = -(np.minimum(from_tap, 0) // (outputs * axis.stride))
            for at in (np.clip(inner - 1, 0, (self.outputs - 1) // outputs), inner):
                begin = at * outputs * axis.stride + from_tap
                end = np.minimum((at + 1) * outputs, self.outputs) * axis.stride - axis.stride + to_tap + 1
                length = np.minimum(end, axis.size) - np.maximum(begin, 0)
                is_there = (part * taps < self.taps) & (at * outputs < self.outputs)
                found = np.maximum(found, np.where(is_there, length, 0))
        for side in (0, 1):
            found = np.flip(np.minimum.accumulate(np.flip(found, side), side), side)
        return found

    def most(self, outputs: Along, taps: Along) -> Along:
        """Return the maximum number of positions of any tile with at most that many outputs and taps."""
        one_output = min(self.axis.size, (self.taps - 1) * self.axis.dilation + 1)
        several = np.where(outputs == 1, float(one_output), float(self.axis.size))
        found: Along = np.where((outputs == 1) & (taps == 1), 1.0, several)
        return found

    @property
    def all_are_stored(self) -> bool:
        """Return True if every output meets a stored position through every tap."""
        return self._outside == 0

    @cached_property
    def positions(self) -> int:
        """Return the number of different stored positions that the layer reads."""
        return len(set(self._met))

    @cached_property
    def _met(self) -> list[int]:
        axis = self.axis
        pairs = (
            output * axis.stride + tap * axis.dilation - axis.padding
            for output in range(self.outputs)
            for tap in range(self.taps)
        )
        return [position for position in pairs if 0 <= position < axis.size]

    @property
    def _outside(self) -> int:
        return self.outputs * self.taps - len(self._met)

    @cached_property
    def _outputs_amidst(self) -> int:
        """Return the number of outputs for which every tap is stored."""
        axis = self.axis
        first = range(-axis.padding, (self.outputs - 1) * axis.stride - axis.padding + 1, axis.stride)
        reach = (self.taps - 1) * axis.dilation
        return sum(position >= 0 and position + reach < axis.size for position in first)

    @property
    def _most_outside(self) -> int:
        """Return the padding pairs of all taps if each equalled the worst tap."""
        return self.taps * max(self.outputs - one for one in self.stored_through_taps)

    @cached_property
    def stored_through_taps(self) -> list[int]:
        """Return by tap the number of outputs that meet a stored position through it."""
        return [len(AxisRows(self._seen_through(tap), self.outputs, 1)._met) for tap in range(self.taps)]

    def _seen_through(self, tap: int) -> Axis:
        return replace(self.axis, padding=self.axis.padding - tap * self.axis.dilation)

    @cached_property
    def _streams(self) -> NDArray[np.float64]:
        """Return by number of taps a lower bound on the residue classes of their positions modulo the stride."""
        streams = [tap * self.axis.dilation % self.axis.stride for tap in range(self.taps)]
        if not self.taps_are_neighbours:
            most = max(streams.count(one) for one in set(streams))
            return np.ceil(np.arange(1, self.taps + 1) / most)
        found = [
            min(len(set(streams[start : start + taps])) for start in range(self.taps - taps + 1))
            for taps in range(1, self.taps + 1)
        ]
        return np.array(found, np.float64)

    @cached_property
    def _streams_of_all_taps(self) -> NDArray[np.float64]:
        """Return by maximum taps of a tile a lower bound on their residue classes, summed over all tiles."""
        share = self._streams / np.arange(1, self.taps + 1)
        found: NDArray[np.float64] = np.minimum.accumulate(share) * self.taps
        return found


@lru_cache(maxsize=1 << 12)
def _blocks(axis: Axis, all_of_both: tuple[int, int], parts: tuple[int, int]) -> Sequence[tuple[int, int]]:
    """Return `AxisRows.blocks` for these totals and part sizes; cached."""
    (first, last), (first_tap, last_tap) = (
        (starts, np.minimum(starts + part, end) - 1)
        for end, part in zip(all_of_both, parts, strict=True)
        for starts in (np.arange(0, end, part),)
    )
    begin = first[:, None] * axis.stride + first_tap * axis.dilation - axis.padding
    end = last[:, None] * axis.stride + last_tap * axis.dilation - axis.padding + 1
    lengths = np.maximum(np.minimum(end, axis.size) - np.maximum(begin, 0), 0)
    found = zip(*np.unique(lengths, return_counts=True), strict=True)
    return [(int(length), int(count)) for length, count in found][::-1]
