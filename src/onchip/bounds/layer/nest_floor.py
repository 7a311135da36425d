"""Lower bounds on the energy of feeding the units, for the part of a loop nest that every schedule computes.

Energies are in pJ. The floors per MAC and per element hold for every home and every tiling. They hold for every
mapping, or for those without bypass if `every_memory_keeps` (docs/schedule.md, section 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from onchip.answer.layer_problem import seen_by_two_maps
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.layer.joint_floor import JointFloor, JointWays
from onchip.bounds.layer.layer_floors import MachineFloors, NestFloors
from onchip.bounds.layer.nest_work import NestWork
from onchip.bounds.layer.unit_shares import AnyUnrolling, holders
from onchip.ir.graph import Graph
from onchip.ir.layer import WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.model.program.compute_cost import may_hold

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
        floors = machine.of([layer])
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
        floors = self._machine_of(layer, weight_is_an_input).of([layer])
        at_home = floors.output_floor()
        more_pj = min(at_home[DRAM] - min(at_home.values()), layer.output_bits * floors.machine.write_pj[DRAM])
        return max(more_pj, 0.0) / layer.output_bits if self.every_memory_keeps else 0.0

    def read_from_dram_pj(self, layer: Layer, *, weight_is_an_input: bool) -> float:
        """Return the least energy in pJ, beyond its floor, of a map's bit that the layer reads from DRAM.

        Its home is DRAM, or a Copy loads it from there. The result holds for either of two maps.
        """
        floors = self._machine_of(layer, weight_is_an_input).of([layer])
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


def origins_of(graph: Graph, operator: Operator, layer: Layer, nests: Sequence[Layer]) -> NestOrigins:
    """Return the origins of one of an operator's `nests`. In an element-wise nest, either operand may be its input."""
    roles = [graph.tensor[name].role for name in operator.inputs]
    comes = any(role in FROM_OUTSIDE for role in roles)
    either = layer.is_element_by_element and bool(operator.parameters)
    outside = [name for name in operator.reads if graph.tensor[name].role in FROM_OUTSIDE]
    return NestOrigins(
        input_is_in_dram=comes or either,
        weight_is_in_dram=comes or bool(operator.parameters),
        weight_is_an_input=not operator.parameters,
        output_leaves=graph.tensor[operator.outputs[0]].role is Role.OUTPUT,
        weight_has_other_readers=any(len(graph.readers[name]) > 1 for name in outside)
        or _several_nests_read_a_weight(graph, operator, nests),
    )


def _several_nests_read_a_weight(graph: Graph, operator: Operator, nests: Sequence[Layer]) -> bool:
    """Return True if nests of the operator share weights: their weight elements exceed those of the parameter."""
    kept = [graph.tensor[name] for name in operator.parameters]
    elements = max((tensor.size_bytes * 8 // (tensor.bits or 8) for tensor in kept), default=0)
    return len(nests) > 1 and sum(layer.elements(WEIGHT) for layer in nests) > elements
