"""Lower bounds on the energy of a loop nest, for its operands alone and jointly.

The floors of `layer_floors` bound each operand alone: the same units may share inputs along K there and add up sums
along C. Here one spatial unrolling serves all operands. docs/schedule.md, section 8, has the proof.

Energies are in pJ. The floors per MAC and per element hold for every home and every tiling. They hold for every
mapping, or for those without bypass if `every_memory_keeps` (docs/schedule.md, section 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from typing import Final

import numpy as np

from onchip.answer.layer_problem import seen_by_two_maps
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.bounds.layer.layer_floors import MachineFloors, NestFloors
from onchip.bounds.layer.nest_work import NestWork
from onchip.bounds.layer.unit_shares import AnyUnrolling, Array, UnrolledUnits, holders, serves
from onchip.ir.graph import Graph
from onchip.ir.layer import WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.model.layer.cost import access_of
from onchip.model.program.compute_cost import may_hold


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

        Each element enters its nearest memory once, or several times if the reuse in this memory requires it.
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
        writes = self.units.additions(near.serves)
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


FROM_OUTSIDE: Final = (Role.INPUT, Role.PARAMETER)
"""Roles of tensors that only DRAM has before their first read."""


@dataclass(frozen=True, slots=True)
class FloorOfNest:
    """Lower bounds on a nest's energy in pJ by cause, without the first DRAM read of each input and parameter element.

    Each operand's floor holds alone. `unrolling_pj` is the additional energy of all operands under one common spatial
    unrolling. `units` is the maximum number of units at work at once.
    """

    mac_pj: float
    input_pj: float
    weight_pj: float
    output_pj: float
    units: int
    unrolling_pj: float = 0.0

    @property
    def energy_pj(self) -> float:
        """Return the energy of all causes in pJ."""
        return self.mac_pj + self.input_pj + self.weight_pj + self.output_pj + self.unrolling_pj


@dataclass(slots=True)
class FeedingFloors:
    """The floors of one machine. Raises AcceleratorError without an array or without access energies."""

    accelerator: Accelerator
    every_memory_keeps: bool = False
    _machine: MachineFloors = field(init=False)
    _of_two_maps: dict[bool, MachineFloors] = field(default_factory=dict)
    """The machine as seen by layers that read two maps. The key is True for element-wise layers."""

    def __post_init__(self) -> None:
        self._machine = _floors(self.accelerator, self.every_memory_keeps)

    def of(self, layer: Layer, work: NestWork, origins: NestOrigins) -> FloorOfNest:
        """Return the floor of the part `work` of a nest."""
        machine = self._machine_of(layer, origins.weight_is_an_input)
        floors = machine.of(layer)
        alone_pj = (
            _input_pj(floors, work, origins),
            _weight_pj(floors, work, origins) if layer.has_weight else 0.0,
            work.outputs * _output_pj(floors, leaves=origins.output_leaves),
        )
        together_pj = _together_pj(floors, work, origins) if machine.sharing.every_memory_keeps else 0.0
        mac_pj, units = work.macs * machine.mac_energy_pj, round(floors.shares.at_work)
        return FloorOfNest(mac_pj, *alone_pj, units, max(together_pj - sum(alone_pj), 0.0))

    def written_to_dram_pj(self, layer: Layer, *, weight_is_an_input: bool) -> float:
        """Return the least energy in pJ, beyond its floor, of an output bit that is written to DRAM.

        Its home is DRAM, or a Copy moves it there from a cheaper home.
        """
        floors = self._machine_of(layer, weight_is_an_input).of(layer)
        at_home = floors.output_floor()
        more_pj = min(at_home[DRAM] - min(at_home.values()), layer.output_bits * floors.machine.write_pj[DRAM])
        return max(more_pj, 0.0) / layer.output_bits if self.every_memory_keeps else 0.0

    def read_from_dram_pj(self, layer: Layer, *, weight_is_an_input: bool) -> float:
        """Return the least energy in pJ, beyond its floor, of a map's bit that the layer reads from DRAM.

        Its home is DRAM, or a Copy loads it from there. The result holds for either of two maps.
        """
        floors = self._machine_of(layer, weight_is_an_input).of(layer)
        operands = [Operand.INPUT, *([Operand.WEIGHT] if layer.has_weight and weight_is_an_input else [])]
        return min(_beyond_its_floor(floors, operand) for operand in operands) if self.every_memory_keeps else 0.0

    def _machine_of(self, layer: Layer, weight_is_an_input: bool) -> MachineFloors:
        if not (weight_is_an_input and layer.has_weight):
            return self._machine
        key = layer.is_element_by_element
        if key not in self._of_two_maps:
            seen = _as_seen_by_two_maps(self.accelerator, layer)
            # Without a memory for maps, a second map bypasses every memory.
            found = _floors(self.accelerator, False) if seen is None else _floors(seen, self.every_memory_keeps)
            self._of_two_maps[key] = found
        return self._of_two_maps[key]


def _floors(accelerator: Accelerator, every_memory_keeps: bool) -> MachineFloors:
    return MachineFloors(accelerator, AnyUnrolling(accelerator, every_memory_keeps))


def _beyond_its_floor(floors: NestFloors, operand: Operand) -> float:
    """Return the least energy in pJ, beyond its floor, of an operand's bit that is read from DRAM.

    Returns 0 if the memory nearest the units depends on the home, because both memories may then feed the units.
    """
    machine, bits = floors.machine, floors.layer.bits(operand)
    nearest = {way[0] for home in machine.homes(operand) for way in machine.ways(operand, home)}
    if len(nearest) > 1:
        return 0.0
    ways_pj = floors.floor(operand, 0).per_element
    return max(min(ways_pj[DRAM] - min(ways_pj.values()), bits * machine.read_pj[DRAM]), 0.0) / bits


def _input_pj(floors: NestFloors, work: NestWork, origins: NestOrigins) -> float:
    """Return the least energy in pJ of the inputs, without the first DRAM read of network inputs.

    One DRAM read may serve as many units as DRAM serves. These uses do not count again.
    """
    if not work.inputs:
        return 0.0
    floor = floors.floor(Operand.INPUT, work.uses_of_input)
    if origins.input_is_in_dram and _comes_through_memories(floors, Operand.INPUT):
        on_its_way_pj = _least_way_pj(floors, Operand.INPUT, work.uses_of_input, is_shared=True)
        return work.macs_with_input * floor.per_mac + work.inputs * on_its_way_pj
    if origins.input_is_in_dram:
        served = floors.shares.serving[Operand.INPUT][DRAM]
        return max(work.macs_with_input - work.inputs * served, 0.0) * floor.per_mac
    return work.macs_with_input * floor.per_mac + work.inputs * min(floor.per_element.values())


def _weight_pj(floors: NestFloors, work: NestWork, origins: NestOrigins) -> float:
    if not work.weights:
        return 0.0
    is_shared = origins.weight_has_other_readers
    if origins.weight_is_in_dram and _comes_through_memories(floors, Operand.WEIGHT):
        on_its_way_pj = _least_way_pj(floors, Operand.WEIGHT, work.uses_of_weight, is_shared=is_shared)
        return work.macs * floors.floor(Operand.WEIGHT, 0).per_mac + work.weights * on_its_way_pj
    if origins.weight_is_in_dram:
        return work.weights * _beyond_the_first_read(floors, work.uses_of_weight, is_shared=is_shared)
    floor = floors.floor(Operand.WEIGHT, work.uses_of_weight)
    return work.macs * floor.per_mac + work.weights * min(floor.per_element.values())


def _beyond_the_first_read(floors: NestFloors, uses: int, *, is_shared: bool) -> float:
    """Return the least energy in pJ of a weight with `uses` uses, beyond its first DRAM read.

    Either DRAM serves every use, or some memory receives the weight (once for all its readers) and serves all uses but
    those that one DRAM read may serve.
    """
    bits, machine, serving = floors.layer.weight_bits, floors.machine, floors.shares.serving[Operand.WEIGHT]
    once_pj = bits * machine.read_pj[DRAM]
    more_uses = max(uses - serving[DRAM], 0.0)
    straight_pj = more_uses * once_pj / serving[DRAM]
    by_memories = (
        (0.0 if is_shared else bits * machine.write_pj[name]) + more_uses * bits * machine.read_pj[name] / serving[name]
        for name, level in holders(machine.accelerator, Operand.WEIGHT)
        if level is not None
    )
    return min([straight_pj, *by_memories])


def _comes_through_memories(floors: NestFloors, operand: Operand) -> bool:
    """Return True if mappings bypass no memory, and an on-chip memory keeps the operand on its way from DRAM."""
    return floors.machine.sharing.every_memory_keeps and floors.machine.ways(operand, DRAM)[0][0] != DRAM


def _least_way_pj(floors: NestFloors, operand: Operand, uses: int, *, is_shared: bool) -> float:
    """Return the least energy in pJ, beyond its first DRAM read, of an element's way from DRAM to the units.

    Copies fill on-chip homes through the addressed memories above them. Copies do not count if the element may have
    other readers (`is_shared`).
    """
    machine, bits = floors.machine, floors.layer.bits(operand)
    once_pj = bits * machine.read_pj[DRAM]
    ways = []
    for home, from_home_pj in floors.floor(operand, uses).per_element.items():
        if home == DRAM:
            ways.append(from_home_pj - once_pj)
        elif is_shared:
            ways.append(from_home_pj)
        else:
            copied_pj = bits * machine.way_pj(_addressed_above(machine, home, operand))
            ways.append(from_home_pj + copied_pj - once_pj)
    return max(min(ways), 0.0)


def _addressed_above(machine: MachineFloors, home: str, operand: Operand) -> tuple[str, ...]:
    """Return the memories that a Copy between a home and DRAM passes, including both ends."""
    is_parameter = operand is Operand.WEIGHT
    names = [level.memory.name for level in machine.accelerator.levels]
    passed = [
        level.memory.name
        for level in machine.accelerator.addressed
        if names.index(level.memory.name) > names.index(home) and may_hold(level.memory, is_parameter=is_parameter)
    ]
    return (home, *passed, DRAM)


def _together_pj(floors: NestFloors, work: NestWork, origins: NestOrigins) -> float:
    """Return the floor in pJ of all operands under one spatial unrolling, or 0 if it is unknown."""
    joint = JointFloor.of(floors.machine, floors.layer)
    if joint is None:
        return 0.0
    outside = {
        Operand.INPUT: (origins.input_is_in_dram, True),
        Operand.WEIGHT: (origins.weight_is_in_dram, origins.weight_has_other_readers),
    }
    filled, refilled = (
        {one: _joint_way_pj(floors, one, *outside[one], skipped=steps) for one in outside if one in joint.near}
        for steps in (0, 1)
    )
    above_pj, here_pj = _output_ways_pj(floors, leaves=origins.output_leaves)
    elements = {Operand.INPUT: work.inputs, Operand.WEIGHT: work.weights}
    elements = {operand: count for operand, count in elements.items() if operand in joint.near}
    return joint.least_pj(work.windows, elements, JointWays(filled, refilled, above_pj, here_pj))


def _joint_way_pj(floors: NestFloors, operand: Operand, is_in_dram: bool, is_shared: bool, *, skipped: int) -> float:
    """Return the least energy in pJ of an element's way to the nearest memory, without the first DRAM read.

    `skipped` is the number of excluded steps, counted from the nearest memory.
    """
    machine, bits = floors.machine, floors.layer.bits(operand)
    found = []
    for home in machine.homes(operand):
        for way in machine.ways(operand, home):
            moved_pj = machine.way_pj(way[min(skipped, len(way) - 1) :])
            if is_in_dram and home == DRAM:
                moved_pj -= machine.read_pj[DRAM]
            elif is_in_dram and not is_shared:
                moved_pj += machine.way_pj(_addressed_above(machine, home, operand)) - machine.read_pj[DRAM]
            found.append(bits * moved_pj)
    return min(found)


def _output_ways_pj(floors: NestFloors, *, leaves: bool) -> tuple[float, float]:
    """Return the least energies in pJ of a finished output's way from the nearest memory, and of one at home there."""
    machine, found = floors.machine, {True: inf, False: inf}
    for home in machine.homes(Operand.OUTPUT):
        leaves_home = leaves and home != DRAM
        to_dram_pj = machine.way_up_pj(_addressed_above(machine, home, Operand.OUTPUT)) if leaves_home else 0.0
        for _, *above in machine.ways(Operand.OUTPUT, home):
            goes_on = bool(above)
            moved_pj = machine.write_pj[above[0]] + machine.way_up_pj(above) if goes_on else 0.0
            found[goes_on] = min(found[goes_on], moved_pj + to_dram_pj)
    return floors.layer.output_bits * found[True], floors.layer.output_bits * found[False]


def _output_pj(floors: NestFloors, *, leaves: bool) -> float:
    """Return the least energy in pJ of an output: accumulation, the way home, and on to DRAM if it leaves."""
    machine, bits = floors.machine, floors.layer.output_bits
    at_home = floors.output_floor()
    if not leaves:
        return min(at_home.values())
    to_dram = {
        home: bits * machine.way_up_pj(_addressed_above(machine, home, Operand.OUTPUT))
        for home in at_home
        if home != DRAM
    }
    return min(floor + to_dram.get(home, 0.0) for home, floor in at_home.items())


def _as_seen_by_two_maps(accelerator: Accelerator, layer: Layer) -> Accelerator | None:
    """Return the machine with the layer's weights in the memories of its second map, or None without such memories.

    The result marks each memory as a scratchpad, which has no effect on the floors.
    """
    levels = tuple(
        replace(seen, is_scratchpad=True)
        for level in accelerator.levels
        if (seen := seen_by_two_maps(level, layer)) is not None
    )
    if not levels:
        return None
    return replace(accelerator, levels=levels, scratchpads=tuple(level.memory for level in levels), links=())


@dataclass(frozen=True, slots=True)
class NestOrigins:
    """Origins of a nest's operands: True if only DRAM may have the operand, or if the output leaves the network.

    The on-chip copy of a weight with `weight_has_other_readers` may serve these readers too.
    """

    input_is_in_dram: bool
    weight_is_in_dram: bool
    weight_is_an_input: bool
    output_leaves: bool
    weight_has_other_readers: bool = False


def origins_of(graph: Graph, operator: Operator, layer: Layer, nests: Sequence[Layer]) -> tuple[NestOrigins, ...]:
    """Return the possible origins of one of an operator's `nests`; the least floor of all of them holds.

    In an element-wise nest, either operand may be its input. Of several maps, the input or the weight, or both, may be
    those that only DRAM has; an on-chip copy of a map that an operator writes is already paid for.
    """
    come = [graph.tensor[name].role in FROM_OUTSIDE for name in operator.inputs]
    either = layer.is_element_by_element and bool(operator.parameters)
    outside = [name for name in operator.reads if graph.tensor[name].role in FROM_OUTSIDE]
    is_mixed = any(come) and not all(come) and not operator.parameters
    in_dram = (any(come) or either, any(come) or bool(operator.parameters))
    return tuple(
        NestOrigins(
            input_is_in_dram,
            weight_is_in_dram,
            weight_is_an_input=not operator.parameters,
            output_leaves=graph.tensor[operator.outputs[0]].role is Role.OUTPUT,
            weight_has_other_readers=any(len(graph.readers[name]) > 1 for name in outside)
            or _several_nests_read_a_weight(graph, operator, nests),
        )
        for input_is_in_dram, weight_is_in_dram in (in_dram, *(((True, False), (False, True)) if is_mixed else ()))
    )


def _several_nests_read_a_weight(graph: Graph, operator: Operator, nests: Sequence[Layer]) -> bool:
    """Return True if nests of the operator share weights: their weight elements exceed those of the parameter."""
    kept = [graph.tensor[name] for name in operator.parameters]
    elements = max((tensor.size_bytes * 8 // (tensor.bits or 8) for tensor in kept), default=0)
    return len(nests) > 1 and sum(layer.elements(WEIGHT) for layer in nests) > elements
