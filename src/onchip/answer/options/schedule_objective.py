"""What a schedule makes least, in whole numbers."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from onchip.answer.options.mapping_objective import MappingObjective

if TYPE_CHECKING:  # what the command line offers loads no cost model
    from onchip.bounds.network.relaxation import Relaxation
    from onchip.model.program.figures import ScheduleFigures


class ScheduleObjective(StrEnum):
    """Energy in femtojoules, latency in cycles, their product, or the bytes that move from and to DRAM."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"
    TRAFFIC = "traffic"

    @property
    def unit(self) -> str:
        """The unit of its value."""
        return {"energy": "fJ", "latency": "cycles", "edp": "fJ x cycles", "traffic": "bytes"}[self]

    @property
    def of_layers(self) -> MappingObjective:
        """What a single nest's mapping makes least; where energy is least, little comes from DRAM."""
        return MappingObjective.ENERGY if self is ScheduleObjective.TRAFFIC else MappingObjective(self)

    @property
    def is_timed(self) -> bool:
        """Whether its value depends on when things happen."""
        return self in (ScheduleObjective.LATENCY, ScheduleObjective.EDP)

    def value_of(self, figures: ScheduleFigures) -> int:
        """Return the value of a schedule with these figures; raises AcceleratorError for an energy that is unknown."""
        match self:
            case ScheduleObjective.ENERGY:
                return figures.energy_fj
            case ScheduleObjective.LATENCY:
                return figures.latency_cycles
            case ScheduleObjective.EDP:
                return figures.edp
            case ScheduleObjective.TRAFFIC:
                return figures.traffic_bytes

    def bound_of(self, least: Relaxation) -> int:
        """Return what its value is at least for every schedule."""
        return {
            ScheduleObjective.ENERGY: least.energy_fj,
            ScheduleObjective.LATENCY: least.latency_cycles,
            ScheduleObjective.EDP: least.edp,
            ScheduleObjective.TRAFFIC: least.traffic_bytes,
        }[self]
