"""The Pareto front of a nest's mappings over all costs that a schedule counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.model.program.compute_cost import FEMTOJOULES_PER_PICOJOULE, MemoryRates, NestCost, dram_cycles
from onchip.scheduling.mappings.mapped_nest import MappedNest, Room


@dataclass(frozen=True, slots=True)
class MappingFront:
    """The options of one nest at its homes, in the order found."""

    options: tuple[MappedNest, ...] = ()

    def with_options(self, found: Iterable[MappedNest]) -> MappingFront:
        """Return the front with other options; the first of equal ones stays."""
        options = self.options
        for one in found:
            if not any(is_no_more(known.cost, one.cost) for known in options):
                options = (*(known for known in options if not is_no_more(one.cost, known.cost)), one)
        return MappingFront(options)

    def least(self, room: Room, prices: OptionPrices) -> MappedNest | None:
        """Return the cheapest option whose workspaces fit the capacity; None if none does."""
        return min((one for one in self.options if one.fits(room)), key=lambda one: prices.of(one.cost), default=None)


def is_no_more(one: NestCost, other: NestCost) -> bool:
    """Return True if energy, cycles, DRAM bits each way, and workspaces are at most the other's.

    Then it can replace the other in any schedule, which becomes no worse (docs/schedule.md, section 9).
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
    """The marginal prices of options in a schedule, all else equal.

    Energy times latency grows by the option's energy times the schedule's `latency_cycles`, and by its cycles times the
    schedule's `energy_fj`. While these are unknown (None), the option's own product is the price.
    """

    rates: MemoryRates
    objective: ScheduleObjective
    energy_fj: int | None = None
    latency_cycles: int | None = None

    def of(self, cost: NestCost) -> tuple[float, float]:
        """Return the price of an option, and a tie-breaker."""
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
        """Return the cycles in which the array or DRAM is busy with it."""
        turn = dram_cycles(self.rates, cost.dram_read_bits, cost.dram_written_bits)
        return max(cost.cycles, turn)
