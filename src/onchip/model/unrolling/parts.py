"""Units in parts: where the array does not divide a loop, as many units as its iterations take in each turn."""

from __future__ import annotations

from math import prod
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.ir.layer import LOOPS, Layer

DIGITS: Final = 6


def sizes_in_parts(layer: Layer, mapping: LayerMapping) -> tuple[float, ...]:
    """How many iterations each loop of the nest has on average, where the mapping's bounds may exceed the layer's.

    33 channels on 32 units are 2 turns of 16.5. Of several dimensions of the array that unroll a loop the first of the
    longest has the parts; a loop that nothing unrolls is executed as long as it is. Raises MappingError where a turn
    would take less than one unit.
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
    """Whole ones. Products of parts may lie as much beside a half as the order in which they are multiplied says."""
    return round(round(elements, DIGITS))


def units_of(mapping: LayerMapping, dimension: str) -> dict[str, int]:
    """That a loop takes, by dimension of the array, in the order of the nest; those with one unit are left out."""
    along = [loop.along for loop in mapping.nest if loop.dimension == dimension and loop.along is not None]
    units = {
        str(name): prod(loop.size for loop in mapping.nest if (loop.dimension, loop.along) == (dimension, name))
        for name in along
    }
    return {name: size for name, size in units.items() if size > 1}


def check_parts(layer: Layer, mapping: LayerMapping) -> None:
    """Raises MappingError as `sizes_in_parts`, without its cost where nothing is in parts."""
    if any(mapping.bounds[name] != layer.bounds[name] for name in LOOPS):
        sizes_in_parts(layer, mapping)
