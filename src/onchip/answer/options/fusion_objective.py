"""What a fusion strategy makes least, in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import prod
from typing import TypeAlias, TypeVar

from onchip.answer.options.mapping_objective import MappingObjective

ArrayT = TypeVar("ArrayT")
Criteria: TypeAlias = tuple[int, ...]
"""What is added up over stacks; an objective is the product of its criteria."""


class FusionObjective(StrEnum):
    """Energy in femtojoules, latency in cycles, their product, or the bits that go from and to DRAM."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"
    DRAM = "dram"

    @property
    def unit(self) -> str:
        """Return the unit of the objective's value: fJ, cycles, fJ x cycles or bits."""
        return {"energy": "fJ", "latency": "cycles", "edp": "fJ x cycles", "dram": "bits"}[self]

    @property
    def of_layers(self) -> MappingObjective:
        """What the mapping of a single layer makes least: DRAM traffic of a layer is decided outside it."""
        return MappingObjective.ENERGY if self is FusionObjective.DRAM else MappingObjective(self)

    @property
    def zero(self) -> Criteria:
        """Return the criteria of no stack at all."""
        return (0, 0) if self is FusionObjective.EDP else (0,)

    def criteria(self, energy_pj: float | None, cycles: float, dram_bits: float) -> Criteria:
        """Return the criteria of one stack: fJ, cycles or bits, two of them for the energy-delay product.

        Raises AcceleratorError if it needs an energy that is unknown (None).
        """
        match self:
            case FusionObjective.ENERGY:
                return (_femtojoules(energy_pj),)
            case FusionObjective.LATENCY:
                return (round(cycles),)
            case FusionObjective.EDP:
                return (_femtojoules(energy_pj), round(cycles))
            case FusionObjective.DRAM:
                return (round(dram_bits),)

    def of_arrays(self, energy_pj: ArrayT, cycles: ArrayT, dram_bits: ArrayT) -> tuple[ArrayT, ...]:
        """Return the criteria of many stacks, not rounded and in any unit of energy: to compare them."""
        match self:
            case FusionObjective.ENERGY:
                return (energy_pj,)
            case FusionObjective.LATENCY:
                return (cycles,)
            case FusionObjective.EDP:
                return energy_pj, cycles
            case FusionObjective.DRAM:
                return (dram_bits,)


def _femtojoules(energy_pj: float | None) -> int:
    return round(MappingObjective.ENERGY.of(energy_pj, 0))


def value_of(criteria: Criteria) -> int:
    """Return the value of criteria, in the unit of the objective."""
    return prod(criteria)


def sum_of(many: Sequence[Criteria]) -> Criteria:
    """Of stacks that run one after the other; of at least one."""
    return tuple(map(sum, zip(*many, strict=True)))
