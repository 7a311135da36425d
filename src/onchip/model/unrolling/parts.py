"""Fractional units: if the array does not divide a loop, the average units that each iteration uses."""

from __future__ import annotations

from math import prod
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.ir.layer import LOOPS, Layer

DIGITS: Final = 6


def sizes_in_parts(layer: Layer, mapping: LayerMapping) -> tuple[float, ...]:
    """Return the average iterations of each loop of the nest; the mapping's bounds may exceed the layer's.

    33 channels on 32 units are 2 iterations of 16.5. If several dimensions of the array unroll a loop, the first of the
    longest gets the fraction; a loop without unrolling keeps its executed length. Raises MappingError if an iteration
    would use less than one unit.
    """
    sizes: list[float] = [loop.size for loop in mapping.nest]
    for name, bound in mapping.bounds.items():
        units = units_of(mapping, name)
        if layer.bounds[name] < bound and units:
            along = max(units, key=lambda one: units[one])
            if units[along] * layer.bounds[name] < bound:
                detail = f"{layer.bounds[name]} iterations of {name} leave units idle in {bound}"
                raise MappingError(detail, place=f"array: {along}", expected="fewer turns")
            at = next(i for i, loop in enumerate(mapping.nest) if (loop.dimension, loop.along) == (name, along))
            others = units[along] // mapping.nest[at].size
            sizes[at] = units[along] * layer.bounds[name] / bound / others
    return tuple(sizes)


def nearest(elements: float) -> int:
    """Return the nearest whole number; first rounds off differences due to the order of multiplication."""
    return round(round(elements, DIGITS))


def units_of(mapping: LayerMapping, dimension: str) -> dict[str, int]:
    """Return a loop's units by dimension of the array, in nest order, without dimensions of one unit."""
    along = [loop.along for loop in mapping.nest if loop.dimension == dimension and loop.along is not None]
    units = {
        str(name): prod(loop.size for loop in mapping.nest if (loop.dimension, loop.along) == (dimension, name))
        for name in along
    }
    return {name: size for name, size in units.items() if size > 1}


def check_parts(layer: Layer, mapping: LayerMapping) -> None:
    """Raise MappingError as `sizes_in_parts` does, at no cost if no unit is fractional."""
    if any(mapping.bounds[name] != layer.bounds[name] for name in LOOPS):
        sizes_in_parts(layer, mapping)
