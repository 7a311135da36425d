"""The figures of a schedule, and the homes of its operands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onchip.answer.options.mapping_objective import FEMTO_PER_PICO
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated, summed
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.model.program.compute_cost import ComputeCost, CopyPrices, resident_bytes
from onchip.model.timeline.activity import LatencyParts
from onchip.model.timeline.schedule_timeline import ScheduleTimeline, time_schedule
from onchip.ops.nests import BandedOperand


def homes_of_computes(
    levels: Sequence[MemoryLevel], program: Plan, operands_of: Mapping[str, Sequence[BandedOperand]]
) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    """Yield each Compute's operator and the homes of its operands, in their order; None: streamed.

    A home is the memory nearest the MACs that holds the operand kind and all its tiles, with the tiles to be read
    already written; `levels` are the addressed ones, nearest the MACs first.
    """
    there: dict[str, dict[str, bool]] = {level.memory.name: {} for level in levels}

    def home(operand: BandedOperand) -> str | None:
        is_output = operand.operand is Operand.OUTPUT
        for level in levels:
            held = there[level.memory.name]
            if operand.operand in level.memory.holds and all(
                band.name in held and (is_output or held[band.name]) for band in operand.bands
            ):
                return level.memory.name
        return None

    for instruction in program.instructions:
        match instruction:
            case Allocate(tensor, memory, _):
                there[memory][tensor] = False
            case Free(tensor, memory):
                del there[memory][tensor]
            case Copy(tensor, _, target) if target != DRAM:
                there[target][tensor] = True
            case Compute(name):
                yield name, tuple(home(operand) for operand in operands_of[name])
                written = [band for one in operands_of[name] if one.operand is Operand.OUTPUT for band in one.bands]
                for held in there.values():
                    held.update({band.name: True for band in written if band.name in held})


@dataclass(frozen=True, slots=True)
class EnergyParts:
    """The parts of the energy in pJ: MACs, accesses of Computes by memory and operand, Copies by memory.

    `mac_pj` is None if the accelerator does not state it; memories without stated access energies are omitted. The
    parts are unrounded: their sum may differ from the schedule's energy by half a femtojoule per Compute and Copy.
    """

    mac_pj: float | None
    compute_access_pj: Mapping[tuple[str, str], float]
    copy_access_pj: Mapping[str, float]

    @property
    def by_memory_pj(self) -> Mapping[str, float]:
        """Return the energy of all accesses in pJ, by memory and DRAM."""
        found: dict[str, float] = defaultdict(float)
        for (memory, _), energy in self.compute_access_pj.items():
            found[memory] += energy
        for memory, energy in self.copy_access_pj.items():
            found[memory] += energy
        return dict(found)


@dataclass(frozen=True, slots=True)
class TrafficParts:
    """The bytes from and to DRAM: loads and write-backs of Copies, streamed reads and writes of Computes."""

    loads: int
    write_backs: int
    streamed_reads: int
    streamed_writes: int

    @property
    def total(self) -> int:
        """Return the bytes of all four parts together."""
        return self.loads + self.write_backs + self.streamed_reads + self.streamed_writes


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """The peak resident bytes of a memory, with workspaces, and the highest end address."""

    peak_bytes: int = 0
    arena_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """The figures of a schedule; `memories` is by the names of the addressed memories.

    The energy is None if the accelerator does not state all of its parts.
    """

    stated_energy_fj: int | None
    energy: EnergyParts
    traffic: TrafficParts
    timeline: ScheduleTimeline
    memories: Mapping[str, MemoryFigures]

    @property
    def energy_fj(self) -> int:
        """Return the energy in fJ; raises AcceleratorError if it is unknown."""
        return stated(self.stated_energy_fj)

    @property
    def energy_pj(self) -> float | None:
        """Return the energy in pJ, or None if it is unknown."""
        return None if self.stated_energy_fj is None else self.stated_energy_fj / FEMTO_PER_PICO

    @property
    def traffic_bytes(self) -> int:
        """Return the bytes from and to DRAM."""
        return self.traffic.total

    @property
    def latency_cycles(self) -> int:
        """Return the latency in cycles, the end of the timeline."""
        return self.timeline.latency_cycles

    @property
    def latency(self) -> LatencyParts:
        """Return the parts of the latency."""
        return self.timeline.parts

    @property
    def edp(self) -> int:
        """Return the energy-delay product, in fJ x cycles."""
        return self.energy_fj * self.latency_cycles


def schedule_figures(
    graph: Graph, accelerator: Accelerator, program: Plan, compute_costs: Mapping[str, ComputeCost]
) -> ScheduleFigures:
    """Return the figures of a legal program over a tile graph, given the cost of each operator's Compute.

    Raises AcceleratorError if a memory has no port for an access.
    """
    sums = _summed(graph, CopyPrices(accelerator), program.instructions, compute_costs)
    timeline = time_schedule(graph, accelerator, program, compute_costs)
    energy = EnergyParts(sums.mac_pj, dict(sums.compute_access_pj), dict(sums.copy_access_pj))
    return ScheduleFigures(
        sums.energy_fj, energy, sums.traffic, timeline, memory_figures(graph, program, compute_costs)
    )


def energy_and_traffic(
    graph: Graph, prices: CopyPrices, instructions: Iterable[Instruction], compute_costs: Mapping[str, ComputeCost]
) -> tuple[int, int]:
    """Return the energy in fJ and the DRAM traffic in bytes of some instructions, without a timeline.

    Raises AcceleratorError if an energy is unknown.
    """
    sums = _summed(graph, prices, instructions, compute_costs)
    return stated(sums.energy_fj), sums.traffic.total


def _summed(
    graph: Graph, prices: CopyPrices, instructions: Iterable[Instruction], compute_costs: Mapping[str, ComputeCost]
) -> _Sums:
    sums = _Sums(graph, prices)
    for instruction in instructions:
        match instruction:
            case Compute(operator):
                sums.add_compute(compute_costs[operator])
            case Copy():
                sums.add_copy(instruction)
    return sums


def memory_figures(
    graph: Graph, program: Plan, compute_costs: Mapping[str, ComputeCost]
) -> Mapping[str, MemoryFigures]:
    """Return the peak and arena of each memory of a program."""
    live = {memory.name: 0 for memory in program.memories}
    offsets: dict[str, dict[str, int]] = {name: {} for name in live}
    lent = set[tuple[str, str]]()
    peak, arena = dict(live), dict(live)

    for instruction in program.instructions:
        match instruction:
            case Allocate(tensor, memory, offset_bytes):
                size_bytes = resident_bytes(graph, compute_costs, tensor, memory)
                lender = graph.lender(tensor, offset_bytes, offsets[memory].get)
                if lender is None:
                    live[memory] += size_bytes
                else:
                    lent.add((lender, memory))
                offsets[memory][tensor] = offset_bytes
                peak[memory] = max(peak[memory], live[memory])
                arena[memory] = max(arena[memory], offset_bytes + size_bytes)
            case Free(tensor, memory):
                del offsets[memory][tensor]
                if (tensor, memory) in lent:
                    lent.discard((tensor, memory))
                else:
                    live[memory] -= resident_bytes(graph, compute_costs, tensor, memory)
    return {memory: MemoryFigures(peak[memory], arena[memory]) for memory in live}


class _Sums:
    """The running totals of energy and traffic over instructions."""

    def __init__(self, graph: Graph, prices: CopyPrices) -> None:
        self.energy_fj: int | None = 0
        self.mac_pj: float | None = 0.0
        self.compute_access_pj: dict[tuple[str, str], float] = defaultdict(float)
        self.copy_access_pj: dict[str, float] = defaultdict(float)
        self.loads = self.write_backs = self.streamed_reads = self.streamed_writes = 0
        self._graph = graph
        self._prices = prices

    @property
    def traffic(self) -> TrafficParts:
        return TrafficParts(self.loads, self.write_backs, self.streamed_reads, self.streamed_writes)

    def add_compute(self, cost: ComputeCost) -> None:
        self.energy_fj = summed((self.energy_fj, cost.stated_energy_fj))
        self.mac_pj = summed((self.mac_pj, cost.mac_pj))
        for key, energy in cost.access_pj.items():
            self.compute_access_pj[key] += energy
        self.streamed_reads += -(-cost.dram_read_bits // 8)
        self.streamed_writes += -(-cost.dram_written_bits // 8)

    def add_copy(self, copy: Copy) -> None:
        tensor = self._graph.tensor[copy.tensor]
        is_parameter = tensor.role is Role.PARAMETER
        price = self._prices.of(tensor.size_bytes, copy.source, copy.target, is_parameter=is_parameter)
        self.energy_fj = summed((self.energy_fj, price.stated_energy_fj))
        for memory, energy in price.access_pj.items():
            self.copy_access_pj[memory] += energy
        self.loads += tensor.size_bytes if copy.source == DRAM else 0
        self.write_backs += tensor.size_bytes if copy.target == DRAM else 0
