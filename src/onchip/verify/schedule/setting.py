"""What a schedule is verified against, and what one loop nest with its mapping costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class ScheduleSetting:
    """A network as it was read, the accelerator, and the network in tiles that was derived from a schedule's stacks.

    Sums in the making have `partial_bits`.
    """

    network: Graph
    accelerator: Accelerator
    tiles: Graph
    partial_bits: int


class NestPrice(Protocol):
    """Cost of one loop nest with its mapping at its homes, in pJ, cycles, and bits that DRAM reads and writes."""

    @property
    def stated_energy_pj(self) -> float | None:
        """Return the energy of all accesses and MACs in pJ, or None if the machine does not state them."""

    @property
    def cycles(self) -> float:
        """From its beginning to its end, its own preloading and offloading among them."""

    @property
    def dram_read_bits(self) -> int:
        """Of what streams, as often as it is read."""

    @property
    def dram_written_bits(self) -> int:
        """Of what streams, sums in the making among it."""


NestPrices: TypeAlias = Callable[[LayerProblem, LayerMapping], NestPrice]
"""The model that prices a mapping; it is asked once for each that is legal."""
