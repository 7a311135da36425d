"""Objectives of schedules, as integers."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from onchip.answer.options.mapping_objective import MappingObjective


class ObjectiveValues(Protocol):
    """Values of all objectives, for one schedule or as lower bounds for all schedules."""

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
    """The objective of a schedule: energy in fJ, latency in cycles, their product, or DRAM traffic in bytes."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"
    TRAFFIC = "traffic"

    @property
    def unit(self) -> str:
        """Return the unit of the objective's value."""
        return {"energy": "fJ", "latency": "cycles", "edp": "fJ x cycles", "traffic": "bytes"}[self]

    @property
    def of_layers(self) -> MappingObjective:
        """Return the mapping objective of a single nest.

        For traffic it is energy, since a mapping of little energy accesses DRAM rarely.
        """
        return MappingObjective.ENERGY if self is ScheduleObjective.TRAFFIC else MappingObjective(self)

    @property
    def is_timed(self) -> bool:
        """Return True if the value depends on the timeline."""
        return self in (ScheduleObjective.LATENCY, ScheduleObjective.EDP)

    def value_of(self, values: ObjectiveValues) -> int:
        """Return the objective's value for a schedule's figures, or its lower bound for a relaxation's.

        Raises AcceleratorError for an unknown energy.
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
        """Return the sort key of a schedule: the objective's value, then energy, latency and traffic.

        Among schedules of equal value the one with less energy is better. Raises AcceleratorError for an unknown
        energy; on the machine of a search all energies are stated or assumed.
        """
        return self.value_of(values), values.energy_fj, values.latency_cycles, values.traffic_bytes
