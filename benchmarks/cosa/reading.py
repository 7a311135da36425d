"""A mapping read back as CoSA's placement, to say what CoSA thinks of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.arch.accelerator import Accelerator
from onchip.ir.layer import Layer
from onchip.mapping.cosa.machine import GIVEN_ORDER, CosaMachine, Factor, FactorPlacement, Place, factors_of
from onchip.mapping.cosa.model import CosaObjective, fits, objective_of
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
