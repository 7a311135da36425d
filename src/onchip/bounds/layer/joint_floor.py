"""Lower bound on the on-chip energy of a loop nest over all operands together, whatever its mapping and its tiles.

The floors of `layer_floors` bound each operand alone: the same units may share inputs along K there and add up sums
along C. Here one spatial unrolling serves all operands. docs/schedule.md, section 8, has the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from onchip.arch.memory import MemoryLevel, Operand
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import holders, serves
from onchip.bounds.layer.unrolled_units import Array, UnrolledUnits
from onchip.ir.layer import Layer
from onchip.model.layer.cost import access_of


@dataclass(frozen=True, slots=True)
class NearMemory:
    """The memory that supplies an operand to all units, or accumulates it, for any home of the operand."""

    name: str
    level: MemoryLevel
    above: frozenset[str]
    """The next memories on the operand's ways."""
    may_be_home: bool

    def serves(self, along: str) -> bool:
        """Return True if one instance serves all units along a dimension of the array."""
        return serves(self.level, along)


def near_memory(machine: MachineFloors, operand: Operand) -> NearMemory | None:
    """Return the nearest memory of an operand, or None if it depends on the home or is DRAM."""
    ways = {way for home in machine.homes(operand) for way in machine.ways(operand, home)}
    names = {way[0] for way in ways}
    levels = dict(holders(machine.accelerator, operand))
    if len(names) > 1 or (level := levels[name := names.pop()]) is None:
        return None
    return NearMemory(name, level, frozenset(way[1] for way in ways if len(way) > 1), (name,) in ways)


@dataclass(frozen=True, slots=True)
class JointWays:
    """Least energies in pJ of one element between its nearest memory and its source or destination.

    `filled` is for inputs and weights; `refilled` excludes the step into the nearest memory. `output_above` is the way
    of an output after the nearest memory. `output_here` is that of an output whose home is the nearest memory (inf if
    there is no such output).
    """

    filled: Mapping[Operand, float]
    refilled: Mapping[Operand, float]
    output_above: float
    output_here: float


@dataclass(slots=True)
class JointFloor:
    """The floor of one loop nest in tiles of any rows, columns and output channels, for mappings without bypass."""

    machine: MachineFloors
    layer: Layer
    near: Mapping[Operand, NearMemory]
    units: UnrolledUnits

    @classmethod
    def of(cls, machine: MachineFloors, layer: Layer) -> JointFloor | None:
        """Return the floor, or None if an operand has no known nearest memory, or unrollings are too many."""
        near: dict[Operand, NearMemory] = {}
        for operand in map(Operand, layer.operands):
            memory = near_memory(machine, operand)
            if memory is None:
                return None
            near[operand] = memory
        units = UnrolledUnits.of(machine.array, layer, [one.serves for one in near.values()])
        return None if units is None else cls(machine, layer, near, units)

    def least_pj(self, windows: Sequence[tuple[int, int]], elements: Mapping[Operand, int], ways: JointWays) -> float:
        """Return the floor in pJ. `windows` are pairs of a number of taps that meet an input, and the count of outputs.

        Each element enters its nearest memory once, or as often as the reuse in this memory requires.
        """
        found = 0.0
        for refilled in self._refilled():
            of_outputs = self._of_outputs(refilled, ways)
            counted = sum(count * float(of_outputs(taps).min()) for taps, count in windows)
            for operand, count in elements.items():
                counted += count * (ways.refilled if operand in refilled else ways.filled)[operand]
            found = max(found, counted)
        return found

    def _refilled(self) -> Iterator[frozenset[Operand]]:
        """Yield the sets of operands whose refills of the nearest memory are counted by reuse."""
        small = [one for one in (Operand.INPUT, Operand.WEIGHT) if one in self.near and self._may_refill(one)]
        for chosen in product((False, True), repeat=len(small)):
            yield frozenset(one for one, is_chosen in zip(small, chosen, strict=True) if is_chosen)

    def _may_refill(self, operand: Operand) -> bool:
        near = self.near[operand]
        return bool(near.above) and not near.may_be_home and self._room(operand) < self._additions

    @property
    def _additions(self) -> int:
        return self.layer.c * self.layer.r * self.layer.s

    def _of_outputs(self, refilled: frozenset[Operand], ways: JointWays) -> Callable[[int], Array]:
        """Return the function from taps that meet an input to the energy of one output by unrolling."""
        fed_pj = self._additions * self._read_pj(Operand.WEIGHT) if Operand.WEIGHT in self.near else np.zeros(1)
        each_pj = self.layer.c * self._read_pj(Operand.INPUT)
        sums_pj = self._sums_pj(ways)

        def energy_pj(taps: int) -> Array:
            refill_pj = self._refill_pj(taps, refilled) if refilled else np.zeros(1)
            return np.asarray(fed_pj + taps * each_pj + sums_pj + refill_pj)

        return energy_pj

    def _read_pj(self, operand: Operand) -> Array:
        """Return the read energy in pJ of a MAC at the nearest memory. Each access has at least the shortest width."""
        near = self.near[operand]
        bits = self.layer.bits(operand) / self.units.sharing(operand, near.serves)
        rounded = np.maximum(bits, self._shortest(near.name) / self.units.at_work(near.serves))
        return np.asarray(self.machine.read_pj[near.name] * rounded)

    def _sums_pj(self, ways: JointWays) -> Array:
        """Return the energy in pJ of one output's sums: all writes, as many reads, and the way to its home.

        An output whose home is the nearest memory has one read less.
        """
        near = self.near[Operand.OUTPUT]
        adding = self.units.sharing(Operand.OUTPUT, near.serves)
        bits = np.where(adding >= self._additions, self.layer.output_bits, self.layer.partial_bits)
        writes = np.ceil(self._additions / adding)
        rounded = self._shortest(near.name) * self._additions / self.units.at_work(near.serves)
        written_pj = self.machine.write_pj[near.name] * np.maximum(writes * bits, rounded)
        read_pj = self.machine.read_pj[near.name] * bits
        leaving = read_pj * writes + ways.output_above
        return np.asarray(written_pj + np.minimum(leaving, read_pj * (writes - 1) + ways.output_here))

    def _refill_pj(self, taps: int, refilled: frozenset[Operand]) -> Array:
        """Return the least energy in pJ of refills for one output, or of partial sums that leave to avoid refills.

        Each input or weight in an instance with room for s of them serves a unit for at most o + l MACs. Here o is the
        room for sums, and l is the number of sums that begin or come back meanwhile.
        """
        near = self.near[Operand.OUTPUT]
        room, at_work = max(self._room(Operand.OUTPUT), 1), self.units.at_work(near.serves)
        begun = self.units.adding_beside(near.serves)
        macs = {Operand.INPUT: taps * self.layer.c, Operand.WEIGHT: self._additions}

        def cost(sums: Array) -> Array:
            paid = self._leaving_pj() * (sums / begun - 1)
            for one in refilled:
                using = self.units.using(one, self.near[one].serves)
                served = np.maximum(macs[one] - self._room(one) * at_work * sums, 0)
                paid = paid + served / (room * using) * self._step_pj(one)
            return np.asarray(paid)

        enough = [np.maximum(macs[one] / (self._room(one) * at_work), begun) for one in refilled]
        return np.asarray(np.minimum.reduce([cost(sums) for sums in (begun, *enough)]))

    def _leaving_pj(self) -> float:
        """Return the energy in pJ of a partial sum's write to the next memory and read from it, or 0 without one."""
        each = [self.machine.write_pj[one] + self.machine.read_pj[one] for one in self.near[Operand.OUTPUT].above]
        return self.layer.partial_bits * min(each, default=0.0)

    def _step_pj(self, operand: Operand) -> Array:
        """Return the energy in pJ of an element's step into the nearest memory, with one read for several instances."""
        near, levels = self.near[operand], dict(holders(self.machine.accelerator, operand))

        def read_pj(name: str) -> Array:
            level = levels[name]
            served = self.units.using(
                operand, lambda along: not near.serves(along) and (level is None or serves(level, along))
            )
            return np.asarray(self.machine.read_pj[name] / served)

        least_pj = np.minimum.reduce([read_pj(name) for name in near.above])
        return np.asarray(self.layer.bits(operand) * (self.machine.write_pj[near.name] + least_pj))

    def _room(self, operand: Operand) -> int:
        """Return the number of elements, or partial sums, that fit in one instance of the nearest memory."""
        bits = self.layer.partial_bits if operand is Operand.OUTPUT else self.layer.bits(operand)
        return 8 * self.near[operand].level.memory.capacity_bytes // bits

    def _shortest(self, memory: str) -> int:
        access = access_of(self.machine.accelerator, memory)
        return access.shortest_access_bits or access.access_bits
