"""The verdict on a schedule: violations, figures of a legal schedule, and properties that were not checked."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.verify.rules import Violation
from onchip.verify.schedule.machine import FEMTOJOULES_PER_PICOJOULE


@dataclass(frozen=True, slots=True)
class VerifiedFigures:
    """The figures of a legal schedule: fJ, bytes, cycles; `arenas` gives each memory its highest end address.

    The energy is None if the machine does not state all energies of it.
    """

    energy_fj: int | None
    latency_cycles: int
    traffic_bytes: int
    peak_bytes: int
    arenas: tuple[tuple[str, int], ...]

    @property
    def energy_pj(self) -> float | None:
        """Return the energy in picojoules, or None if it is unknown."""
        return None if self.energy_fj is None else self.energy_fj / FEMTOJOULES_PER_PICOJOULE

    @property
    def edp(self) -> int | None:
        """Return energy times latency, in fJ x cycles, or None if the energy is unknown."""
        return None if self.energy_fj is None else self.energy_fj * self.latency_cycles

    def objective_value(self, objective: str) -> int | None:
        """Return the value of `energy`, `latency`, `edp` or `traffic`; raises LookupError for another objective."""
        values = {
            "energy": self.energy_fj,
            "latency": self.latency_cycles,
            "edp": self.edp,
            "traffic": self.traffic_bytes,
        }
        return values[objective]


@dataclass(frozen=True, slots=True)
class ScheduleVerdict:
    """The verdict on a schedule, which is legal, with true claims, exactly if there are no violations.

    `figures` is None for an illegal schedule. `not_checked` lists what was taken on trust.
    """

    violations: tuple[Violation, ...]
    figures: VerifiedFigures | None
    not_checked: tuple[str, ...]

    @property
    def is_legal(self) -> bool:
        """Return True if there are no violations."""
        return not self.violations
