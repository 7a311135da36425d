"""What a schedule makes least, in whole numbers."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from onchip.answer.options.mapping_objective import MappingObjective


class ObjectiveValues(Protocol):
    """Values of all objectives, of one schedule or as lower bounds of all schedules."""

    @property
    def energy_fj(self) -> int:
        """Return the energy in femtojoules."""

    @property
    def latency_cycles(self) -> int:
        """Return the latency in cycles."""

    @property
    def edp(self) -> int:
        """Return energy times latency, in femtojoules x cycles."""

    @property
    def traffic_bytes(self) -> int:
        """Return the bytes read from and written to DRAM."""


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

    def value_of(self, values: ObjectiveValues) -> int:
        """Return the objective's value of a schedule's figures, or its lower bound of a relaxation's.

        Raises AcceleratorError for an energy that is unknown.
        """
        match self:
            case ScheduleObjective.ENERGY:
                return values.energy_fj
            case ScheduleObjective.LATENCY:
                return values.latency_cycles
            case ScheduleObjective.EDP:
                return values.edp
            case ScheduleObjective.TRAFFIC:
                return values.traffic_bytes

    def key_of(self, values: ObjectiveValues) -> tuple[int, int, int, int]:
        """Return the key by which schedules are compared: the objective's value, then energy, latency and traffic.

        So among schedules of one value the one with less energy is better. Raises AcceleratorError for an energy that
        is unknown; on the machine of a search all energies are stated or assumed.
        """
        return self.value_of(values), values.energy_fj, values.latency_cycles, values.traffic_bytes
