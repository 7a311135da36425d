"""A grid of temporal tiles, and the number of input rows that tiles touch: restated for the second prover."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.ir.layer import LOOPS, Axis

Whole: TypeAlias = NDArray[np.int64]
Sizes: TypeAlias = dict[str, Whole]
"""Map from loop to its number of iterations inside each of many tiles."""
CHANGES = {"input": "NCPQRSG", "weight": "KCRSG", "output": "NKPQG"}
"""The relevant loops of each operand."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The tiles of the given loop bounds, with one axis for each prime factor of a loop.

    `sizes` maps each loop to its size in each tile, in the order of the flattened grid; the first tile contains
    nothing, the last one everything.
    """

    loops: tuple[str, ...]
    shape: tuple[int, ...]
    sizes: Sizes

    @property
    def number(self) -> int:
        """Return the number of tiles."""
        return prod(self.shape)

    def least_of_larger(self, values: Whole, loops: str) -> Whole:
        """Return for each tile the minimum over all tiles with at least its iterations of these loops."""
        found = values.reshape(self.shape)
        for axis, loop in enumerate(self.loops):
            if loop in loops:
                found = np.flip(np.minimum.accumulate(np.flip(found, axis), axis), axis)
        return found.reshape(-1)

    def larger(self, tile: int, loops: str) -> Whole:
        """Return the tiles with at least these iterations of the given loops, and the same of all others."""
        place = np.unravel_index(tile, self.shape)
        ranges = [
            np.arange(at, size) if loop in loops else np.array([at])
            for at, size, loop in zip(place, self.shape, self.loops, strict=True)
        ]
        if not ranges:
            return np.zeros(1, np.int64)
        return np.ravel_multi_index(np.meshgrid(*ranges, indexing="ij"), self.shape).reshape(-1)


@lru_cache(maxsize=4096)
def grid_of(bounds: tuple[int, ...]) -> Grid:
    """Return the grid of bounds in the order of LOOPS."""
    loops, primes, shape = [], [], []
    for loop, bound in zip(LOOPS, bounds, strict=True):
        for prime, count in _primes(bound):
            loops.append(loop)
            primes.append(prime)
            shape.append(count + 1)
    sizes = {loop: np.ones(prod(shape), np.int64) for loop in LOOPS}
    digits = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1), np.int64)
    for loop, prime, digit in zip(loops, primes, digits, strict=True):
        sizes[loop] = sizes[loop] * prime**digit
    return Grid(tuple(loops), tuple(shape), sizes)


def divisors(bound: int) -> list[int]:
    """Return all divisors of a bound, ascending."""
    return [one for one in range(1, bound + 1) if bound % one == 0]


def _primes(bound: int) -> list[tuple[int, int]]:
    found, prime = [], 2
    while bound > 1:
        count = 0
        while bound % prime == 0:
            bound, count = bound // prime, count + 1
        if count:
            found.append((prime, count))
        prime += 1
    return found


@dataclass(frozen=True, slots=True)
class Rows:
    """Stored input rows that tiles touch: in total, of the largest tile, and whether all tiles touch equally many."""

    total: int
    largest: int
    are_equal: bool


@dataclass(slots=True)
class RowCounter:
    """A counter of rows along one axis of the input, from each tile's first row to its last."""

    axis: Axis
    outputs: int
    taps: int
    _known: dict[tuple[int, int, int, int], Rows] = field(default_factory=dict)

    @property
    def needed(self) -> int:
        """Return the number of different rows that outputs need."""
        axis = self.axis
        found = {
            output * axis.stride + tap * axis.dilation - axis.padding
            for output in range(self.outputs)
            for tap in range(self.taps)
        }
        return sum(0 <= row < axis.size for row in found)

    def of(self, inside: Whole, beside: Whole, taps_inside: Whole, taps_beside: Whole) -> tuple[Whole, Whole, Whole]:
        """Return `Rows` as three arrays; neighbouring tiles are read at once, with shared rows counted once."""
        keys = np.stack(np.broadcast_arrays(inside, beside, taps_inside, taps_beside), axis=-1)
        flat, back = np.unique(keys.reshape(-1, 4), axis=0, return_inverse=True)
        rows = [self._rows(*(int(one) for one in key)) for key in flat]
        table = np.array([(one.total, one.largest, one.are_equal) for one in rows], np.int64)[back.reshape(-1)]
        shape = keys.shape[:-1]
        return table[:, 0].reshape(shape), table[:, 1].reshape(shape), table[:, 2].reshape(shape)

    def _rows(self, inside: int, beside: int, taps_inside: int, taps_beside: int) -> Rows:
        key = inside, beside, taps_inside, taps_beside
        if key not in self._known:
            axis = self.axis
            length = (inside - 1) * axis.stride + (taps_inside - 1) * axis.dilation + 1
            near = [
                one * inside * axis.stride + two * taps_inside * axis.dilation
                for one in range(beside)
                for two in range(taps_beside)
            ]
            starts = [
                one * axis.stride + two * axis.dilation - axis.padding
                for one in range(0, self.outputs, inside * beside)
                for two in range(0, self.taps, taps_inside * taps_beside)
            ]
            found = [self._covered(sorted(start + more for more in near), length) for start in starts]
            self._known[key] = Rows(sum(found), max(found), min(found) == max(found))
        return self._known[key]

    def _covered(self, starts: list[int], length: int) -> int:
        covered, reached = 0, 0
        for start in starts:
            first, stop = max(start, reached), min(start + length, self.axis.size)
            covered += max(0, stop - first)
            reached = max(reached, stop)
        return covered
