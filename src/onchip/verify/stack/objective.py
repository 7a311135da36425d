"""The objective value of a strategy: sums over stacks of whole femtojoules, cycles or bits, or a product of sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FEMTOJOULES_IN_A_PICOJOULE = 1000
RELATIVE_TOLERANCE = 1e-12
"""Tolerance of energies and cycles: sums of real numbers, whose last digits depend on the order of addition."""


@dataclass(frozen=True, slots=True)
class RunCost:
    """Cost of one stack: pJ (None if unknown), cycles, and bits from and to DRAM."""

    energy_pj: float | None
    cycles: float
    dram_bits: int


@dataclass(frozen=True, slots=True)
class ObjectiveRange:
    """The rounded objective value, and the least and greatest value that another order of addition may give."""

    nearest: int
    least: int
    greatest: int


def objective_range(objective: str, stacks: Sequence[RunCost]) -> ObjectiveRange:
    """Return the objective value, in fJ, cycles, their product, or bits.

    Raises ValueError for an unknown objective, or for one that needs an unknown energy.
    """
    known = [one.energy_pj for one in stacks if one.energy_pj is not None]
    if len(known) < len(stacks) and objective in ("energy", "edp"):
        raise ValueError(objective)
    energies = _rounded([FEMTOJOULES_IN_A_PICOJOULE * energy_pj for energy_pj in known])
    cycles = _rounded([one.cycles for one in stacks])
    match objective:
        case "energy":
            return ObjectiveRange(*energies)
        case "latency":
            return ObjectiveRange(*cycles)
        case "edp":
            return ObjectiveRange(*(one * other for one, other in zip(energies, cycles, strict=True)))
        case "dram":
            bits = sum(one.dram_bits for one in stacks)
            return ObjectiveRange(bits, bits, bits)
        case _:
            raise ValueError(objective)


def _rounded(values: Sequence[float]) -> tuple[int, int, int]:
    least = sum(round(value * (1 - RELATIVE_TOLERANCE)) for value in values)
    greatest = sum(round(value * (1 + RELATIVE_TOLERANCE)) for value in values)
    return sum(map(round, values)), least, greatest
