"""What every boundary between two memories costs, restated from docs/layer_cost.md for the second prover.

Energies are whole numbers of a unit of 2^-k fJ, each rounded down, so that a sum of them is never above the true one;
what is taken off is rounded up. The words of a transfer are counted with the part of an access that each moment needs
where all tiles are alike, else without: again never too many. Sums that come back are counted by their bits alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM, Access, Operand
from onchip.audits.mapping_tiles import CHANGES, RowCounter, Sizes, Whole
from onchip.errors import AcceleratorError
from onchip.ir.layer import LOOPS, Layer

NEVER = 1 << 59
"""The energy of what does not fit; sums of energies stay below it."""
FEMTO = 1000.0
DOWN, UP = 1 - 2.0**-49, 1 + 2.0**-49
"""More than what four roundings of real numbers can be off."""
UNITS, HOME = -1, -2
"""Where a level's number would stand: the array's units, the place where an operand lies whole."""


@dataclass(frozen=True, slots=True)
class NestTiling:
    """Many tiles at once: loops in time inside each, all loops in time, and those beside each other, by dimension."""

    inside: Sizes
    turns: Sizes
    beside: dict[tuple[str, str], Whole]

    def within(self, serves: frozenset[str], loop: str) -> Whole:
        """Return how many iterations run beside each other below one instance that serves these dimensions."""
        return self._product([size for (dim, own), size in self.beside.items() if own == loop and dim in serves])

    def apart(self, serves: frozenset[str], loop: str) -> Whole:
        """Return over how many instances that serve these dimensions the loop runs."""
        return self._product([size for (dim, own), size in self.beside.items() if own == loop and dim not in serves])

    def _product(self, sizes: list[Whole]) -> Whole:
        found = np.ones(1, np.int64)
        for size in sizes:
            found = found * size
        return found


@dataclass(frozen=True)
class Terms:
    """Of one layer's problem; `unit` parts make a femtojoule."""

    problem: LayerProblem

    @property
    def layer(self) -> Layer:
        """The layer, with its bounds as they are executed."""
        return self.problem.layer

    @cached_property
    def unit(self) -> int:
        """As fine as the greatest sum that there may be leaves room for."""
        greatest = max(1.0, self.layer.macs * 3 * 64 * 8 * max(self._price(level, True, 1) for level in self._places))
        unit = 1 << 12
        while unit > 1 and greatest * unit > NEVER:
            unit >>= 1
        return unit

    @cached_property
    def chains(self) -> dict[str, tuple[int, ...]]:
        """The levels that keep each operand, nearest the units first."""
        levels = list(self.problem.levels)
        return {
            operand: tuple(levels.index(level) for level in self.problem.keepers(operand))
            for operand in self.layer.operands
        }

    @cached_property
    def counters(self) -> tuple[RowCounter, RowCounter]:
        """Return what counts the rows, and what counts the columns, of the input."""
        height, width = self.layer.axes
        return RowCounter(height, self.layer.p, self.layer.r), RowCounter(width, self.layer.q, self.layer.s)

    @property
    def mac_energy(self) -> int:
        """Return the energy of all multiply-accumulates, in parts of a femtojoule (`unit`), rounded down."""
        array = self.problem.accelerator.array
        each_pj = (array.mac_energy_pj or 0.0) if array is not None else 0.0
        return int(self.layer.macs * each_pj * FEMTO * self.unit * DOWN)

    def boundary(self, operand: str, number: int, tiling: NestTiling, *, is_floor: bool = False) -> Whole:
        """Return what the operand's boundary of that number costs with each tile below it; 0 is that at the units.

        A floor leaves aside that sums on their way are wider than finished ones, and takes each row of the input that
        is needed once.
        """
        if operand == Operand.OUTPUT:
            return self._of_sums(number, tiling, is_floor=is_floor)
        return self._of_reads(operand, number, tiling, is_floor=is_floor)

    def constant(self) -> int:
        """What is taken off for outputs that begin: they have nothing to come back."""
        if Operand.OUTPUT not in self.layer.operands:
            return 0
        each = sum(self._returning(number) for number in range(len(self.chains[Operand.OUTPUT]) + 1))
        return -int(self.layer.elements(Operand.OUTPUT) * each * self.unit * UP) - 1

    def room(self, level: int, operand: str, tiling: NestTiling, *, goes_on: bool) -> Whole:
        """Return the bits that tiles take at least in one instance of a level.

        Where an operand's tile goes on to be used by the loops right above, its sums may be complete after them.
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
        """Return the bits of operands that lie whole in a level."""
        name = self.problem.levels[level].memory.name
        return sum(
            self.layer.elements(one) * self.layer.bits(one)
            for one in self.layer.operands
            if self.problem.home(one) == name
        )

    def usable_bits(self, level: int) -> int:
        """Return the bits that tiles and operands that lie whole in a level may take together."""
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
        """The levels below and above a boundary."""
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
        """Elements over all places of a tile, those of one, and whether all are alike."""
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
        """Of an output where it arrives: narrow if nothing is added to it after these tiles."""
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
        """Femtojoules of an element of a sum that comes back over a boundary, by its bits alone."""
        lower, upper = self._ends(Operand.OUTPUT, number)
        found = self._price(self._place(Operand.OUTPUT, upper), False, self.layer.partial_bits)
        return found + (0.0 if lower == UNITS else self._price(self._name(lower), True, self.layer.partial_bits))

    def _energy(
        self, place: str, is_write: bool, elements: Whole, size: Whole, alike: Whole, bits: Whole | int
    ) -> Whole:
        """Of all moves: so many elements, `size` at a moment where they are `alike`."""
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
            raise AcceleratorError("nothing says what an access costs", place=place, expected="its energies")
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
    """Return whole numbers that are not above the true ones."""
    return np.asarray(np.floor(energies * DOWN), np.int64)


def up(energies: NDArray[np.floating]) -> Whole:
    """Return whole numbers that are not below the true ones."""
    return np.asarray(np.ceil(energies * UP), np.int64)
