"""What each stack of a schedule costs: the figures of the whole, taken apart.

A Copy counts in the stack of the Compute after it; those after the last Compute in the last stack. Summed up over the
stacks every figure is that of the schedule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from onchip.answer.schedule import ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import summed
from onchip.arch.memory import DRAM
from onchip.ir.tensor import Role
from onchip.model.program.compute_cost import ComputeCost
from onchip.model.program.copies import CopyCost, CopyPrices
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE
from onchip.model.timeline.array_waits import array_waits
from onchip.model.timeline.schedule_timeline import ScheduleTimeline
from onchip.reports.explain.schedule_history import ScheduleHistory

MACS: Final = "MACs"
COPIES: Final = "copies"
TRAFFIC: Final = ("loads", "write-backs", "streamed in", "streamed out")


@dataclass
class StackFigures:
    """One stack: energies in pJ by memory and cause, cycles by what they go by with, bytes of DRAM by what moves them.

    `stated_energy_fj` is rounded for each Compute and each Copy, as the schedule's is; the energies in pJ are not.
    """

    number: int
    stack: ScheduledStack
    tile_operators: int = 0
    macs: int = 0
    stated_energy_fj: int | None = 0
    energy_pj: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    cycles: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    traffic: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def label(self) -> str:
        """Its number, and its first and last operator."""
        names = self.stack.operators
        return f"{self.number}: {names[0]}" if len(names) == 1 else f"{self.number}: {names[0]} \u2013 {names[-1]}"

    @property
    def traffic_bytes(self) -> int:
        """All bytes from and to DRAM."""
        return sum(self.traffic.values())

    @property
    def latency_cycles(self) -> int:
        """From the end of the stack before it to its own."""
        return sum(self.cycles.values())

    @property
    def stated_energy_pj(self) -> float | None:
        """Return the energy in pJ, or None if it is unknown."""
        return None if self.stated_energy_fj is None else self.stated_energy_fj / FEMTOJOULES_PER_PICOJOULE

    def energy_at(self, memory: str) -> float:
        """Picojoules of one memory, of DRAM, or of the MACs."""
        return sum(part for (place, _), part in self.energy_pj.items() if place == memory)

    def energy_for(self, cause: str) -> float:
        """Picojoules of one cause: an operand that a Compute moves, Copies, or the MACs."""
        return sum(part for (_, why), part in self.energy_pj.items() if why == cause)

    def add_compute(self, cost: ComputeCost, macs: int) -> None:
        """Count the energy, the MACs and the traffic of one tile operator."""
        self.tile_operators += 1
        self.macs += macs
        self.stated_energy_fj = summed((self.stated_energy_fj, cost.stated_energy_fj))
        self.energy_pj[MACS, MACS] += cost.mac_pj or 0.0
        for key, part in cost.access_pj.items():
            self.energy_pj[key] += part
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
    """The figures of each stack, in the order in which they run."""
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


def memory_names(accelerator: Accelerator) -> list[str]:
    """The names of all memories, nearest the MACs first, DRAM last."""
    return [*(level.memory.name for level in accelerator.levels), DRAM]


def causes(found: Sequence[StackFigures]) -> list[str]:
    """Every cause that any energy has."""
    present = {why for one in found for _, why in one.energy_pj}
    return [why for why in (MACS, "input", "weight", "output", COPIES) if why in present]


def total_energy(found: Sequence[StackFigures]) -> Mapping[tuple[str, str], float]:
    """Picojoules of all stacks, by memory and cause."""
    total: dict[tuple[str, str], float] = defaultdict(float)
    for one in found:
        for key, part in one.energy_pj.items():
            total[key] += part
    return total


def _add_cycles(found: Sequence[StackFigures], timeline: ScheduleTimeline, stack_of: Sequence[int]) -> None:
    """A gap counts in the stack of the Compute after it, what comes after the last one in the last stack."""
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
