"""Laws for the access energy of a memory as a function of its capacity."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import TypeAlias

from onchip.errors import AcceleratorError

GREATEST_ENERGY_PJ = 1e15
"""Upper limit for one access or one multiply-accumulate (a kilojoule), so that sums stay finite."""


def ensure_energy(name: str, energy_pj: float, place: str | None = None) -> None:
    """Raise AcceleratorError unless the energy of a single event is in the valid range, in pJ."""
    if not 0 <= energy_pj <= GREATEST_ENERGY_PJ:
        raise AcceleratorError(f"{name} is {energy_pj}", place=place, expected=f"0 to {GREATEST_ENERGY_PJ:g}")


@dataclass(frozen=True, slots=True)
class SquareRootLaw:
    """The law `base` + `per_sqrt_capacity` * sqrt(capacity in bytes), in pJ per access."""

    base: float
    per_sqrt_capacity: float

    def __post_init__(self) -> None:
        ensure_energy("base", self.base, "energy_per_access")
        ensure_energy("per_sqrt_capacity", self.per_sqrt_capacity, "energy_per_access")

    def energy_pj(self, capacity_bytes: int) -> float:
        """Return the energy of an access to a memory of that capacity, in pJ."""
        return self.base + self.per_sqrt_capacity * sqrt(capacity_bytes)


@dataclass(frozen=True, slots=True)
class EnergyTable:
    """A table of access energies in pJ by ascending capacity in bytes, with linear interpolation."""

    entries: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        if not self.entries:
            raise AcceleratorError("the table is empty", place="energy_per_access", expected="at least one capacity")
        for (before, _), (after, _) in pairwise(self.entries):
            if before >= after:
                detail = f"the table has {after} bytes after {before} bytes"
                raise AcceleratorError(detail, place="energy_per_access", expected="each capacity once, in order")
        for capacity_bytes, energy_pj in self.entries:
            ensure_energy(f"the energy at {capacity_bytes} bytes", energy_pj, "energy_per_access")

    def energy_pj(self, capacity_bytes: int) -> float:
        """Return the energy of an access in pJ; raises AcceleratorError if the capacity is outside the table."""
        known = dict(self.entries)
        if capacity_bytes in known:
            return known[capacity_bytes]
        for (below, less_pj), (above, more_pj) in pairwise(self.entries):
            if below < capacity_bytes < above:
                return less_pj + (more_pj - less_pj) * (capacity_bytes - below) / (above - below)
        raise AcceleratorError(
            f"the table gives no energy for {capacity_bytes} bytes",
            place="energy_per_access",
            expected=f"a capacity from {self.entries[0][0]} to {self.entries[-1][0]} bytes",
        )


EnergyLaw: TypeAlias = SquareRootLaw | EnergyTable
