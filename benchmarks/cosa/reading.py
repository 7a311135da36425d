"""CoSA's objective of a mapping, term by term."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from math import log2, prod

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.arch.accelerator import Accelerator
from onchip.ir.layer import INPUT, WEIGHT, Layer
from onchip.mapping.cosa.program import (
    BELOW_DRAM_FACTOR,
    GIVEN_ORDER,
    RELATED,
    WEIGHT_BUFFER_FACTOR,
    WEIGHTS_FROM_DRAM_FACTOR,
    WINDOWS,
    CosaMachine,
    CosaWeights,
    Factor,
    FactorPlacement,
    Place,
    factors_of,
    level_factor,
)
from onchip.model.unrolling.unrolling import prime_counts


def cosa_objective(
    layer: Layer, accelerator: Accelerator, mapping: LayerMapping, *, must_fit: bool = True
) -> CosaObjective:
    """CoSA's terms of any mapping whose operands are cut at the same places; factors of 1 stand where they are best.

    Raises MappingError where the cuts differ, or, if they must, the tiles do not fit as CoSA counts them,
    AcceleratorError for a machine that is no chain of levels.
    """
    machine = CosaMachine.of(mapping.layer(layer), accelerator)
    found = [objective_of(machine, one) for one in _placements(machine, mapping) if not must_fit or fits(machine, one)]
    if not found:
        raise MappingError("its tiles do not fit as CoSA counts them", place="mapping", expected="smaller ones")
    return min(found, key=lambda objective: objective.total)


def _placements(machine: CosaMachine, mapping: LayerMapping) -> Iterator[FactorPlacement]:
    counts: dict[tuple[Factor, Place], int] = {}
    levels = _levels(machine, mapping)
    first_at: dict[int, dict[str, None]] = {}
    for loop, level in zip(mapping.nest, levels, strict=True):
        if loop.along is None and loop.size > 1:
            first_at.setdefault(level, {})[loop.dimension] = None
        place = Place(level, loop.along)
        for prime, count in prime_counts(loop.size).items():
            key = (loop.dimension, prime), place
            counts[key] = counts.get(key, 0) + count
    orders = {level: (*first, *(n for n in GIVEN_ORDER if n not in first)) for level, first in first_at.items()}
    ones = [factor for factor in factors_of(mapping.bounds) if factor[1] == 1]
    choices = [[place for place in machine.places if machine.may_hold(place, *factor)] for factor in ones]
    for chosen in product(*choices):
        placed = dict.fromkeys(zip(ones, chosen, strict=True), 1)
        yield FactorPlacement(counts | placed, orders)


def _levels(machine: CosaMachine, mapping: LayerMapping) -> list[int]:
    """Return the level of each loop.

    A spatial loop is at the first level that serves it, a temporal one at the level whose cut is above it. Raises
    MappingError.
    """
    cuts: dict[str, int] = {}
    for operand in machine.layer.operands:
        for kept in mapping.kept(operand):
            if cuts.setdefault(kept.memory, kept.loops) != kept.loops:
                expected = "the same of all operands, as CoSA has it"
                raise MappingError(
                    f"{kept.memory!r} cuts its operands at different loops", place="mapping", expected=expected
                )
    ends = [cuts.get(name) for name in machine.names]
    served = {place.along: place.level for place in machine.units}
    levels = []
    for index, loop in enumerate(mapping.nest):
        inside = (level for level, end in enumerate(ends) if end is not None and index < end)
        levels.append(served[loop.along] if loop.along else next(inside, machine.dram))
    return levels


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
