"""How far the loops inside a place in a nest lead along each dimension, in cells, for one way to use the array.

A coordinate is how many different indices of a dimension the whole array has met inside the place, where it has met
most. Cells are ranges of coordinates, so that what falls along them is taken at their end, and what rises at their
beginning.

Where loops end short, a tile may stay where others of its operand move: if all its operand's loops above the cut have
one iteration left, so at the end of some dimension. `stays` is the greatest part of its indices that lie there. A
dimension of few indices is `shared_out` instead: what is counted along it is counted for each index, by the length of
the part that it lies in, whichever place that ends at; parts that end short then need not be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.ir.layer import LOOPS

Along: TypeAlias = NDArray[np.float64]  # by cell, in the shape of the lattice or one that broadcasts to it
Cells: TypeAlias = NDArray[np.int64]
SLIDING: Final = ("P", "Q")
"""Tiles of an input have neighbours' positions along these, and fewer where padding is: they are not shared out."""
FINER: Final = 1.4
MOST_ITERATIONS: Final = 64
"""Of a loop whose last whole turn is looked for; of longer ones what is left over is at most a tile."""


@dataclass(frozen=True)
class Dimension:
    """One loop's cells: `first` and `last` are the coordinates at their ends; `units` of it stand beside each other.

    `turns` are the iterations in time that lead to a cell, at most: of all that ends short units may be idle.
    """

    bound: int
    units: int
    first: Cells
    last: Cells
    turns: Cells
    stays: NDArray[np.float64]
    shared_out: bool

    def parts(self, inside: int) -> NDArray[np.float64]:
        """How many parts the dimension has at least, so many units of which belong to the same."""
        longest = self.most_length(inside)
        return self.bound / longest if self.shared_out else np.ceil(self.bound / longest)

    def least_length(self, inside: int) -> NDArray[np.float64]:
        """Of the longest part at least, so many units of which belong to the same."""
        return -(-self.first * inside // self.units).astype(np.float64)

    def most_length(self, inside: int) -> NDArray[np.float64]:
        """Of any part at most."""
        return np.minimum(self.last, self.turns * inside).astype(np.float64)


@dataclass(frozen=True)
class Lattice:
    """All places for one way; `sizes` are how many units each loop has along each dimension of the array."""

    dimensions: tuple[Dimension, ...]

    @classmethod
    def of(cls, bounds: Sequence[int], sizes: NDArray[np.int64], most_cells: int, short: int) -> Lattice:
        """Of at most so many cells, but two or three of each dimension in any case; loops of at most `short` iterations are shared out."""
        sizes_along = [tuple(int(size) for size in along if size > 1) for along in sizes.T]
        finest = [_breakpoints(bound, prod(own)) for bound, own in zip(bounds, sizes_along, strict=True)]
        starts, coarseness = finest, 0.1
        while prod(len(own) - 1 for own in starts) > most_cells and coarseness < max(bounds):
            starts = [_thinned(own, coarseness) for own in finest]
            coarseness *= FINER
        limits = [0 if name in SLIDING else short for name in LOOPS]
        each = zip(bounds, sizes_along, starts, limits, strict=True)
        return cls(tuple(_dimension(bound, own, first, most) for bound, own, first, most in each))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Return how many cells each dimension has."""
        return tuple(len(one.first) for one in self.dimensions)

    def along(self, loop: int, values: NDArray[np.float64]) -> Along:
        """Return values by a loop's cells so that they broadcast."""
        shape = [1] * len(LOOPS)
        shape[loop] = len(values)
        return values.reshape(shape)

    def parts(self, loops: Sequence[int], inside: Sequence[int]) -> Along:
        """Return how many parts some dimensions have together, at least."""
        return self._product(self.along(loop, self.dimensions[loop].parts(inside[loop])) for loop in loops)

    def least_size(self, loops: Sequence[int], inside: Sequence[int]) -> Along:
        """Return how many indices the largest tile has at least."""
        return self._product(self.along(loop, self.dimensions[loop].least_length(inside[loop])) for loop in loops)

    def most_size(self, loops: Sequence[int], inside: Sequence[int]) -> Along:
        """Return how many indices any tile has at most."""
        return self._product(self.along(loop, self.dimensions[loop].most_length(inside[loop])) for loop in loops)

    def stays(self, loops: Sequence[int]) -> Along:
        """Return the greatest part of elements, led to by these loops, that lie where tiles may stay."""
        found: Along = np.zeros((1,) * len(LOOPS))
        for loop in loops:
            found = np.maximum(found, self.along(loop, self.dimensions[loop].stays))
        return found

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

    def _product(self, factors: Iterator[Along]) -> Along:
        found: Along = np.ones((1,) * len(LOOPS))
        for factor in factors:
            found = found * factor
        return found


def _dimension(bound: int, sizes: tuple[int, ...], starts: Sequence[int], short: int) -> Dimension:
    units = prod(sizes)
    first, last = np.array(starts[:-1]), np.array(starts[1:]) - 1
    turns = _most_turns(bound, sizes)
    if bound <= short and units == 1:
        return Dimension(bound, units, first, last, turns[last], np.zeros(len(first)), shared_out=True)
    stays = np.maximum.reduceat(_stays(bound, sizes), first)
    return Dimension(bound, units, first, last, turns[last], stays, shared_out=False)


@lru_cache(maxsize=1 << 12)
def _breakpoints(bound: int, units: int) -> tuple[int, ...]:
    """Coordinates from which on there are fewer parts, or more turns; one more past the end."""
    found = {1, bound, *range(units + 1, bound, units)}
    for inside in range(1, units + 1):
        if units % inside == 0:
            found |= {-(-bound // parts) * units // inside for parts in range(1, bound + 1)}
    return (*sorted(one for one in found if 1 <= one <= bound), bound + 1)


def _thinned(starts: Sequence[int], coarseness: float) -> Sequence[int]:
    """Some of them: each at least so much greater than the one before, the first and the last two in any case."""
    kept = [starts[0]]
    kept.extend(one for one in starts[1:-2] if one >= kept[-1] * (1 + coarseness))
    return [*kept, *(one for one in starts[-2:] if one > kept[-1])]


@lru_cache(maxsize=1 << 12)
def _most_turns(bound: int, sizes: tuple[int, ...]) -> Cells:
    """By coordinate, the greatest product of loops in time inside the place.

    All units are at work but for the last iteration of the dimension's outermost loop, which is needed. If that runs
    over units, f of them, at least f - 1 of f parts of what the loops inside could reach are reached; if it runs in
    time, all indices are.
    """
    units, coordinates = prod(sizes), np.arange(bound + 1)
    if units == 1:
        return coordinates
    least = min(part for size in sizes for part in range(2, size + 1) if size % part == 0)
    turns = np.maximum(-(-coordinates // units), (coordinates - 1) * least // ((least - 1) * units))
    turns[bound] = max(turns[bound], min(bound, 2 * -(-bound // units)))
    return np.maximum(turns, 1)


@lru_cache(maxsize=1 << 12)
def _stays(bound: int, sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """By coordinate, the greatest part of indices past the last whole turn of a loop right above, in one tile.

    The loop has two iterations or more of as many indices as the loops inside it lead through, units included that
    stand inside; there is at least one whole turn.
    """
    beside = {1}
    for size in sizes:
        beside |= {one * part for one in beside for part in range(1, size + 1) if size % part == 0}
    by_weight = np.zeros(bound + 1)
    for iterations in range(2, MOST_ITERATIONS):
        weights = np.arange(1, (bound - 1) // iterations + 1)
        rest = (bound - 1) % (weights * iterations) + 1
        by_weight[weights] = np.maximum(by_weight[weights], np.where(rest <= weights, rest / bound, 0.0))
    small = np.arange(1, (bound - 1) // MOST_ITERATIONS + 1)
    by_weight[small] = small / bound
    by_turns = by_weight.copy()
    for one in beside:
        led = np.arange(1, bound // one + 1)
        by_turns[led] = np.maximum(by_turns[led], by_weight[led * one])
    fewest, most = -(-np.arange(bound + 1) // prod(sizes)), _most_turns(bound, sizes)
    return np.array([by_turns[low : high + 1].max() for low, high in zip(fewest, most, strict=True)])
