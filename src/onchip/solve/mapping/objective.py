"""What a mapper makes least, in whole numbers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

FEMTO_PER_PICO: Final = 1000


class MappingObjective(StrEnum):
    """Energy counts in femtojoules, latency in cycles, the energy-delay product in femtojoules times cycles."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"

    def of(self, energy_pj: float, cycles: float) -> float:
        """In its unit, before rounding; infinite for a mapping that does not fit."""
        match self:
            case MappingObjective.ENERGY:
                return energy_pj * FEMTO_PER_PICO
            case MappingObjective.LATENCY:
                return cycles
            case MappingObjective.EDP:
                return energy_pj * FEMTO_PER_PICO * cycles
