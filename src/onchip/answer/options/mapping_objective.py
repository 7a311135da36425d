"""Objectives of layer mappings, as integers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from onchip.arch.energies import stated

FEMTO_PER_PICO: Final = 1000


class MappingObjective(StrEnum):
    """The objective of a mapping: energy in fJ, latency in cycles, or the energy-delay product in fJ x cycles."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"

    def of(self, energy_pj: float | None, cycles: float) -> float:
        """Return the value in the objective's unit, before rounding; infinite for a mapping that does not fit.

        Raises AcceleratorError if the objective needs an energy that is unknown (None).
        """
        match self:
            case MappingObjective.ENERGY:
                return stated(energy_pj) * FEMTO_PER_PICO
            case MappingObjective.LATENCY:
                return cycles
            case MappingObjective.EDP:
                return stated(energy_pj) * FEMTO_PER_PICO * cycles
