"""The cost of each boundary between two memories, restated from docs/layer_cost.md for the second prover.

Energies are integers in units of 2^-k fJ, each rounded down, so that their sum is never above the true one; subtracted
terms are rounded up. The words of a transfer include the unused part of an access if all tiles are equal, and exclude
it otherwise: never too many. Returning partial sums are counted by their bits alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM, Access, Operand
from onchip.errors import AcceleratorError
from onchip.ir.layer import LOOPS, Axis, Layer

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


NEVER = 1 << 59
"""Energy of a tile that does not fit; sums of energies stay below it."""
FEMTO = 1000.0
DOWN, UP = 1 - 2.0**-49, 1 + 2.0**-49
"""Margins larger than the error of four roundings of floating-point numbers."""
UNITS, HOME = -1, -2
"""Pseudo-levels: the MACs, and the home of an operand."""


@dataclass(frozen=True, slots=True)
class NestTiling:
    """Many tiles at once: temporal iterations inside each, all temporal iterations, and spatial loops.

    The temporal iterations are maps by loop, the spatial ones a map by array dimension and loop.
    """

    inside: Sizes
    turns: Sizes
    beside: dict[tuple[str, str], Whole]

    def within(self, serves: frozenset[str], loop: str) -> Whole:
        """Return the number of spatial iterations below one instance that serves these dimensions."""
        return self._product([size for (dim, own), size in self.beside.items() if own == loop and dim in serves])

    def apart(self, serves: frozenset[str], loop: str) -> Whole:
        """Return the number of instances serving these dimensions over which the loop is distributed."""
        return self._product([size for (dim, own), size in self.beside.items() if own == loop and dim not in serves])

    def _product(self, sizes: list[Whole]) -> Whole:
        found = np.ones(1, np.int64)
        for size in sizes:
            found = found * size
        return found


@dataclass(frozen=True)
class Terms:
    """The cost terms of one layer's problem; `unit` parts make a femtojoule."""

    problem: LayerProblem

    @property
    def layer(self) -> Layer:
        """Return the layer with its executed bounds."""
        return self.problem.layer

    @cached_property
    def unit(self) -> int:
        """Return the finest resolution at which the largest possible sum stays below NEVER."""
        greatest = max(1.0, self.layer.macs * 3 * 64 * 8 * max(self._price(level, True, 1) for level in self._places))
        unit = 1 << 12
        while unit > 1 and greatest * unit > NEVER:
            unit >>= 1
        return unit

    @cached_property
    def chains(self) -> dict[str, tuple[int, ...]]:
        """Return the levels that keep each operand, nearest the MACs first."""
        levels = list(self.problem.levels)
        return {
            operand: tuple(levels.index(level) for level in self.problem.keepers(operand))
            for operand in self.layer.operands
        }

    @cached_property
    def counters(self) -> tuple[RowCounter, RowCounter]:
        """Return the counters of the input's rows and columns."""
        height, width = self.layer.axes
        return RowCounter(height, self.layer.p, self.layer.r), RowCounter(width, self.layer.q, self.layer.s)

    @property
    def mac_energy(self) -> int:
        """Return the energy of all multiply-accumulates, in parts of a femtojoule (`unit`), rounded down."""
        array = self.problem.accelerator.array
        each_pj = (array.mac_energy_pj or 0.0) if array is not None else 0.0
        return int(self.layer.macs * each_pj * FEMTO * self.unit * DOWN)

    def boundary(self, operand: str, number: int, tiling: NestTiling, *, is_floor: bool = False) -> Whole:
        """Return the cost of an operand's boundary `number` with each tile below it; boundary 0 is at the MACs.

        With `is_floor` the cost ignores the additional width of partial sums, and counts each needed input row once.
        """
        if operand == Operand.OUTPUT:
            return self._of_sums(number, tiling, is_floor=is_floor)
        return self._of_reads(operand, number, tiling, is_floor=is_floor)

    def constant(self) -> int:
        """Return the deduction for the first partial sum of each output, which needs no read of an earlier one."""
        if Operand.OUTPUT not in self.layer.operands:
            return 0
        each = sum(self._returning(number) for number in range(len(self.chains[Operand.OUTPUT]) + 1))
        return -int(self.layer.elements(Operand.OUTPUT) * each * self.unit * UP) - 1

    def room(self, level: int, operand: str, tiling: NestTiling, *, goes_on: bool) -> Whole:
        """Return the least bits that tiles occupy in one instance of a level.

        If an operand's tile is reused by the loops directly above it, its sums may be complete after these loops.
        """
        serves = self.serves(level)
        if operand == Operand.INPUT:
            rows = prod_of([self._rows(tiling, axis, serves, serves)[1] for axis in (0, 1)])
            elements = rows * prod_of([tiling.inside[one] * tiling.within(serves, one) for one in "NCG"])
        else:
            elements = prod_of([tiling.inside[one] * tiling.within(serves, one) for one in CHANGES[operand]])
        bits = np.full_like(elements, self.layer.bits(operand))
        if operand == Operand.OUTPUT:
            bits = np.where(self._are_left(tiling, serves, goes_on=goes_on), self.layer.partial_bits, bits)
        if self.problem.levels[level].double_buffered:
            changes = [tiling.inside[one] < tiling.turns[one] for one in CHANGES[operand]]
            bits = bits * np.where(np.any(np.stack(np.broadcast_arrays(*changes)), axis=0), 2, 1)
        return elements * bits

    def room_at_home(self, level: int) -> int:
        """Return the bits of the operands stored whole in a level."""
        name = self.problem.levels[level].memory.name
        return sum(
            self.layer.elements(one) * self.layer.bits(one)
            for one in self.layer.operands
            if self.problem.home(one) == name
        )

    def usable_bits(self, level: int) -> int:
        """Return the capacity of a level for tiles and whole operands together, in bits."""
        memory = self.problem.levels[level].memory
        room = self.problem.room_bytes.get(memory.name, memory.capacity_bytes)
        return 8 * room + self.room_at_home(level)

    def serves(self, level: int) -> frozenset[str]:
        """Return the dimensions of the array that one instance serves."""
        names = frozenset(self.problem.accelerator.array.sizes) if self.problem.accelerator.array else frozenset()
        if level == UNITS:
            return frozenset()
        served = None if level == HOME else self.problem.levels[level].serves
        return names if served is None else frozenset(served)

    def _ends(self, operand: str, number: int) -> tuple[int, int]:
        """Return the levels below and above a boundary."""
        chain = (UNITS, *self.chains[operand], HOME)
        return chain[number], chain[number + 1]

    def _of_reads(self, operand: str, number: int, tiling: NestTiling, *, is_floor: bool) -> Whole:
        lower, upper = self._ends(operand, number)
        below, above = self.serves(lower), self.serves(upper)
        bits, place = self.layer.bits(operand), self._place(operand, upper)
        again = prod_of([tiling.turns[one] // tiling.inside[one] for one in LOOPS if one not in CHANGES[operand]])
        tiles, largest, alike = self._moved(operand, tiling, below, above, is_floor=is_floor)
        copies = prod_of([tiling.apart(above, one) for one in LOOPS if one not in CHANGES[operand]])
        found = self._energy(place, False, tiles * again * copies, largest, alike, bits)
        if lower != UNITS:
            tiles, largest, alike = self._moved(operand, tiling, below, below, is_floor=is_floor)
            copies = prod_of([tiling.apart(below, one) for one in LOOPS if one not in CHANGES[operand]])
            found = found + self._energy(self._name(lower), True, tiles * again * copies, largest, alike, bits)
        return found

    def _moved(
        self, operand: str, tiling: NestTiling, below: frozenset[str], above: frozenset[str], *, is_floor: bool
    ) -> tuple[Whole, Whole, Whole]:
        """Return the elements of a tile over all its positions, those at one position, and whether all are equal."""
        if operand != Operand.INPUT:
            one = prod_of([tiling.inside[loop] * tiling.within(above, loop) for loop in CHANGES[operand]])
            return np.full_like(one, self.layer.elements(operand)), one, np.ones_like(one)
        if is_floor:
            needed = self.layer.n * self.layer.c * self.layer.g * self.counters[0].needed * self.counters[1].needed
            one = np.ones(1, np.int64)
            return one * needed, one, 0 * one
        height, width = (self._rows(tiling, axis, below, above) for axis in (0, 1))
        channels = prod_of([tiling.inside[loop] * tiling.within(above, loop) for loop in "NCG"])
        every = self.layer.n * self.layer.c * self.layer.g
        return height[0] * width[0] * every, height[1] * width[1] * channels, height[2] * width[2]

    def _rows(
        self, tiling: NestTiling, axis: int, below: frozenset[str], above: frozenset[str]
    ) -> tuple[Whole, Whole, Whole]:
        output, tap = ("P", "R") if axis == 0 else ("Q", "S")
        inside, beside = [], []
        for loop in (output, tap):
            inside.append(tiling.inside[loop] * tiling.within(below, loop))
            beside.append(tiling.within(above, loop) // tiling.within(below, loop))
        return self.counters[axis].of(inside[0], beside[0], inside[1], beside[1])

    def _of_sums(self, number: int, tiling: NestTiling, *, is_floor: bool) -> Whole:
        operand = Operand.OUTPUT
        lower, upper = self._ends(operand, number)
        below, above = self.serves(lower), self.serves(upper)
        added = [loop for loop in LOOPS if loop not in CHANGES[operand]]
        again = prod_of([tiling.turns[one] // tiling.inside[one] for one in added])
        every = self.layer.elements(operand)
        arrived = every * again * prod_of([tiling.apart(above, one) for one in added])
        size = prod_of([tiling.inside[one] * tiling.within(above, one) for one in CHANGES[operand]])
        alike = np.ones_like(size)
        bits = self._bits(tiling, above, is_floor=is_floor)
        found = self._energy(self._place(operand, upper), True, arrived, size, alike, bits)
        each = sum(self._returning(one) for one in range(number + 1))
        found = found + down(arrived * (each * self.unit))
        if lower != UNITS:
            left = every * again * prod_of([tiling.apart(below, one) for one in added])
            size = prod_of([tiling.inside[one] * tiling.within(below, one) for one in CHANGES[operand]])
            bits = self._bits(tiling, below, is_floor=is_floor)
            found = found + self._energy(self._name(lower), False, left, size, np.ones_like(size), bits)
            each = sum(self._returning(one) for one in range(number))
            found = found - up(left * (each * self.unit))
        return found

    def _bits(self, tiling: NestTiling, serves: frozenset[str], *, is_floor: bool) -> Whole:
        """Return the width of an arriving output: final width if no later iteration adds to it."""
        are_left = self._are_left(tiling, serves)
        if is_floor:
            are_left = np.zeros_like(are_left)
        return np.where(are_left, self.layer.partial_bits, self.layer.output_bits)

    def _are_left(self, tiling: NestTiling, serves: frozenset[str], *, goes_on: bool = False) -> NDArray[np.bool_]:
        added = [loop for loop in LOOPS if loop not in CHANGES[Operand.OUTPUT]]
        found = np.array([False])
        for loop in added:
            found = found | (tiling.apart(serves, loop) > 1)
            if not goes_on:
                found = found | (tiling.inside[loop] < tiling.turns[loop])
        return found

    def _returning(self, number: int) -> float:
        """Return the energy in fJ of a partial sum that crosses a boundary back, by its bits alone."""
        lower, upper = self._ends(Operand.OUTPUT, number)
        found = self._price(self._place(Operand.OUTPUT, upper), False, self.layer.partial_bits)
        return found + (0.0 if lower == UNITS else self._price(self._name(lower), True, self.layer.partial_bits))

    def _energy(
        self, place: str, is_write: bool, elements: Whole, size: Whole, alike: Whole, bits: Whole | int
    ) -> Whole:
        """Return the energy of moving `elements`, by whole words of moves of `size` if the tiles are `alike`."""
        access = self._access(place)
        shortest = access.shortest_access_bits or access.access_bits
        moments = elements // np.maximum(size, 1)
        whole = -(-size * bits // shortest) * shortest * moments
        moved = np.where(alike.astype(bool), whole, elements * bits)
        return down(moved * (self._price(place, is_write, 1) * self.unit))

    def _price(self, place: str, is_write: bool, bits: int) -> float:
        access = self._access(place)
        return (access.write_energy_pj if is_write else access.read_energy_pj) * FEMTO * bits / access.access_bits

    def _access(self, place: str) -> Access:
        found = {level.memory.name: level.access for level in self.problem.levels}
        found[DRAM] = self.problem.accelerator.dram.access if self.problem.accelerator.dram else None
        access = found[place]
        if access is None:
            raise AcceleratorError("it states no energy of an access", place=place, expected="its energies")
        return access

    @property
    def _places(self) -> list[str]:
        return [DRAM, *(level.memory.name for level in self.problem.levels)]

    def _place(self, operand: str, level: int) -> str:
        return self.problem.home(operand) if level == HOME else self._name(level)

    def _name(self, level: int) -> str:
        return self.problem.levels[level].memory.name


def prod_of(factors: list[Whole]) -> Whole:
    """Return the product of arrays, broadcast."""
    found = np.ones(1, np.int64)
    for factor in factors:
        found = found * factor
    return found


def down(energies: NDArray[np.floating]) -> Whole:
    """Return integers that are not above the true values."""
    return np.asarray(np.floor(energies * DOWN), np.int64)


def up(energies: NDArray[np.floating]) -> Whole:
    """Return integers that are not below the true values."""
    return np.asarray(np.ceil(energies * UP), np.int64)
