"""Objectives of fusion strategies, as integers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import prod
from typing import TypeAlias

from onchip.answer.options.mapping_objective import MappingObjective

Criteria: TypeAlias = tuple[int, ...]
"""Values that are summed over stacks; an objective is the product of its criteria."""


class FusionObjective(StrEnum):
    """The objective of a fusion strategy: energy in fJ, latency in cycles, their product, or DRAM traffic in bits."""

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
        """Return the mapping objective of a single layer; energy for DRAM traffic, which is decided outside layers."""
        return MappingObjective.ENERGY if self is FusionObjective.DRAM else MappingObjective(self)

    @property
    def zero(self) -> Criteria:
        """Return the criteria of an empty set of stacks."""
        return (0, 0) if self is FusionObjective.EDP else (0,)

    def criteria(self, energy_pj: float | None, cycles: float, dram_bits: float) -> Criteria:
        """Return the criteria of one stack: fJ, cycles or bits, two of them for the energy-delay product.

        Raises AcceleratorError if the objective needs an energy that is unknown (None).
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


def _femtojoules(energy_pj: float | None) -> int:
    return round(MappingObjective.ENERGY.of(energy_pj, 0))


def value_of(criteria: Criteria) -> int:
    """Return the value of the criteria in the unit of the objective."""
    return prod(criteria)


def sum_of(many: Sequence[Criteria]) -> Criteria:
    """Return the criteria of one or more stacks that run one after the other."""
    return tuple(map(sum, zip(*many, strict=True)))
