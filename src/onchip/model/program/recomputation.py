"""The cost of transfers and of repeated runs of operators in a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Final

from onchip.answer.options.mapping_objective import FEMTO_PER_PICO
from onchip.answer.problem import Objective, Rate, Recomputation, Transfers
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Dma
from onchip.errors import AcceleratorError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.model.timeline.mac_count import MACS, SimpleCost, cycles_by_model

TIMED_OR_POWERED: Final = frozenset({Objective.DMA_CYCLES, Objective.LATENCY, Objective.DMA_ENERGY})
"""Objectives whose transfer costs only an accelerator can state."""


def transfers_of(accelerator: Accelerator, objective: Objective) -> Transfers:
    """Return the accelerator's links, and for cycles and energy the rate of each path between its memories and DRAM.

    Raises AcceleratorError if the accelerator does not state a path's rate or an access energy.
    """
    links = tuple((link.source, link.target) for link in accelerator.links)
    rates = {Objective.DMA_CYCLES: _cycles, Objective.LATENCY: _cycles, Objective.DMA_ENERGY: _copy_femtojoules}
    rate_of = rates.get(objective)
    if rate_of is None:
        return Transfers(links)
    names = [memory.name for memory in accelerator.scratchpads]
    ways = [*((DRAM, name) for name in names), *((name, DRAM) for name in names), *links]
    return Transfers(links, {(source, target): rate_of(accelerator, source, target) for source, target in ways})


def _cycles(accelerator: Accelerator, source: str, target: str) -> Rate:
    """Return the set-up and the bits per cycle of the slower end or the link."""
    setup_cycles = (accelerator.dma or Dma()).setup_cycles
    return Rate(setup_cycles, ((accelerator.bits_per_cycle(source, target), 1),))


def _copy_femtojoules(accelerator: Accelerator, source: str, target: str) -> Rate:
    """Return the energy of reading the source and writing the target, in the shortest accesses of each."""
    read, write = _access(accelerator, source), _access(accelerator, target)
    return Rate(0, (_term(read, read.read_energy_pj), _term(write, write.write_energy_pj)))


def _term(access: Access, energy_pj: float) -> tuple[int, int]:
    """Return the bits of the shortest access and its share of a whole access' energy, to the nearest femtojoule."""
    unit_bits = access.shortest_access_bits or access.access_bits
    return unit_bits, round(energy_pj * FEMTO_PER_PICO * unit_bits / access.access_bits)


def _access(accelerator: Accelerator, memory: str) -> Access:
    if memory == DRAM:
        access = accelerator.dram.access if accelerator.dram else None
    else:
        (access,) = (level.access for level in accelerator.levels if level.memory.name == memory)
    if access is None:
        raise AcceleratorError(
            "it does not say what its DRAM's accesses cost"
            if memory == DRAM
            else f"it does not say what accesses to memory {memory!r} cost",
            place=f"accelerator {accelerator.name!r}",
            expected="access_bits, read_energy_pj and write_energy_pj, or an objective without energy, such as traffic",
        )
    return access


CYCLES_PER_PRICE: Final = 1_000_000
BITS_PER_BYTE: Final = 8
_ONE_UNIT: Final = ComputeArray(free=1)
"""Substitute for a missing array: one multiply-accumulate, or one element, per cycle."""


def recomputation_on(
    accelerator: Accelerator, graph: Graph, objective: Objective, cost: str = MACS, price: float | None = None
) -> Recomputation:
    """Return the costs of recomputing the operators of a graph on an accelerator (docs/recomputation.md).

    Cycles come from the file, or from the cost model `cost`; without an array a multiply-accumulate takes one. With the
    objectives RECOMPUTATION and DMA_CYCLES they are the cost; with TRAFFIC the cost is the bytes that DRAM could move
    meanwhile; with DMA_ENERGY the energy of the multiply-accumulates, or that of the file. `price`, in the objective's
    unit per million cycles, overrides this.

    Raises UsageError for a price below 0, or one for an objective in cycles; UsageError or AcceleratorError if no cost
    is stated.
    """
    with_array = accelerator if accelerator.array else replace(accelerator, array=_ONE_UNIT, levels=())
    cycles = cycles_by_model(cost, graph, with_array)
    if price is not None:
        share = _checked(price, objective)
        return _costs(graph, lambda operator: ceil(cycles(operator) * share))
    if objective is Objective.TRAFFIC:
        share = Fraction(_dram_bits_per_cycle(accelerator), BITS_PER_BYTE)
        return _costs(graph, lambda operator: ceil(cycles(operator) * share))
    return _costs(graph, _femtojoules(accelerator, graph) if objective is Objective.DMA_ENERGY else cycles)


def _costs(graph: Graph, cost: Callable[[Operator], int]) -> Recomputation:
    return Recomputation({operator.name: cost(operator) for operator in graph.operators})


def _checked(price: float, objective: Objective) -> Fraction:
    """Return the price of one cycle; raises UsageError for an invalid one."""
    place = "recompute_price"
    if not 0 <= price < float("inf"):
        raise UsageError(f"{price} is invalid", place=place, expected="a number of at least 0")
    if objective is Objective.RECOMPUTATION:
        what = f"the objective {objective} counts cycles as they are"
        raise UsageError(what, place=place, expected="another objective, or no price")
    return Fraction(price) / CYCLES_PER_PRICE


def _dram_bits_per_cycle(accelerator: Accelerator) -> int:
    """Return the bits per cycle from DRAM to the first scratchpad; raises UsageError if they are unknown."""
    try:
        return accelerator.bits_per_cycle(DRAM, accelerator.scratchpads[0].name)
    except AcceleratorError as error:
        raise UsageError(
            "a memory size states no DRAM bandwidth, which prices operators that run again",
            place="recompute allowed",
            expected="`recompute_price`, the cost of a million cycles, or an accelerator with DRAM's ports",
        ) from error


def _femtojoules(accelerator: Accelerator, graph: Graph) -> Callable[[Operator], int]:
    """Return the energy model: the file's energy, or that of the multiply-accumulates (elements if there are none)."""
    mac_pj = accelerator.array.mac_energy_pj if accelerator.array else None
    work = SimpleCost(graph, replace(accelerator, array=_ONE_UNIT, levels=()))

    def cost(operator: Operator) -> int:
        energy_pj = operator.stated.energy_pj
        if energy_pj is None:
            if mac_pj is None:
                raise AcceleratorError(
                    f"nothing says what energy operator {operator.name!r} takes",
                    place=f"accelerator {accelerator.name!r}",
                    expected="`mac_energy_pj` of its array, energy stated in the network's file, or `recompute_price`",
                )
            energy_pj = work.cycles(operator) * mac_pj
        return ceil(energy_pj * FEMTO_PER_PICO)

    return cost
