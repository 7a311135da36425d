"""The input of the verification of a schedule, and the price of one loop nest with its mapping."""

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
    """The network as read, the accelerator, and the tile graph derived from a schedule's stacks.

    Partial sums have `partial_bits`.
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
        """Return the cycles from begin to end, with the nest's own preloading and offloading."""

    @property
    def dram_read_bits(self) -> int:
        """Return the bits that streamed operands read from DRAM, with repeated reads."""

    @property
    def dram_written_bits(self) -> int:
        """Return the bits that streamed operands write to DRAM, with partial sums."""


NestPrices: TypeAlias = Callable[[LayerProblem, LayerMapping], NestPrice]
"""The cost model of mappings; it is called once for each legal mapping."""
