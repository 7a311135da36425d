"""The front of a nest: mappings of which none is at most as much as another in all that a schedule counts of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.model.program.compute_cost import NestCost
from onchip.model.program.copies import dram_cycles
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE, MemoryRates
from onchip.scheduling.mappings.mapped_nest import MappedNest, Room


@dataclass(frozen=True, slots=True)
class MappingFront:
    """Options for one nest at its homes, in the order in which they were found."""

    options: tuple[MappedNest, ...] = ()

    def with_options(self, found: Iterable[MappedNest]) -> MappingFront:
        """Return the front of these and others; of two that are alike the first stays."""
        options = self.options
        for one in found:
            if not any(is_no_more(known.cost, one.cost) for known in options):
                options = (*(known for known in options if not is_no_more(one.cost, known.cost)), one)
        return MappingFront(options)

    def least(self, room: Room, prices: OptionPrices) -> MappedNest | None:
        """Of the options whose workspaces are within the room the one of the least price; None where none is."""
        return min((one for one in self.options if one.fits(room)), key=lambda one: prices.of(one.cost), default=None)


def is_no_more(one: NestCost, other: NestCost) -> bool:
    """Whether it has at most the other's energy, cycles, bits at DRAM each way, and workspace in each memory.

    Then it may take the other's place in any schedule, which is no worse for it (docs/schedule.md, section 9).
    """
    return (
        one.energy_pj <= other.energy_pj
        and one.cycles <= other.cycles
        and one.dram_read_bits <= other.dram_read_bits
        and one.dram_written_bits <= other.dram_written_bits
        and all(size <= other.workspace_bytes.get(memory, 0) for memory, size in one.workspace_bytes.items())
    )


@dataclass(frozen=True, slots=True)
class OptionPrices:
    """How options are weighed for a schedule: by what each adds to the objective, the rest being as it is.

    Energy times latency grows by the option's energy times the schedule's `latency_cycles`, and by its cycles times
    the schedule's `energy_fj`; while these are not known (None) the option's own product stands for that.
    """

    rates: MemoryRates
    objective: ScheduleObjective
    energy_fj: int | None = None
    latency_cycles: int | None = None

    def of(self, cost: NestCost) -> tuple[float, float]:
        """The price of an option, and what decides between options of equal price."""
        energy_fj = cost.energy_pj * FEMTOJOULES_PER_PICOJOULE
        match self.objective:
            case ScheduleObjective.ENERGY:
                return energy_fj, cost.cycles
            case ScheduleObjective.TRAFFIC:
                return ceil(cost.dram_read_bits / 8) + ceil(cost.dram_written_bits / 8), energy_fj
            case ScheduleObjective.LATENCY:
                return self._cycles(cost), energy_fj
            case ScheduleObjective.EDP:
                if self.energy_fj is None or self.latency_cycles is None:
                    return energy_fj * self._cycles(cost), energy_fj
                return energy_fj * self.latency_cycles + self._cycles(cost) * float(self.energy_fj), energy_fj

    def _cycles(self, cost: NestCost) -> int:
        """While the array, or DRAM, is busy with it."""
        turn = dram_cycles(self.rates, cost.dram_read_bits, cost.dram_written_bits)
        return max(cost.cycles, turn)
