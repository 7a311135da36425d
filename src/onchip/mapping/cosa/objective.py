"""CoSA's objective and capacities of one placement, equation by equation; `cosa_model` finds the least.

All sums are of binary logarithms. The constants beside the equations are those of the authors' program, with which
the paper's schedules were made; docs/cosa.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2, prod
from typing import Final

from onchip.ir.layer import INPUT, WEIGHT
from onchip.mapping.cosa.machine import RELATED, WINDOWS, CosaMachine, CosaWeights, Place
from onchip.mapping.cosa.placement import Factor, FactorPlacement

WEIGHT_BUFFER_FACTOR: Final = 1.01
"""The buffer that weights reach straight from DRAM counts this much more."""
WEIGHTS_FROM_DRAM_FACTOR: Final = 1.01
BELOW_DRAM_FACTOR: Final = 0.99
"""Data sizes and spatial factors count this much less than iterations."""
NEAREST_LEVEL_FACTOR: Final = 0.8
FACTOR_PER_LEVEL: Final = 0.04
"""A data size counts more where its factor is farther from the MACs."""


@dataclass(frozen=True, slots=True)
class CosaObjective:
    """The three terms, in bits."""

    utilisation: float
    compute: float
    traffic: float
    weights: CosaWeights = field(default_factory=CosaWeights)

    @property
    def total(self) -> float:
        """What is minimised (Eq. 12)."""
        weights = self.weights
        return -weights.utilisation * self.utilisation + weights.compute * self.compute + weights.traffic * self.traffic


def objective_of(machine: CosaMachine, placement: FactorPlacement) -> CosaObjective:
    """The terms of Eq. 12."""
    terms = utilisation(machine, placement), compute(machine, placement), traffic(machine, placement)
    return CosaObjective(*terms, machine.weights)


def tile_elements(machine: CosaMachine, placement: FactorPlacement, level: int, operand: str) -> int:
    """Of an operand in a memory: its factors up to this level (Eq. 1); strides multiply for each factor."""
    inside = [place for place in machine.places if place.level <= level]
    sizes = placement.sizes(inside)
    steps = prod(machine.step(operand, loop) ** placement.copies(loop, inside) for loop in RELATED[operand])
    halo = window(machine, placement) if operand == INPUT and level == machine.input_level else 1
    return int(prod(sizes[loop] for loop in RELATED[operand]) * steps * halo)


def window(machine: CosaMachine, placement: FactorPlacement) -> int:
    """What R and S add to the input buffer's tile: 2 per factor on the chip if outputs are inside, else the factor.

    The program counts here all factors that are not at DRAM, those at the global buffer too.
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
    """Whether tiles fit their memories (Eq. 2) and side-by-side factors the array (Eq. 4)."""
    return all(
        tile_elements(machine, placement, level, operand) <= most
        for level, entries in enumerate(machine.entries)
        for operand, most in entries.items()
    ) and all(prod(placement.sizes((place,)).values()) <= most for place, most in machine.units.items())


def utilisation(machine: CosaMachine, placement: FactorPlacement) -> float:
    """The logarithms of all tiles below the global buffer (Eq. 5)."""
    return sum(
        log2(tile_elements(machine, placement, level, operand))
        * (WEIGHT_BUFFER_FACTOR if level == machine.weight_level else 1)
        for level in range(machine.shared)
        for operand in machine.entries[level]
    )


def window_weight(machine: CosaMachine) -> float:
    """What a bit of the window counts in Eq. 12, negated: it is in the input buffer, where weights may lie, too."""
    return machine.weights.utilisation * (WEIGHT_BUFFER_FACTOR if machine.input_level == machine.weight_level else 1)


def compute(machine: CosaMachine, placement: FactorPlacement) -> float:
    """The iterations one after the other (Eq. 6)."""
    return log2(prod(placement.sizes(Place(level) for level in range(machine.dram + 1)).values()))


def traffic(machine: CosaMachine, placement: FactorPlacement) -> float:
    """Data size, spatial factors and iterations of each operand (Eq. 11), and the iterations at DRAM."""
    from_dram = log2(prod(placement.sizes((Place(machine.dram),)).values()))
    return sum(
        BELOW_DRAM_FACTOR * (data_size(machine, placement, operand) + spatial_size(machine, placement))
        + iterations(machine, placement, operand)
        + from_dram * (WEIGHTS_FROM_DRAM_FACTOR if operand == WEIGHT else 1)
        for operand in machine.layer.operands
    )


def data_size(machine: CosaMachine, placement: FactorPlacement, operand: str) -> float:
    """What moves at once to below the global buffer (Eq. 7), each level with its factor."""
    total = 0.0
    for level in range(machine.shared):
        sizes = placement.sizes(place for place in machine.places if place.level == level)
        total += level_factor(level) * log2(prod(sizes[loop] for loop in RELATED[operand]))
    return total


def level_factor(level: int) -> float:
    """The weight of a factor at a level within Eq. 7."""
    return NEAREST_LEVEL_FACTOR + FACTOR_PER_LEVEL * level


def spatial_size(machine: CosaMachine, placement: FactorPlacement) -> float:
    """The factors side by side at the global buffer (Eq. 8; the program leaves A out, so unrelated ones count too)."""
    spatial = (place for place in machine.units if place.level == machine.shared)
    return log2(prod(placement.sizes(spatial).values()))


def iterations(machine: CosaMachine, placement: FactorPlacement, operand: str) -> float:
    """The global buffer's loops from the innermost related one on outwards (Eqs. 9 and 10)."""
    sizes = placement.sizes((Place(machine.shared),))
    total, moves = 0.0, False
    for loop in placement.order(machine.shared):
        moves = moves or (loop in RELATED[operand] and sizes[loop] > 1)
        total += log2(sizes[loop]) if moves else 0.0
    return total


def added_by(machine: CosaMachine, factor: Factor, place: Place) -> float:
    """What one copy of a factor at a place adds to Eq. 12, but for the window and for the loops that reuse."""
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
