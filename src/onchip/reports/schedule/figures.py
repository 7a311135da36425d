"""Costs of each stack and each operator of a schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import ScheduledStack
from onchip.arch.energies import summed
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.program.compute_cost import ComputeCost
from onchip.model.program.copies import CopyCost, CopyPrices
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE
from onchip.model.timeline.array_waits import array_waits
from onchip.model.timeline.schedule_timeline import ScheduleTimeline
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.scheduling.program.runs import NestPlace

MACS: Final = "MACs"
COPIES: Final = "copies"
TRAFFIC: Final = ("loads", "write-backs", "streamed in", "streamed out")


@dataclass(kw_only=True)
class ComputeSums:
    """Sums over tile operators; `energy_pj` has the energies in pJ by memory and cause.

    `stated_energy_fj` is rounded for each Compute and each Copy, like the schedule's; energies in pJ are not rounded.
    """

    tile_operators: int = 0
    macs: int = 0
    stated_energy_fj: int | None = 0
    energy_pj: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))

    @property
    def stated_energy_pj(self) -> float | None:
        """Return the energy in pJ, or None if it is unknown."""
        return None if self.stated_energy_fj is None else self.stated_energy_fj / FEMTOJOULES_PER_PICOJOULE

    def add_compute(self, cost: ComputeCost, macs: int) -> None:
        """Count the energy and the multiply-accumulates of one tile operator."""
        self.tile_operators += 1
        self.macs += macs
        self.stated_energy_fj = summed((self.stated_energy_fj, cost.stated_energy_fj))
        self.energy_pj[MACS, MACS] += cost.mac_pj or 0.0
        for key, part in cost.access_pj.items():
            self.energy_pj[key] += part


@dataclass
class StackFigures(ComputeSums):
    """Sums of one stack, Copies included, with cycles by part of the latency and DRAM bytes by mover."""

    number: int
    stack: ScheduledStack
    cycles: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    traffic: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def label(self) -> str:
        """Number, and first and last operator."""
        names = self.stack.operators
        return f"{self.number}: {names[0]}" if len(names) == 1 else f"{self.number}: {names[0]} \u2013 {names[-1]}"

    @property
    def traffic_bytes(self) -> int:
        """Number of bytes from and to DRAM."""
        return sum(self.traffic.values())

    @property
    def latency_cycles(self) -> int:
        """Cycles from the end of the previous stack to its own end."""
        return sum(self.cycles.values())

    def energy_at(self, memory: str) -> float:
        """Return the picojoules of one memory, of DRAM, or of the MACs."""
        return sum(part for (place, _), part in self.energy_pj.items() if place == memory)

    def energy_for(self, cause: str) -> float:
        """Return the picojoules of one cause: an operand of Computes, Copies, or the MACs."""
        return sum(part for (_, why), part in self.energy_pj.items() if why == cause)

    def add_compute(self, cost: ComputeCost, macs: int) -> None:
        """Count the energy, the multiply-accumulates and the traffic of one tile operator."""
        super().add_compute(cost, macs)
        self.traffic["streamed in"] += -(-cost.dram_read_bits // 8)
        self.traffic["streamed out"] += -(-cost.dram_written_bits // 8)

    def add_copy(self, cost: CopyCost) -> None:
        """Count the energy and the traffic of one Copy."""
        self.stated_energy_fj = summed((self.stated_energy_fj, cost.stated_energy_fj))
        for memory, part in cost.access_pj.items():
            self.energy_pj[memory, COPIES] += part
        self.traffic["loads"] += cost.dram_read_bits // 8
        self.traffic["write-backs"] += cost.dram_written_bits // 8


def figures_of_stacks(history: ScheduleHistory, timeline: ScheduleTimeline) -> tuple[StackFigures, ...]:
    """Return the figures of each stack in execution order."""
    found = tuple(StackFigures(number, stack) for number, stack in enumerate(history.schedule.stacks))
    origins = history.tiles.operators
    stack_of = [origins[name].stack for name in history.operators]
    for name, number in zip(history.operators, stack_of, strict=True):
        macs = sum(nest.macs for nest in origins[name].nests)
        found[number].add_compute(history.compute_costs[name], macs)
    prices = CopyPrices(history.accelerator)
    for copy in history.copies:
        tensor = history.tiles.graph.tensor[copy.tensor]
        is_parameter = tensor.role is Role.PARAMETER
        price = prices.of(tensor.size_bytes, copy.source, copy.target, is_parameter=is_parameter)
        found[stack_of[min(copy.step, len(stack_of) - 1)]].add_copy(price)
    _add_cycles(found, timeline, stack_of)
    return found


def causes(found: Sequence[StackFigures]) -> list[str]:
    """Return the causes with any energy."""
    present = {why for one in found for _, why in one.energy_pj}
    return [why for why in (MACS, "input", "weight", "output", COPIES) if why in present]


def total_energy(found: Sequence[StackFigures]) -> Mapping[tuple[str, str], float]:
    """Return the picojoules of all stacks, by memory and cause."""
    total: dict[tuple[str, str], float] = defaultdict(float)
    for one in found:
        for key, part in one.energy_pj.items():
            total[key] += part
    return total


def _add_cycles(found: Sequence[StackFigures], timeline: ScheduleTimeline, stack_of: Sequence[int]) -> None:
    """Add the cycles; a gap belongs to the stack of the Compute after it, the last gap to the last stack."""
    computes = [place for place, one in enumerate(timeline.activities) if one.queue is None]
    number_of = dict(zip(computes, stack_of, strict=True))
    for place, number in number_of.items():
        found[number].cycles["computing"] += timeline.activities[place].cycles
    for wait in array_waits(timeline.activities):
        if not stack_of:
            return
        number = stack_of[-1] if wait.activity is None else number_of[wait.activity]
        for name, cycles in wait.parts.by_name.items():
            if cycles:
                found[number].cycles[name] += cycles


@dataclass
class OperatorFigures(ComputeSums):
    """Sums over the tile operators of one network operator; `nests` counts the runs of each loop nest.

    The energy is that of Computes; Copies belong to tensors.
    """

    name: str
    kind: str
    stack: int
    scheduled: ScheduledStack
    written_bytes: int
    cycles: int = 0
    nests: dict[NestPlace, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MappedNestOfOperator:
    """A kind of loop nest of an operator, its mapping, and the number of tile operators that run it."""

    problem: LayerProblem
    mapping: LayerMapping
    times: int


def figures_of_operators(network: Graph, history: ScheduleHistory) -> tuple[OperatorFigures, ...]:
    """Return the figures of each network operator, in the network's order."""
    stacks = history.schedule.stacks
    stack_of = {name: number for number, stack in enumerate(stacks) for name in stack.operators}
    found = {
        one.name: OperatorFigures(
            one.name,
            one.kind,
            stack_of[one.name],
            stacks[stack_of[one.name]],
            sum(network.tensor[name].size_bytes for name in one.outputs),
        )
        for one in network.operators
    }
    for name in history.operators:
        origin, cost = history.tiles.operators[name], history.compute_costs[name]
        one = found[origin.operator]
        one.add_compute(cost, sum(nest.macs for nest in origin.nests))
        one.cycles += cost.cycles
        for nest in history.nest_places[name]:
            one.nests[nest] = one.nests.get(nest, 0) + 1
    return tuple(found.values())


def mapped_nests(one: OperatorFigures, history: ScheduleHistory) -> Sequence[MappedNestOfOperator]:
    """Return the kinds of loop nests of an operator, the most frequent first."""
    by_times = sorted(one.nests.items(), key=lambda nest: -nest[1])
    return [
        MappedNestOfOperator(
            LayerProblem(nest.layer, history.accelerator, nest.homes, {}, nest.weight_is_an_input),
            history.mappings[nest.stack, nest.layer, nest.homes],
            times,
        )
        for nest, times in by_times
    ]
