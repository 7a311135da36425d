"""What a layer costs at least, whatever its mapping: per multiply-accumulate, and per element that comes or leaves.

The units keep nothing, so each multiply-accumulate takes its operands from some memory, shared by at most the units
that one instance serves and that want the same element; and where that memory is not the operand's home, the element
moves between both. docs/fusion.md has the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.cost.layer import access_of
from onchip.cost.layer_limits import array_of
from onchip.ir.loopnest import RELEVANT, Layer
from onchip.plan.mapping import loops_along

_AXES: Final = (("P", "R"), ("Q", "S"))


@dataclass(frozen=True, slots=True)
class OperandFloor:
    """Energies in pJ: of each multiply-accumulate, and on top of it of each element, by the memory of its home."""

    per_mac: float
    per_element: Mapping[str, float]

    @property
    def cheapest(self) -> str:
        """The home where an element costs least."""
        return min(self.per_element, key=lambda home: self.per_element[home])


@dataclass(frozen=True, slots=True)
class MachineFloors:
    """What follows from the machine alone."""

    accelerator: Accelerator

    @property
    def array(self) -> ComputeArray:
        """Raises AcceleratorError without one."""
        return array_of(self.accelerator)

    @property
    def mac_energy_pj(self) -> float:
        """Of one multiply-accumulate."""
        return self.array.mac_energy_pj or 0.0

    def units(self, layer: Layer) -> int:
        """How many multiply-accumulates of the layer can be done in a cycle at most."""
        bounds = layer.bounds
        per_dimension = (
            min(size, prod(bounds[loop] for loop in loops_along(self.array, name)))
            for name, size in self.array.sizes.items()
        )
        return min(prod(per_dimension), layer.macs)

    def floor(self, layer: Layer, operand: Operand, uses: int) -> OperandFloor:
        """Of inputs or weights, each element of which at least `uses` multiply-accumulates need."""
        bits = layer.bits(operand)
        shared = {
            name: bits * self._read_pj(name) / self._sharing(layer, operand, level)
            for name, level in self._near(operand)
        }
        nearest = min(shared.values())
        at_home = {}
        for home in self.homes(operand):
            ways = []
            for name, per_mac in shared.items():
                moved = 0.0 if name == home else bits * (self._read_pj(home) + self._write_pj(name))
                ways.append(uses * (per_mac - nearest) + moved)
                if name == home:
                    break
            at_home[home] = min(ways)
        return OperandFloor(nearest, at_home)

    def read_pj(self, layer: Layer, operand: Operand, memory: str) -> float:
        """Of one element there."""
        return layer.bits(operand) * self._read_pj(memory)

    def output_floor(self, layer: Layer) -> Mapping[str, float]:
        """Of each output, with all that is added up to it, by the memory of its home.

        Sums are written, and but for the first of each instance read, near the units, and then written at home.
        """
        near = {name: self._summing_pj(layer, name, level) for name, level in self._near(Operand.OUTPUT)}
        at_home = {}
        for home in self.homes(Operand.OUTPUT):
            ways = []
            for name, summing in near.items():
                ways.append(summing + (0.0 if name == home else layer.output_bits * self._write_pj(home)))
                if name == home:
                    break
            at_home[home] = min(ways)
        return at_home

    def _summing_pj(self, layer: Layer, name: str, level: MemoryLevel | None) -> float:
        additions, reductions = layer.c * layer.r * layer.s, frozenset("CRS")
        writes = additions / self._sharing(layer, Operand.OUTPUT, level)
        apart = 1
        for dimension, size in self.array.sizes.items():
            if level is not None and level.serves is not None and dimension not in level.serves:
                loops = [loop for loop in loops_along(self.array, dimension) if loop in reductions]
                apart *= min(size, prod(layer.bounds[loop] for loop in loops))
        bits = layer.partial_bits if writes > 1 else layer.output_bits
        return bits * (writes * self._write_pj(name) + max(writes - apart, 0.0) * self._read_pj(name))

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

    def _read_pj(self, memory: str) -> float:
        """Of one bit."""
        access = access_of(self.accelerator, memory)
        return access.read_energy_pj / access.access_bits

    def _write_pj(self, memory: str) -> float:
        """Of one bit."""
        access = access_of(self.accelerator, memory)
        return access.write_energy_pj / access.access_bits

    def _sharing(self, layer: Layer, operand: Operand, level: MemoryLevel | None) -> int:
        """How many units one instance serves at most with one element in a cycle."""
        same = self._loops_of_the_same(operand)
        bounds = layer.bounds
        sharing = 1
        for name, size in self.array.sizes.items():
            if level is None or level.serves is None or name in level.serves:
                sharing *= min(size, prod(bounds[loop] for loop in loops_along(self.array, name) if loop in same))
        return sharing

    def _loops_of_the_same(self, operand: Operand) -> frozenset[str]:
        """Along which units want the same element: of the input also where windows overlap, both loops unrolled."""
        array = self.array
        unrolled = {loop for name in array.sizes for loop in loops_along(array, name)}
        same = {loop for loop in unrolled if loop not in RELEVANT[operand]}
        if operand is Operand.INPUT:
            same |= {loop for axis in _AXES if set(axis) <= unrolled for loop in axis}
        return frozenset(same)
