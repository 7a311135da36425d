"""CoSA's objective and capacities for one placement, equation by equation; `cosa_model` minimises it.

All sums are of binary logarithms. The constants are those of the authors' program, which made the paper's schedules;
docs/cosa.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2, prod
from typing import Final

from onchip.ir.layer import INPUT, WEIGHT
from onchip.mapping.cosa.machine import RELATED, WINDOWS, CosaMachine, CosaWeights, Place
from onchip.mapping.cosa.placement import Factor, FactorPlacement

WEIGHT_BUFFER_FACTOR: Final = 1.01
"""Factor for the buffer that weights enter straight from DRAM."""
WEIGHTS_FROM_DRAM_FACTOR: Final = 1.01
BELOW_DRAM_FACTOR: Final = 0.99
"""Factor for data sizes and spatial factors, relative to iterations."""
NEAREST_LEVEL_FACTOR: Final = 0.8
FACTOR_PER_LEVEL: Final = 0.04
"""Weight of a data size at the nearest level, and its increase per level away from the MACs."""


@dataclass(frozen=True, slots=True)
class CosaObjective:
    """The three terms of CoSA's objective, in bits."""

    utilisation: float
    compute: float
    traffic: float
    weights: CosaWeights = field(default_factory=CosaWeights)

    @property
    def total(self) -> float:
        """Return the minimised sum (Eq. 12)."""
        weights = self.weights
        return -weights.utilisation * self.utilisation + weights.compute * self.compute + weights.traffic * self.traffic


def objective_of(machine: CosaMachine, placement: FactorPlacement) -> CosaObjective:
    """Return the terms of Eq. 12."""
    terms = utilisation(machine, placement), compute(machine, placement), traffic(machine, placement)
    return CosaObjective(*terms, machine.weights)


def tile_elements(machine: CosaMachine, placement: FactorPlacement, level: int, operand: str) -> int:
    """Return the elements of an operand's tile: its factors up to this level (Eq. 1), with strides per factor."""
    inside = [place for place in machine.places if place.level <= level]
    sizes = placement.sizes(inside)
    steps = prod(machine.step(operand, loop) ** placement.copies(loop, inside) for loop in RELATED[operand])
    halo = window(machine, placement) if operand == INPUT and level == machine.input_level else 1
    return int(prod(sizes[loop] for loop in RELATED[operand]) * steps * halo)


def window(machine: CosaMachine, placement: FactorPlacement) -> int:
    """Return the factor of R and S in the input buffer's tile: 2 per on-chip factor if outputs are inside, else itself.

    As in the program, all factors below DRAM count, including those at the global buffer.
    """
    if machine.input_level is None:
        return 1
    below = [place for place in machine.places if place.level <= machine.input_level]
    on_chip = [place for place in machine.places if place.level < machine.dram]
    sizes = placement.sizes(on_chip)
    return prod(
        2 ** placement.copies(taps, on_chip) if placement.copies(outputs, below) else sizes[taps]
        for taps, outputs in WINDOWS.items()
    )


def fits(machine: CosaMachine, placement: FactorPlacement) -> bool:
    """Return True if tiles fit their memories (Eq. 2) and spatial factors fit the array (Eq. 4)."""
    return all(
        tile_elements(machine, placement, level, operand) <= most
        for level, entries in enumerate(machine.entries)
        for operand, most in entries.items()
    ) and all(prod(placement.sizes((place,)).values()) <= most for place, most in machine.units.items())


def utilisation(machine: CosaMachine, placement: FactorPlacement) -> float:
    """Return the sum of the logarithms of all tiles below the global buffer (Eq. 5)."""
    return sum(
        log2(tile_elements(machine, placement, level, operand))
        * (WEIGHT_BUFFER_FACTOR if level == machine.weight_level else 1)
        for level in range(machine.shared)
        for operand in machine.entries[level]
    )


def window_weight(machine: CosaMachine) -> float:
    """Return the negated weight of a bit of the window in Eq. 12; the input buffer may also hold weights."""
    return machine.weights.utilisation * (WEIGHT_BUFFER_FACTOR if machine.input_level == machine.weight_level else 1)


def compute(machine: CosaMachine, placement: FactorPlacement) -> float:
    """Return the logarithm of the temporal iterations (Eq. 6)."""
    return log2(prod(placement.sizes(Place(level) for level in range(machine.dram + 1)).values()))


def traffic(machine: CosaMachine, placement: FactorPlacement) -> float:
    """Return each operand's data size, spatial factors and iterations (Eq. 11), and the iterations at DRAM."""
    from_dram = log2(prod(placement.sizes((Place(machine.dram),)).values()))
    return sum(
        BELOW_DRAM_FACTOR * (data_size(machine, placement, operand) + spatial_size(machine, placement))
        + iterations(machine, placement, operand)
        + from_dram * (WEIGHTS_FROM_DRAM_FACTOR if operand == WEIGHT else 1)
        for operand in machine.layer.operands
    )


def data_size(machine: CosaMachine, placement: FactorPlacement, operand: str) -> float:
    """Return the data size moved at once to below the global buffer (Eq. 7), weighted by level."""
    total = 0.0
    for level in range(machine.shared):
        sizes = placement.sizes(place for place in machine.places if place.level == level)
        total += level_factor(level) * log2(prod(sizes[loop] for loop in RELATED[operand]))
    return total


def level_factor(level: int) -> float:
    """Return the weight of a factor at a level within Eq. 7."""
    return NEAREST_LEVEL_FACTOR + FACTOR_PER_LEVEL * level


def spatial_size(machine: CosaMachine, placement: FactorPlacement) -> float:
    """Return the spatial factors at the global buffer (Eq. 8; as in the program without A, so all loops count)."""
    spatial = (place for place in machine.units if place.level == machine.shared)
    return log2(prod(placement.sizes(spatial).values()))


def iterations(machine: CosaMachine, placement: FactorPlacement, operand: str) -> float:
    """Return the global buffer's iterations from the innermost relevant loop outwards (Eqs. 9 and 10)."""
    sizes = placement.sizes((Place(machine.shared),))
    total, moves = 0.0, False
    for loop in placement.order(machine.shared):
        moves = moves or (loop in RELATED[operand] and sizes[loop] > 1)
        total += log2(sizes[loop]) if moves else 0.0
    return total


def added_by(machine: CosaMachine, factor: Factor, place: Place) -> float:
    """Return a copy's contribution to Eq. 12 at a place, without the window and the loops that reuse."""
    (loop, prime), own = factor, log2(factor[1])
    used = moved = 0.0
    for level in range(place.level, machine.shared):
        weight = WEIGHT_BUFFER_FACTOR if level == machine.weight_level else 1
        for operand in machine.entries[level]:
            used += weight * log2(prime * machine.step(operand, loop)) * (loop in RELATED[operand])
    for operand in machine.layer.operands:
        if place.level < machine.shared:
            moved += BELOW_DRAM_FACTOR * level_factor(place.level) * own * (loop in RELATED[operand])
        elif place.level == machine.shared:
            moved += own if place.along is None else BELOW_DRAM_FACTOR * own
        else:
            moved += own * (WEIGHTS_FROM_DRAM_FACTOR if operand == WEIGHT else 1)
    computed = own if place.along is None else 0
    weights = machine.weights
    return -weights.utilisation * used + weights.compute * computed + weights.traffic * moved
