"""What feeding the units costs at least, for the part of a loop nest that every schedule computes.

Energies are in pJ. The floors are those of `bounds/layer` per multiply-accumulate and per element; they hold for every
home and every tiling, and for every mapping, or all in which every memory keeps what it holds (docs/schedule.md,
section 8).
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
from onchip.model.program.copies import may_hold

FROM_OUTSIDE: Final = (Role.INPUT, Role.PARAMETER)
"""What only DRAM has before it is read."""


@dataclass(frozen=True, slots=True)
class FloorOfNest:
    """What a nest costs at least, without the first read of each element that only DRAM has, in pJ by cause.

    Each operand's floor holds alone; `unrolling_pj` is what all cost together beyond these, as they share one spatial
    unrolling. At most `units` are at work at once.
    """

    mac_pj: float
    input_pj: float
    weight_pj: float
    output_pj: float
    units: int
    unrolling_pj: float = 0.0


@dataclass(slots=True)
class FeedingFloors:
    """The floors of one machine; raises AcceleratorError without an array or without what an access costs."""

    accelerator: Accelerator
    every_memory_keeps: bool = False
    _machine: MachineFloors = field(init=False)
    _of_two_maps: dict[bool, MachineFloors] = field(default_factory=dict)
    """As layers see the machine that read two maps, by whether they are element by element."""

    def __post_init__(self) -> None:
        self._machine = _floors(self.accelerator, self.every_memory_keeps)

    def of(self, layer: Layer, work: NestWork, origins: NestOrigins) -> FloorOfNest:
        """The floor of the part `work` of a nest."""
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
        """What a bit of an output costs at least beyond its floor, if it is written to DRAM.

        Its home is DRAM; or it is copied there from a cheaper home.
        """
        floors = self._machine_of(layer, weight_is_an_input).of([layer])
        at_home = floors.output_floor()
        more_pj = min(at_home[DRAM] - min(at_home.values()), layer.output_bits * floors.machine.write_pj[DRAM])
        return max(more_pj, 0.0) / layer.output_bits if self.every_memory_keeps else 0.0

    def read_from_dram_pj(self, layer: Layer, *, weight_is_an_input: bool) -> float:
        """What a bit of a map that it reads costs at least beyond its floor, if it is read from DRAM.

        Its home is DRAM; or it is copied from there. Of two maps either may be meant.
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
    """Nothing where the memory nearest the units depends on the home: uses may then be fed from both."""
    machine, bits = floors.machine, floors.layer.bits(operand)
    nearest = {way[0] for home in machine.homes(operand) for way in machine.ways(operand, home)}
    if len(nearest) > 1:
        return 0.0
    ways_pj = floors.floor(operand, 0).per_element
    return max(min(ways_pj[DRAM] - min(ways_pj.values()), bits * machine.read_pj[DRAM]), 0.0) / bits


def _input_pj(floors: NestFloors, work: NestWork, origins: NestOrigins) -> float:
    """Of an input that only DRAM has, one read may serve as many units as DRAM serves: these are not counted again."""
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
    """Of a weight that only DRAM has, with so many uses: what it costs beside one read there.

    Either every use is served by DRAM; or it is written to some memory (for all who read it), and all uses but those
    that one read of DRAM may serve are fed from there.
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
    """Whether every memory keeps what it holds, and one on the chip keeps the operand on its way from DRAM."""
    return floors.machine.sharing.every_memory_keeps and floors.machine.ways(operand, DRAM)[0][0] != DRAM


def _least_way_pj(floors: NestFloors, operand: Operand, uses: int, *, is_shared: bool) -> float:
    """Of each element that only DRAM has: what its way to the units costs at least beside one read there.

    Homes on the chip are filled by Copies, which pass what is addressed above them. Where others may read it, too,
    these are not counted.
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
    """The memories that a Copy between a home and DRAM passes, both among them."""
    is_parameter = operand is Operand.WEIGHT
    names = [level.memory.name for level in machine.accelerator.levels]
    passed = [
        level.memory.name
        for level in machine.accelerator.addressed
        if names.index(level.memory.name) > names.index(home) and may_hold(level.memory, is_parameter=is_parameter)
    ]
    return (home, *passed, DRAM)


def _together_pj(floors: NestFloors, work: NestWork, origins: NestOrigins) -> float:
    """Return the floor of all operands under one spatial unrolling; 0 where nothing is known of it."""
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
    """Return the least energy of an element on its way to the nearest memory, but for the first read of DRAM.

    So many steps are left out, the one into the nearest memory first.
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
    """Return the least energies of a finished output from the nearest memory on, and of one that is at home there."""
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
    """Of each output: its sums near the units, and its way home; if it leaves the network, on to DRAM."""
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
    """Return the machine with the weights of a layer where its second map may lie; None without a memory for either.

    Which memories are scratchpads says nothing here.
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
    """Which operands of a nest may come from DRAM alone, so that units may take them there; whether its output goes.

    Of a weight with `weight_has_other_readers` what is on the chip may serve these, too.
    """

    input_is_in_dram: bool
    weight_is_in_dram: bool
    weight_is_an_input: bool
    output_leaves: bool
    weight_has_other_readers: bool = False


def origins_of(graph: Graph, operator: Operator, layer: Layer, nests: Sequence[Layer]) -> NestOrigins:
    """Return those of one of an operator's `nests`: of two maps, and element by element, either may be its input."""
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
    """Whether nests of the operator share weights: together they have more elements of these than there are."""
    kept = [graph.tensor[name] for name in operator.parameters]
    elements = max((tensor.size_bytes * 8 // (tensor.bits or 8) for tensor in kept), default=0)
    return len(nests) > 1 and sum(layer.elements(WEIGHT) for layer in nests) > elements
