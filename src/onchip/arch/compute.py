"""The array of multiply-accumulate units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final

from onchip.arch.energy_laws import ensure_energy
from onchip.errors import AcceleratorError

FREE: Final = "free"
"""Name of the single dimension of an array of free units."""
MOST_UNITS: Final = 2**40


@dataclass(frozen=True, slots=True)
class ComputeArray:
    """A compute array: either `dimensions`, the units along each spatial loop, or `free` units to be unrolled.

    A dimension named after a loop unrolls that loop. A dimension with another name (`vector`, `pe`) unrolls, in any
    product, the loops that `unrolls` lists for it, or all loops.
    """

    dimensions: Mapping[str, int] = field(default_factory=dict, hash=False)
    free: int | None = None
    mac_energy_pj: float | None = None
    unrolls: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if bool(self.dimensions) == (self.free is not None):
            raise AcceleratorError(
                "an array has either dimensions or free units", place="array", expected="one of them"
            )
        for name, units in (*self.dimensions.items(), ("free", self.macs)):
            if units <= 0:
                raise AcceleratorError(f"{name!r} has {units} units", place="array", expected="at least 1")
        if self.macs > MOST_UNITS:
            raise AcceleratorError(f"it has {self.macs:,} units", place="array", expected=f"at most {MOST_UNITS:,}")
        for name, loops in self.unrolls.items():
            if name not in self.dimensions or not loops:
                detail = f"unrolls lists {', '.join(loops) or 'nothing'} for {name!r}"
                expected = f"some of {', '.join(self.dimensions) or 'its dimensions'}" if loops else "at least one loop"
                raise AcceleratorError(detail, place="array", expected=expected)
        energy = self.mac_energy_pj
        if energy is not None:
            ensure_energy("mac_energy_pj", energy, "array")

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates per cycle."""
        return prod(self.dimensions.values()) if self.free is None else self.free

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return the number of units along each dimension; free units form one dimension."""
        return self.dimensions if self.free is None else {FREE: self.free}
