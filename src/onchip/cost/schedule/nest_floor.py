"""What feeding the units costs at least, for the part of a loop nest that every schedule computes.

Energies are in pJ. The floors are those of `cost/floors` per multiply-accumulate and per element; they hold for every
mapping, every home and every tiling (docs/schedule.md, section 8).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.cost.floors.layer_floors import MachineFloors, NestFloors
from onchip.cost.floors.unit_shares import AnyUnrolling, holders
from onchip.cost.schedule.nest_work import NestWork
from onchip.ir.layer import Layer


@dataclass(frozen=True, slots=True)
class FloorOfNest:
    """What a nest costs at least, without the first read of each element that only DRAM has, in pJ by cause.

    At most `units` are at work at once.
    """

    mac_pj: float
    input_pj: float
    weight_pj: float
    output_pj: float
    units: int


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


@dataclass(slots=True)
class FeedingFloors:
    """The floors of one machine; raises AcceleratorError without an array or without what an access costs."""

    accelerator: Accelerator
    _machines: dict[bool, MachineFloors] = field(init=False)

    def __post_init__(self) -> None:
        machines = {False: self.accelerator, True: _with_weights_where_inputs_are(self.accelerator)}
        self._machines = {kind: MachineFloors(one, AnyUnrolling(one)) for kind, one in machines.items()}

    def of(self, layer: Layer, work: NestWork, origins: NestOrigins) -> FloorOfNest:
        """The floor of the part `work` of a nest."""
        machine = self._machines[origins.weight_is_an_input]
        floors = machine.of([layer])
        return FloorOfNest(
            work.macs * machine.mac_energy_pj,
            _input_pj(floors, work, origins),
            _weight_pj(floors, work, origins) if layer.has_weight else 0.0,
            work.outputs * _output_pj(floors, leaves=origins.output_leaves),
            round(floors.shares.at_work),
        )


def _input_pj(floors: NestFloors, work: NestWork, origins: NestOrigins) -> float:
    """Of an input that only DRAM has, one read may serve as many units as DRAM serves: these are not counted again."""
    if not work.inputs:
        return 0.0
    floor = floors.floor(Operand.INPUT, work.uses_of_input)
    if origins.input_is_in_dram:
        served = floors.shares.serving[Operand.INPUT][DRAM]
        return max(work.macs_with_input - work.inputs * served, 0.0) * floor.per_mac
    return work.macs_with_input * floor.per_mac + work.inputs * min(floor.per_element.values())


def _weight_pj(floors: NestFloors, work: NestWork, origins: NestOrigins) -> float:
    if not work.weights:
        return 0.0
    if origins.weight_is_in_dram:
        is_shared = origins.weight_has_other_readers
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
    return min(straight_pj, *by_memories)


def _output_pj(floors: NestFloors, *, leaves: bool) -> float:
    """Of each output: its sums near the units, and its way home; if it leaves the network, on to DRAM."""
    machine, bits = floors.machine, floors.layer.output_bits
    at_home = floors.output_floor()
    if not leaves:
        return min(at_home.values())
    to_dram = {home: bits * (machine.read_pj[home] + machine.write_pj[DRAM]) for home in at_home if home != DRAM}
    return min(floor + to_dram.get(home, 0.0) for home, floor in at_home.items())


def _with_weights_where_inputs_are(accelerator: Accelerator) -> Accelerator:
    """The machine as a product of two feature maps sees it: the second lies wherever the first may.

    Memories of weights alone stay as they are, which makes no floor higher.
    """
    levels = tuple(_with_weights(level) for level in accelerator.levels)
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    return replace(accelerator, levels=levels, scratchpads=scratchpads)


def _with_weights(level: MemoryLevel) -> MemoryLevel:
    holds = level.memory.holds
    others = tuple(operand for operand in holds if operand is not Operand.WEIGHT)
    found = (*others, Operand.WEIGHT) if Operand.INPUT in others else others or holds
    return replace(level, memory=replace(level.memory, holds=found))
