"""How far the loops inside a place in a nest lead along each dimension, in cells, for some ways to use the array.

A coordinate is how many different indices of a dimension the whole array has met inside the place, where it has met
most. Cells are ranges of coordinates, so that what falls along them is taken at their end, and what rises at their
beginning.

Where loops end short, a tile may stay where others of its operand move: if all its operand's loops above the cut have
one iteration left, so at the end of some dimension. `stays` is the greatest part of its indices that lie there. A
dimension of few indices is `shared_out` instead: what is counted along it is counted for each index, by the length of
the part that it lies in, whichever place that ends at; parts that end short then need not be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.ir.layer import LOOPS
from onchip.mapping.chains.cells import Range, all_cells, parted, split_further, with_any_of
from onchip.mapping.chains.dimension import Dimension, Said, dimension_of
from onchip.mapping.chains.starts import Units
from onchip.mapping.prove.parts_alike import PartsAlike

Along: TypeAlias = NDArray[np.float64]  # by cell, in the shape of the lattice or one that broadcasts to it
Ranges: TypeAlias = Sequence[Sequence[Range]]
"""By dimension, of coordinates."""
SLIDING: Final = ("P", "Q")
"""Tiles of an input have neighbours' positions along these, and fewer where padding is: they are not shared out."""
FINER: Final = 1.4


@dataclass(frozen=True, eq=False)
class Served:
    """How many units of each loop one instance of a memory serves at most, and how many others stand beside it.

    `along` which dimensions of the array it serves all. Memories of one way that serve the same share one, by which
    what is said of them is found: so it is compared by identity.
    """

    along: tuple[bool, ...]
    most: tuple[int, ...]
    most_apart: tuple[int, ...]


ALONE: Final = Served((), (1,) * len(LOOPS), (1,) * len(LOOPS))
"""One unit, for what depends on none."""


@dataclass(frozen=True)
class Lattice:
    """All places in nests of some ways to use the array.

    What is said of several dimensions together is kept, as several boundaries ask the same; and so is in `known` what
    is said of an operand's tiles; in `known_of_any` what is the same if none of them may stay.
    """

    dimensions: tuple[Dimension, ...]
    known: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False, compare=False)
    known_of_any: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[tuple[str, tuple[int, ...], Served], Along] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, bounds: Sequence[int], units: Sequence[Units], most_cells: int, short: int, left: Ranges = ()
    ) -> Lattice:
        """Of at most so many cells, but two or three of each dimension in any case.

        Loops of at most `short` iterations are shared out. Where it is known which coordinates are `left`, only cells
        with any of these, and the last of each dimension.
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
        """Return how many cells each dimension has."""
        return tuple(len(one.first) for one in self.dimensions)

    @cached_property
    def with_whole_shares(self) -> Lattice:
        """Return the same with the longest part of a dimension that is shared out in place of any index's own."""
        wholes = (
            replace(one, last=np.full_like(one.last, one.bound), turns=np.full_like(one.turns, one.bound))
            if one.shared_out
            else one
            for one in self.dimensions
        )
        return Lattice(tuple(wholes))

    @cached_property
    def where_all_move(self) -> Lattice:
        """Return the same where no tile stays while loops move on that lead to none of its elements."""
        moving = tuple(replace(one, stays=np.zeros_like(one.stays)) for one in self.dimensions)
        return Lattice(moving, known_of_any=self.known_of_any, _known=self._known)

    @classmethod
    def _of_ranges(cls, bounds: Sequence[int], units: Sequence[Units], ranges: Ranges, most_cells: int) -> Lattice:
        """Of these coordinates alone, in as many cells as there may be; a range is one cell at least."""
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
        """Return the ranges of some of its cells; the last of a dimension is always among them."""
        each = zip(self.cells, flags, strict=True)
        return [[own[at] for at, is_kept in enumerate(kept) if is_kept or at + 1 == len(kept)] for own, kept in each]

    def within(self, units: Sequence[Units], left: Sequence[Sequence[int]], most_cells: int) -> Lattice:
        """Return some of its cells, each in as many as there may be.

        Where that makes none of them finer, each is split further, if all of them together are no more than that.
        """
        bounds = [own.bound for own in self.dimensions]
        found = Lattice._of_ranges(bounds, units, self.left(left), most_cells)
        if not found.is_part_of(self):
            return found
        sides = zip(bounds, found.cells, units, strict=True)
        parts = [split_further(bound, own, side) for bound, own, side in sides]
        return Lattice._of_cells(bounds, units, parts) if prod(map(len, parts)) <= most_cells else found

    def is_part_of(self, other: Lattice) -> bool:
        """Return whether all its cells are cells of the other."""
        return all(set(own) <= set(others) for own, others in zip(self.cells, other.cells, strict=True))

    def split_at(
        self, units: Sequence[Units], left: Sequence[Sequence[int]], places: Iterable[Sequence[Range]]
    ) -> Lattice:
        """Return some of its cells, of which those that some places are in are split further."""
        bounds, of_places = [own.bound for own in self.dimensions], [set(own) for own in zip(*places, strict=True)]
        sides = zip(bounds, self.left(left), units, of_places, strict=True)
        parts = [split_further(bound, cells, side, only) for bound, cells, side, only in sides]
        return Lattice._of_cells(bounds, units, parts)

    @property
    def cells(self) -> list[list[Range]]:
        """By dimension, the first and the last coordinates of its cells."""
        return [list(zip(own.first.tolist(), own.last.tolist(), strict=True)) for own in self.dimensions]

    def along(self, loop: int, values: NDArray[np.float64]) -> Along:
        """Return values by a loop's cells so that they broadcast."""
        shape = [1] * len(LOOPS)
        shape[loop] = len(values)
        return values.reshape(shape)

    def parts(self, loops: Sequence[int], served: Served) -> Along:
        """Return how many parts some dimensions have together, at least."""
        return self._product("parts", Dimension.parts, loops, served)

    def least_size(self, loops: Sequence[int], served: Served) -> Along:
        """Return how many indices the largest tile has at least."""
        return self._product("least", lambda one, _, apart: one.least_length(apart), loops, served)

    def most_size(self, loops: Sequence[int], served: Served) -> Along:
        """Return how many indices any tile has at most."""
        return self._product("most", Dimension.most_length, loops, served)

    def most_parts(self, loops: Sequence[int], served: Served) -> Along:
        """Return how many parts some dimensions have together, at most."""
        return self._product("most parts", lambda one, _, apart: one.most_parts(apart), loops, served)

    def whole_parts(self, loops: Sequence[int], served: Served) -> Along:
        """Return how many parts are as long as `least_size` says, at least; zero where that is not known."""
        return self._product("whole parts", Dimension.whole_parts, loops, served)

    def whole_size(self, loops: Sequence[int], served: Served) -> Along:
        """Return how many indices of those dimensions of which a tile has all, in any tile, there are."""
        return self._product("whole", lambda one, _, apart: one.whole_length(apart), loops, served)

    def parts_alike(self, loops: Sequence[int], served: Served) -> list[PartsAlike]:
        """Return tiles by the parts that they have of these loops, alike ones together."""
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
        """Return whether any dimension is shared out."""
        return any(one.shared_out and one.bound > 1 for one in self.dimensions)

    def most_turns(self, loops: Sequence[int]) -> Along:
        """Return how many iterations in time of these loops lead to a place, at most."""
        return self._product("turns", lambda one, _, __: one.turns.astype(np.float64), loops, ALONE)

    def stays(self, loops: Sequence[int]) -> Along:
        """Return the greatest part of elements, led to by these loops, that lie where tiles may stay."""
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
        """Return the greatest part of places where tiles may stay; each such dimension has three at least."""
        found: Along = np.zeros((1,) * len(LOOPS))
        for loop in loops:
            one = self.dimensions[loop]
            places = np.maximum(3, -(-one.bound // one.last))
            found = np.maximum(found, self.along(loop, np.where(one.stays > 0, 1 / places, 0.0)))
        return found

    def is_whole(self, loops: Sequence[int]) -> NDArray[np.bool_]:
        """Return whether a tile may have all indices of these loops."""
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
    """Cells that are so coarse: of ways in halves, all loops but one are as before."""
    return tuple(all_cells(bound, units, coarseness))
