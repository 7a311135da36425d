"""A fusion strategy with what it was made from and what its maker claims: what a strategy file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from onchip.answer.document import Granularity, Source
from onchip.answer.result import Status
from onchip.answer.stacks import FusionStrategy


class CostModel(StrEnum):
    """How energy and cycles of a layer in a tile are counted; docs/layer_cost.md has both."""

    ONCHIP = "onchip"
    DEFINES = "defines"


@dataclass(frozen=True, slots=True)
class StrategyFigures:
    """What running a network as a strategy says costs; `macs` with those that are computed again.

    The objective is in femtojoules, cycles, the product of both, or the bits that DRAM reads and writes.
    """

    objective_value: float
    energy_pj: float
    latency_cycles: float
    macs: int
    dram_bits: int


@dataclass(frozen=True, slots=True)
class StrategyClaim:
    """What the maker of a strategy says of it; the bound holds among the strategies that `space` names."""

    status: Status
    objective: str
    figures: StrategyFigures
    lower_bound: float
    space: str = ""


@dataclass(frozen=True, slots=True)
class StrategyReading:
    """How a network file becomes layers, and what maps each layer's tiles onto the array.

    `bits` of an element of every operand, `partial_bits` of a sum in the making (None: 16 more, up to 32); `dims` binds
    symbolic dimensions; by `DEFINES` layers are unrolled by DeFiNES's rule, too.
    """

    bits: int = 8
    partial_bits: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict, hash=False)
    granularity: Granularity = Granularity.FUSED
    mapper: str = "exact"
    model: CostModel = CostModel.ONCHIP


@dataclass(frozen=True, slots=True)
class StrategyDocument:
    """Everything a strategy file says; `claim` may be absent in those of other tools."""

    network: Source
    accelerator: Source
    reading: StrategyReading
    strategy: FusionStrategy
    claim: StrategyClaim | None = None
