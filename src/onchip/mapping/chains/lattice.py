"""The lattice of tile sizes of a layer, and its least elements.

A coordinate is the number of different indices of a dimension that the whole array covers inside the position, at its
maximum. Cells are ranges of coordinates. Bounds that decrease with the coordinate are taken at a cell's end, bounds
that increase at its beginning.

Where loops end short, a tile may stay resident while others of its operand move. This happens at the end of a
dimension, if all loops of the operand above the cut have one iteration left. `stays` is the greatest share of indices
that lie there. A dimension with few indices is `shared_out` instead. Its costs are counted per index, by the length of
the part that contains the index, for each position independently. Parts that end short then need no separate case.
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
from onchip.ir.layer import LOOPS
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
from onchip.native import highest_mean as native_highest_mean
from onchip.native import least_chain

Along: TypeAlias = NDArray[np.float64]  # by cell, in the lattice's shape or a shape that broadcasts to it
Ranges: TypeAlias = Sequence[Sequence[Range]]
"""Ranges of coordinates, by dimension."""
SLIDING: Final = ("P", "Q")
"""Never shared out: input tiles overlap along these dimensions, and padding shortens them."""
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
    def of(
        cls, bounds: Sequence[int], units: Sequence[Units], most_cells: int, short: int, left: Ranges = ()
    ) -> Lattice:
        """Return a lattice of at most `most_cells` cells, but at least two or three per dimension.

        Loops of at most `short` iterations are shared out. If `left` is given, only cells that intersect its ranges
        remain, and the last cell of each dimension.
        """
        sides = list(zip(bounds, units, strict=True))

        def cells_of(coarseness: float) -> list[Sequence[Range]]:
            found = [_cells_of(bound, own, coarseness) for bound, own in sides]
            return [with_any_of(*each) for each in zip(found, left, strict=True)] if left else [*found]

        cells, coarseness = cells_of(0.0), 0.1
        while prod(map(len, cells)) > most_cells and coarseness < max(bounds):
            cells = cells_of(coarseness)
            coarseness *= FINER
        limits = [0 if name in SLIDING else short for name in LOOPS]
        each = zip(bounds, units, cells, limits, strict=True)
        return cls(tuple(dimension_of(bound, own, kept, most) for bound, own, kept, most in each))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Return the number of cells of each dimension."""
        return tuple(len(one.first) for one in self.dimensions)

    @cached_property
    def with_whole_shares(self) -> Lattice:
        """Return the lattice with the longest part of each shared-out dimension instead of each index's own part."""
        wholes = (
            replace(one, last=np.full_like(one.last, one.bound), turns=np.full_like(one.turns, one.bound))
            if one.shared_out
            else one
            for one in self.dimensions
        )
        return Lattice(tuple(wholes))

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
        return cls(tuple(dimension_of(bound, side, own, 0) for bound, side, own in sides))

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

    @cached_property
    def shares_out(self) -> bool:
        """Return True if a dimension is shared out."""
        return any(one.shared_out and one.bound > 1 for one in self.dimensions)

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
Criterion: TypeAlias = tuple[float, Boundaries]
"""A fixed cost and the costs of boundaries."""
SLOPES: Final = (1.0, 0.5, 2.0)
"""Weights of energy against cycles, relative to the ratio of both minima."""


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


def highest_mean(
    lattice: Lattice,
    room: Boundaries,
    criteria: Sequence[Criterion],
    enough: float,
    slope: float | None = None,
    vain: float = 0.0,
) -> tuple[float, list[float]]:
    """Return a lower bound over all chains on the greatest criterion, or `enough` if reached; and weights.

    The weights give a mean of the criteria that attains the bound. With `slope`, the bound is on `slope` times the
    first criterion plus the greatest of the others. The search stops early if some chain's value is not above `vain`.
    """
    operands = list(Operand)
    places = sorted(room, key=lambda at: (operands.index(at[0]), at[1]))
    rows = [(fixed, [costs.get(at) for at in places]) for fixed, costs in criteria]
    of_operands = [operands.index(at[0]) for at in places]
    return native_highest_mean(lattice.shape, of_operands, [room[at] for at in places], rows, slope, enough, vain)


def least_product(first: float, second: float, slope: float, least_sum: float) -> float:
    """Return a lower bound on x * y for x >= `first`, y >= `second` and `slope` * x + y >= `least_sum`.

    The minimum is at a corner of the region that these three constraints define.
    """
    if slope * first + second >= least_sum:
        return first * second
    return min(first * (least_sum - slope * first), (least_sum - second) / slope * second)
