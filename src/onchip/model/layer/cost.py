"""Cost of a layer on an accelerator with a given mapping: accesses, energy, cycles.

This version follows the definition; `batch` computes the same for millions of mappings. docs/layer_cost.md states what
is counted, and `simulate.nest` counts it element by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated, summed
from onchip.arch.memory import DRAM, Access
from onchip.errors import AcceleratorError
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT
from onchip.model.accounting.accounting import INTERPRETER, Accounting, settled
from onchip.model.layer.accesses import Accesses, bits_below, layer_accesses
from onchip.model.layer.latency import Latency, latency
from onchip.model.layer.limits import array_of, checked_boundaries, needed_bits
from onchip.model.layer.ragged import Crossed, boundaries
from onchip.model.layer.tiles import Boundary

ORDER: Final = (OUTPUT, WEIGHT, INPUT)
"""Order in which operands get the remaining capacity."""


@dataclass(frozen=True, slots=True)
class LayerCost:
    """The cost of `mapping`: energies in pJ, by memory and operand and of the MACs; `macs` exclude padding.

    `mac_energy_pj` is None if the accelerator does not state it; a memory without stated access energies has no entry.
    `needed_bits` is the need of one instance of each memory for each operand.
    """

    mapping: LayerMapping
    macs: int
    accesses: tuple[Accesses, ...]
    memory_energy_pj: dict[tuple[str, str], float]
    mac_energy_pj: float | None
    latency: Latency
    units: int
    needed_bits: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def energy_pj(self) -> float:
        """Return the energy of all memories and MACs in pJ; raises AcceleratorError if it is unknown."""
        return stated(self.stated_energy_pj)

    @property
    def stated_energy_pj(self) -> float | None:
        """Return the energy in pJ, or None if the accelerator does not state one of its parts."""
        if any((one.memory, one.operand) not in self.memory_energy_pj for one in self.accesses):
            return None
        return summed((sum(self.memory_energy_pj.values()), self.mac_energy_pj))

    @property
    def cycles(self) -> float:
        """Return the cycles from the start of preloading to the end of offloading."""
        return self.latency.total

    @property
    def energy_delay_pj_cycles(self) -> float:
        """Return the energy-delay product, in pJ times cycles."""
        return self.energy_pj * self.cycles

    @property
    def utilisation(self) -> float:
        """Return the array utilisation: the layer's multiply-accumulates over units times cycles."""
        return self.macs / (self.units * self.cycles)


def layer_cost(problem: LayerProblem, mapping: LayerMapping, accounting: Accounting = INTERPRETER) -> LayerCost:
    """Return the cost of a layer's mapping.

    Raises MappingError if the mapping does not fit, AcceleratorError if the accelerator's description is incomplete.
    """
    crossed = checked_boundaries(problem, mapping, accounting)
    needs = needed_bits(problem, crossed)
    counted = crossed[OUTPUT][0].layer
    array = array_of(problem.accelerator)
    costed = settled(mapping) if accounting.counts_from_bounds else mapping
    if costed is not mapping:
        crossed = boundaries(counted, problem, costed, accounting)
    accesses = layer_accesses(problem.accelerator, crossed)
    energies: dict[tuple[str, str], float] = {}
    for one in accesses:
        key, access = (one.memory, one.operand), stated_access(problem.accelerator, one.memory)
        if access is not None:
            energies[key] = energies.get(key, 0.0) + energy_pj(one, access)
    rooms = with_room_for_two(problem, crossed) if accounting.counts_from_bounds else None
    whole = mapping.layer(problem.layer)
    in_time = crossed if counted == whole else boundaries(whole, problem, costed, accounting)
    return LayerCost(
        mapping,
        problem.layer.macs,
        accesses,
        energies,
        None if array.mac_energy_pj is None else counted.macs * array.mac_energy_pj,
        latency(problem, costed, in_time, rooms, accounting),
        array.macs,
        needs,
    )


def energy_pj(accesses: Accesses, access: Access) -> float:
    """Return the energy in pJ of one memory for one operand and move."""
    reads = accesses.move in (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)
    return accesses.words(access) * (access.read_energy_pj if reads else access.write_energy_pj)


def access_of(accelerator: Accelerator, memory: str) -> Access:
    """Return the access to a memory, or to DRAM; raises AcceleratorError if its energies are not stated."""
    access = stated_access(accelerator, memory)
    if access is None:
        place = "dram" if memory == DRAM else f"memory {memory!r}"
        expected = "access_bits, read_energy_pj and write_energy_pj"
        raise AcceleratorError("the energy of an access is not stated", place=place, expected=expected)
    return access


def stated_access(accelerator: Accelerator, memory: str) -> Access | None:
    """Return the access to a memory, or to DRAM, or None if its energies are not stated."""
    if memory == DRAM:
        return accelerator.dram.access if accelerator.dram else None
    return next(level.access for level in accelerator.levels if level.memory.name == memory)


def with_room_for_two(problem: LayerProblem, crossed: Crossed) -> frozenset[tuple[str, str]]:
    """Return the pairs of a memory and an operand with capacity for a second tile.

    A tile counts with the part in use at a time: without the outermost loops along which it moves on. If a memory's
    operands together take at most half of it, all get a second tile; else they get one in order while capacity is left.
    """
    in_use: dict[tuple[str, str], int] = {}
    for operand in (operand for operand in ORDER if operand in crossed):
        for below, boundary in pairwise(crossed[operand]):
            bits = bits_below(boundary, below) if operand == OUTPUT else boundary.layer.bits(operand)
            ((size, _),) = boundary.lower_sizes()[-1:]
            in_use[boundary.lower.memory, operand] = size * bits // _outermost_steps(boundary)
    taken = {level.memory.name: 0 for level in problem.levels}
    for (memory, _), bits in in_use.items():
        taken[memory] += bits
    capacities = {level.memory.name: problem.usable_bits(level.memory.name) for level in problem.levels}
    found = set()
    for (memory, operand), bits in in_use.items():
        if 2 * taken[memory] <= capacities[memory]:
            found.add((memory, operand))
        elif bits <= capacities[memory] - taken[memory]:
            found.add((memory, operand))
            taken[memory] += bits
    return frozenset(found)


def _outermost_steps(boundary: Boundary) -> int:
    overlapping = {loop for axis in boundary.axes for loop in (axis.output_loop, axis.filter_loop)}
    whole = [loop for loop in RELEVANT[boundary.operand] if loop not in overlapping]
    own = [
        loop
        for loop in boundary.mapping.nest[boundary.inner_cut : boundary.lower.cut]
        if loop.along is None and loop.size > 1
    ]
    kept = list(own)
    while kept and kept[-1].dimension in whole:
        kept.pop()
    return prod(loop.size for loop in own[len(kept) :])
