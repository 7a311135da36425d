"""What a layer costs at least, whatever its mapping: per multiply-accumulate, and per element that comes or leaves.

The units keep nothing, so each multiply-accumulate takes its operands from some memory, shared by at most the units
that one instance serves and that want the same element; and where that memory is not the operand's home, the element
moves between both. docs/fusion.md has the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.cost.layer import access_of
from onchip.cost.layer_limits import array_of
from onchip.ir.loopnest import RELEVANT, Layer
from onchip.plan.mapping import loops_along

_AXES: Final = (("P", "R"), ("Q", "S"))
_NO_WAY: Final = ((0.0, 1e100), (0.0, 1e100))
"""Dearer than anything; infinities cannot be subtracted."""


@dataclass(frozen=True, slots=True)
class OperandFloor:
    """Energies in pJ: of each multiply-accumulate, and on top of it of each element, by the memory of its home."""

    per_mac: float
    per_element: Mapping[str, float]

    @property
    def cheapest(self) -> str:
        """The home where an element costs least."""
        return min(self.per_element, key=lambda home: self.per_element[home])


Line: TypeAlias = tuple[float, float]
"""Energy in pJ of an element: of each use, and on top of it once."""


@dataclass(frozen=True, slots=True, eq=False)
class ReuseFloors:
    """Cases of who may be reused long near the units, a weight or a sum: one of them is so.

    `lines`: by case, home of the weights, way to the units, the two lines of which the higher one counts, and whether
    for each use or once. `more_per_output`: what an output costs more by case than by `output_floor`, wherever it goes.
    """

    lines: NDArray[np.float64]
    more_per_output: NDArray[np.float64]

    def weight_pj(self, uses: NDArray[np.float64]) -> NDArray[np.float64]:
        """By case, home and number of multiply-accumulates of a tile that need the weight."""
        lines = self.lines[..., None, :]
        found: NDArray[np.float64] = (lines[..., 0] * uses + lines[..., 1]).max(axis=3).min(axis=2)
        return found


@dataclass(slots=True)
class MachineFloors:
    """What follows from the machine alone; raises AcceleratorError without an array.

    Energies of a read and of a write are those of one bit, by memory.
    """

    accelerator: Accelerator
    array: ComputeArray = field(init=False)
    _read_pj: Mapping[str, float] = field(init=False)
    _write_pj: Mapping[str, float] = field(init=False)
    _same: Mapping[Operand, Mapping[str, tuple[str, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self.array = array_of(self.accelerator)
        names = [*(level.memory.name for level in self.accelerator.levels), DRAM]
        accesses = {name: access_of(self.accelerator, name) for name in names}
        self._read_pj = {name: one.read_energy_pj / one.access_bits for name, one in accesses.items()}
        self._write_pj = {name: one.write_energy_pj / one.access_bits for name, one in accesses.items()}
        self._same = {operand: self._loops_of_the_same(operand) for operand in Operand}

    @property
    def mac_energy_pj(self) -> float:
        """Of one multiply-accumulate."""
        return self.array.mac_energy_pj or 0.0

    def units(self, layer: Layer) -> int:
        """Along which the layer has anything to unroll."""
        bounds = layer.bounds
        per_dimension = (
            min(size, prod(bounds[loop] for loop in loops_along(self.array, name)))
            for name, size in self.array.sizes.items()
        )
        return prod(per_dimension)

    def floor(self, layer: Layer, operand: Operand, uses: int) -> OperandFloor:
        """Of inputs or weights, each element of which at least `uses` multiply-accumulates need."""
        bits = layer.bits(operand)
        shared = {name: bits * self._read_pj[name] / units for name, units in self._sharing(layer, operand).items()}
        nearest = min(shared.values())
        at_home = {}
        for home in self.homes(operand):
            ways = []
            for name, per_mac in shared.items():
                moved = 0.0 if name == home else bits * (self._read_pj[home] + self._write_pj[name])
                ways.append(uses * (per_mac - nearest) + moved)
                if name == home:
                    break
            at_home[home] = min(ways)
        return OperandFloor(nearest, at_home)

    def read_pj(self, layer: Layer, operand: Operand, memory: str) -> float:
        """Of one element there."""
        return layer.bits(operand) * self._read_pj[memory]

    def output_floor(self, layer: Layer, nearest: str | None = None, turns: float = inf) -> Mapping[str, float]:
        """Of each output, with all that is added up to it, by the memory of its home.

        Sums are written, and but for the first of each instance read, near the units, and then written at home. Of
        `turns` additions in the same unit the last takes the sum to the next memory. `nearest` to the units, if it is
        given, no sum is nearer; a home that is nearer costs infinitely much.
        """
        near = list(self._near(Operand.OUTPUT))
        sharing = self._sharing(layer, Operand.OUTPUT)
        summing = {name: self._summing_pj(layer, name, level, sharing[name]) for name, level in near}
        leaving = {name: self._summing_pj(layer, name, level, sharing[name], turns) for name, level in near}
        at_home = {}
        for home in self.homes(Operand.OUTPUT):
            own_pj, ways = layer.output_bits * self._write_pj[home], [inf]
            reach = [name for name, _ in near][: [name for name, _ in near].index(home) + 1]
            for at, name in enumerate(reach):
                if nearest in (None, name):
                    passing = [
                        max(leaving[above], own_pj)
                        if above == home
                        else max(leaving[above], layer.output_bits * self._write_pj[above]) + own_pj
                        for above in reach[at + 1 :]
                    ]
                    ways.append(summing[name] + min(passing, default=0.0))
            at_home[home] = min(ways)
        return at_home

    def _summing_pj(
        self, layer: Layer, name: str, level: MemoryLevel | None, sharing: int, turns: float = 1.0
    ) -> float:
        """Where so many additions at a time have been made before; nothing if that is all of them."""
        additions, reductions = layer.c * layer.r * layer.s, frozenset("CRS")
        writes = additions / sharing / turns
        if writes <= 1 < turns:
            return 0.0
        apart = 1
        for dimension, size in self.array.sizes.items():
            if level is not None and not _serves(level, dimension):
                loops = [loop for loop in loops_along(self.array, dimension) if loop in reductions]
                apart *= min(size, prod(layer.bounds[loop] for loop in loops))
        bits = layer.partial_bits if writes > 1 else layer.output_bits
        return bits * (writes * self._write_pj[name] + max(writes - apart, 0.0) * self._read_pj[name])

    def reuse_floors(self, layer: Layer) -> ReuseFloors:
        """Either a weight stays for no more uses than sums have room near the units, or a sum for no more than weights.

        For each memory that may be the nearest there is a case (docs/fusion.md).
        """
        base, more, lines = self.output_floor(layer), [], []
        partial = layer.c * layer.r * layer.s > self._sharing(layer, Operand.OUTPUT)[DRAM]
        sum_bits = layer.partial_bits if partial else layer.output_bits
        for name, level in self._near(Operand.OUTPUT):
            more.append(_least_more(base, self.output_floor(layer, name)))
            lines.append(self._weight_lines(layer, None, _room(level, sum_bits)))
        for name, level in self._near(Operand.WEIGHT):
            more.append(_least_more(base, self.output_floor(layer, None, _room(level, layer.weight_bits))))
            lines.append(self._weight_lines(layer, name, inf))
        most = max(len(ways) for homes in lines for ways in homes)
        padded = [[[*ways, *[_NO_WAY] * (most - len(ways))] for ways in homes] for homes in lines]
        return ReuseFloors(np.array(padded), np.array(more))

    def _weight_lines(self, layer: Layer, nearest: str | None, turns: float) -> list[list[tuple[Line, Line]]]:
        """By home. A weight serves at most `turns` multiply-accumulates of a unit before it is fetched again."""
        bits, near = layer.weight_bits, [name for name, _ in self._near(Operand.WEIGHT)]
        sharing = self._sharing(layer, Operand.WEIGHT)
        found = []
        for home in self.homes(Operand.WEIGHT):
            ways, read_pj = list[tuple[Line, Line]](), self._read_pj[home]
            reach = near[: near.index(home) + 1]
            for at, name in enumerate(reach):
                if nearest not in (None, name):
                    continue
                per_use, write_pj = self._read_pj[name] / sharing[name], self._write_pj[name]
                if name == home:
                    ways.append(((bits * per_use, 0.0), (0.0, bits * read_pj)))
                for above in reach[at + 1 :]:
                    fetched = per_use + (write_pj / sharing[name] + self._read_pj[above] / sharing[above]) / turns
                    once = 0.0 if above == home else read_pj + self._write_pj[above]
                    ways.append(((bits * fetched, bits * once), (bits * per_use, bits * (read_pj + write_pj))))
            found.append(ways or [_NO_WAY])
        return found

    def _near(self, operand: Operand) -> Iterator[tuple[str, MemoryLevel | None]]:
        """From where units may take the operand, nearest first; DRAM is no level."""
        for level in self.accelerator.levels:
            if operand in level.memory.holds:
                yield level.memory.name, level
        yield DRAM, None

    def homes(self, operand: Operand) -> list[str]:
        """Single memories that hold the operand, and DRAM."""
        dimensions = set(self.array.dimensions)
        single = [
            level.memory.name
            for level in self.accelerator.levels
            if operand in level.memory.holds and (level.serves is None or dimensions <= set(level.serves))
        ]
        return [*single, DRAM]

    def _sharing(self, layer: Layer, operand: Operand) -> Mapping[str, int]:
        """How many units one instance of each memory serves at most with one element in a cycle."""
        bounds, same = layer.bounds, self._same[operand]
        units = {name: min(size, prod(bounds[loop] for loop in same[name])) for name, size in self.array.sizes.items()}
        return {
            name: prod(count for along, count in units.items() if level is None or _serves(level, along))
            for name, level in self._near(operand)
        }

    def _loops_of_the_same(self, operand: Operand) -> Mapping[str, tuple[str, ...]]:
        """By dimension, along which units want the same element.

        Of the input also where windows overlap, both loops unrolled.
        """
        array = self.array
        unrolled = {loop for name in array.sizes for loop in loops_along(array, name)}
        same = {loop for loop in unrolled if loop not in RELEVANT[operand]}
        if operand is Operand.INPUT:
            same |= {loop for axis in _AXES if set(axis) <= unrolled for loop in axis}
        return {name: tuple(loop for loop in loops_along(array, name) if loop in same) for name in array.sizes}


def _serves(level: MemoryLevel, along: str) -> bool:
    return level.serves is None or along in level.serves


def _room(level: MemoryLevel | None, bits: int) -> float:
    """Elements that an instance has room for."""
    return inf if level is None else max(level.memory.capacity_bytes * 8 // bits, 1)


def _least_more(base: Mapping[str, float], other: Mapping[str, float]) -> float:
    return min(max(other[home] - base[home], 0.0) for home in base)
