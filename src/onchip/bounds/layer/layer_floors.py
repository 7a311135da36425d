"""Lower bounds on a layer's energy for any mapping: per MAC, and per element that is loaded or stored.

The units store nothing, so each MAC reads its operands from some memory. At most the units that one instance serves and
that use the same element share such a read. If this memory is not the operand's home, the element moves between the
two, through all memories between them if the mapping bypasses no memory. docs/fusion.md has the proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import inf, prod
from typing import TypeAlias

from onchip.answer.layer_mapping import loops_along
from onchip.answer.layer_problem import operands_kept
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.bounds.layer.unit_shares import AnyUnrolling, UnitShares, holders, serves
from onchip.ir.layer import Layer
from onchip.model.layer.cost import access_of
from onchip.model.layer.limits import array_of
from onchip.model.layer.tiles import EPSILON

PassedBy: TypeAlias = frozenset[tuple[str, Operand]]
"""Memories, each with an operand that bypasses it."""


@dataclass(frozen=True, slots=True)
class OperandFloor:
    """Energies in pJ of an operand: per MAC, and additionally per element by its home."""

    per_mac: float
    per_element: Mapping[str, float]

    @property
    def cheapest(self) -> str:
        """The home with the least energy per element."""
        return min(self.per_element, key=lambda home: self.per_element[home])


@dataclass(slots=True)
class MachineFloors:
    """The terms of the floors that depend only on the machine. Raises AcceleratorError without an array.

    `read_pj` and `write_pj` are the energies per bit, by memory. An operand bypasses the memories in `passed_by`,
    because they have no room for one element.
    """

    accelerator: Accelerator
    sharing: AnyUnrolling
    passed_by: PassedBy = frozenset()
    array: ComputeArray = field(init=False)
    read_pj: Mapping[str, float] = field(init=False)
    write_pj: Mapping[str, float] = field(init=False)
    _ways: dict[tuple[Operand, str], Sequence[tuple[str, ...]]] = field(init=False)
    _beside_sums: Mapping[str, tuple[tuple[int, tuple[str, ...]], ...]] = field(init=False)
    _with_others_passed_by: dict[PassedBy, MachineFloors] = field(init=False)

    def __post_init__(self) -> None:
        self._with_others_passed_by = {self.passed_by: self}
        self.array = array_of(self.accelerator)
        names = [*(level.memory.name for level in self.accelerator.levels), DRAM]
        accesses = {name: access_of(self.accelerator, name) for name in names}
        self.read_pj = {name: one.read_energy_pj / one.access_bits for name, one in accesses.items()}
        self.write_pj = {name: one.write_energy_pj / one.access_bits for name, one in accesses.items()}
        self._ways = {
            (operand, home): self._ways_of(operand, home) for operand in Operand for home in self.homes(operand)
        }
        self._beside_sums = {
            name: tuple(
                (size, tuple(loop for loop in loops_along(self.array, along) if loop in "CRS"))
                for along, size in self.array.sizes.items()
                if level is not None and not serves(level, along)
            )
            for name, level in holders(self.accelerator, Operand.OUTPUT)
        }

    @property
    def mac_energy_pj(self) -> float:
        """Return the energy of one MAC in pJ, or 0 (a lower bound) if it is unknown."""
        return self.array.mac_energy_pj or 0.0

    def of(self, layer: Layer) -> NestFloors:
        """Return the floors of a layer, which hold for its tiles as well."""
        machine = self._for_elements_of(layer) if self.sharing.every_memory_keeps else self
        return NestFloors(machine, layer, self.sharing.of(layer))

    def homes(self, operand: Operand) -> list[str]:
        """Return the memories with a single instance that hold the operand, and DRAM."""
        dimensions = set(self.array.dimensions)
        single = [
            level.memory.name
            for level in self.accelerator.levels
            if operand in level.memory.holds and (level.serves is None or dimensions <= set(level.serves))
        ]
        return [*single, DRAM]

    def way_pj(self, ways: Sequence[str]) -> float:
        """Return the energy in pJ of a bit that moves down through these memories, which are ordered lowest first."""
        return sum(self.read_pj[upper] + self.write_pj[lower] for lower, upper in pairwise(ways))

    def way_up_pj(self, ways: Sequence[str]) -> float:
        """Return the energy in pJ of a bit that goes up through these memories, the lowest first."""
        return sum(self.read_pj[lower] + self.write_pj[upper] for lower, upper in pairwise(ways))

    def ways(self, operand: Operand, home: str) -> Sequence[tuple[str, ...]]:
        """Return the possible ways of an operand between the units and its home, as memories from the units up."""
        return self._ways[operand, home]

    def nearest(self, operand: Operand) -> Sequence[tuple[str, MemoryLevel | None]]:
        """Return the memories from which the units may read the operand."""
        first = {way[0] for home in self.homes(operand) for way in self.ways(operand, home)}
        return [(name, level) for name, level in holders(self.accelerator, operand) if name in first]

    def instances_beside(self, bounds: Mapping[str, int], memory: str) -> int:
        """Return the number of instances of a memory in which one sum may begin."""
        return prod(min(size, prod(bounds[loop] for loop in loops)) for size, loops in self._beside_sums[memory])

    def _for_elements_of(self, layer: Layer) -> MachineFloors:
        levels = self.accelerator.levels
        passed_by = frozenset(
            (level.memory.name, operand)
            for level, kept in zip(levels, operands_kept(levels, layer), strict=True)
            for operand in set(level.memory.holds) - kept
        )
        if passed_by not in self._with_others_passed_by:
            self._with_others_passed_by[passed_by] = MachineFloors(self.accelerator, self.sharing, passed_by)
        return self._with_others_passed_by[passed_by]

    def _ways_of(self, operand: Operand, home: str) -> Sequence[tuple[str, ...]]:
        names = [name for name, _ in holders(self.accelerator, operand)]
        below = names[: names.index(home)]
        if not self.sharing.every_memory_keeps:
            return [(home,), *((name, home) for name in below), *((*pair, home) for pair in combinations(below, 2))]
        return [(*(name for name in below if (name, operand) not in self.passed_by), home)]


@dataclass(frozen=True, slots=True)
class NestFloors:
    """Floors of a layer, and of its tiles."""

    machine: MachineFloors
    layer: Layer
    shares: UnitShares

    def floor(self, operand: Operand, uses: int) -> OperandFloor:
        """Return the floor of inputs or weights, given that at least `uses` MACs need each element."""
        bits, machine = self.layer.bits(operand), self.machine
        serving = self.shares.serving[operand]
        shared = {name: bits * machine.read_pj[name] / units for name, units in serving.items()}
        ways = {home: machine.ways(operand, home) for home in machine.homes(operand)}
        nearest = min(shared[way[0]] for some in ways.values() for way in some)
        at_home = {
            home: min(uses * (shared[way[0]] - nearest) + bits * machine.way_pj(way) for way in some)
            for home, some in ways.items()
        }
        return OperandFloor(nearest, at_home)

    def output_floor(self) -> Mapping[str, float]:
        """Return the least energy in pJ of an output by home: accumulation near the units, and the way home.

        Each addition writes a sum near the units, and reads it except for the first one in an instance.
        """
        bits, machine = self.layer.output_bits, self.machine
        at_home = {}
        for home in machine.homes(Operand.OUTPUT):
            costs = [inf]
            for near, *above in machine.ways(Operand.OUTPUT, home):
                leaving_pj = bits * machine.way_up_pj((near, above[0])) if above else 0.0
                costs.append(self._summing_pj(near) + leaving_pj + bits * machine.way_up_pj(above))
            at_home[home] = min(costs)
        return at_home

    def _summing_pj(self, memory: str) -> float:
        """Return the energy in pJ of an output's accumulation in the memory nearest the units."""
        layer, machine = self.layer, self.machine
        additions, serving = layer.c * layer.r * layer.s, self.shares.serving[Operand.OUTPUT][memory]
        writes = additions / serving
        if additions <= serving * (1 + EPSILON):
            return layer.output_bits * writes * machine.write_pj[memory]
        again = max(writes - machine.instances_beside(layer.bounds, memory), 0.0)
        return layer.partial_bits * (writes * machine.write_pj[memory] + again * machine.read_pj[memory])
