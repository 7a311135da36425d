"""What a schedule is verified against, and what one loop nest with its mapping costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.errors import UsageError
from onchip.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class ScheduleQuestion:
    """A network as it was read, the accelerator, and the network in tiles that was derived from a schedule's stacks.

    Sums in the making have `partial_bits`.
    """

    network: Graph
    accelerator: Accelerator
    tiles: Graph
    partial_bits: int


@dataclass(frozen=True, slots=True)
class NestPrice:
    """What one loop nest costs with its mapping at its homes, in pJ, cycles, and bits that DRAM reads and writes.

    Raises UsageError for a negative figure.
    """

    energy_pj: float
    cycles: float
    dram_read_bits: int
    dram_written_bits: int

    def __post_init__(self) -> None:
        if min(self.energy_pj, self.cycles, self.dram_read_bits, self.dram_written_bits) < 0:
            raise UsageError("a loop nest costs less than nothing", expected="figures of at least 0")


NestPrices: TypeAlias = Callable[[LayerProblem, LayerMapping], NestPrice]
"""The model that prices a mapping; it is asked once for each that is legal."""
