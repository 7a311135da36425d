"""Cost of moving a tensor between two memories of an accelerator, in the objective's unit."""

from __future__ import annotations

from typing import Final

from onchip.answer.problem import Objective, Rate, Transfers
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Dma
from onchip.errors import AcceleratorError

FEMTOJOULES_PER_PICOJOULE = 1000
TIMED_OR_POWERED: Final = frozenset({Objective.DMA_CYCLES, Objective.LATENCY, Objective.DMA_ENERGY})
"""Objectives whose transfer costs only an accelerator can state."""


def transfers_of(accelerator: Accelerator, objective: Objective) -> Transfers:
    """Return the accelerator's links, and for cycles and energy the rate of each path between its memories and DRAM.

    Raises AcceleratorError if the accelerator does not state a path's rate or an access energy.
    """
    links = tuple((link.source, link.target) for link in accelerator.links)
    rates = {Objective.DMA_CYCLES: _cycles, Objective.LATENCY: _cycles, Objective.DMA_ENERGY: _femtojoules}
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


def _femtojoules(accelerator: Accelerator, source: str, target: str) -> Rate:
    """Return the energy of reading the source and writing the target, in the shortest accesses of each."""
    read, write = _access(accelerator, source), _access(accelerator, target)
    return Rate(0, (_term(read, read.read_energy_pj), _term(write, write.write_energy_pj)))


def _term(access: Access, energy_pj: float) -> tuple[int, int]:
    """Return the bits of the shortest access and its share of a whole access' energy, to the nearest femtojoule."""
    unit_bits = access.shortest_access_bits or access.access_bits
    return unit_bits, round(energy_pj * FEMTOJOULES_PER_PICOJOULE * unit_bits / access.access_bits)


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
