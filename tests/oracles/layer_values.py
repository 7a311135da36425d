"""A layer computed from its definition: the elements that each index of its loops touches, and their values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import product
from typing import TypeAlias

from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT, Axis, Layer

Element: TypeAlias = tuple[int, ...]
Buffer: TypeAlias = dict[Element, int]
"""The values of some elements."""


def outputs_of(layer: Layer, seed: int = 0) -> Buffer:
    """Return the outputs of the layer, computed from its definition."""
    outputs: Buffer = defaultdict(int)
    for indices in product(*(range(bound) for bound in layer.bounds.values())):
        index = dict(zip(layer.bounds, indices, strict=True))
        weight = value_of(WEIGHT, element_of(WEIGHT, index), seed) if layer.has_weight else 1
        touched = input_element(layer, index)
        outputs[element_of(OUTPUT, index)] += weight * (value_of(INPUT, touched, seed) if touched is not None else 0)
    return dict(outputs)


def value_of(operand: str, element: Element, seed: int) -> int:
    """Return a small number for each element; other elements tend to have others."""
    mixed = seed + (17 if operand == INPUT else 5)
    for index in element:
        mixed = (mixed * 31 + index * 7 + 3) % 10007
    return mixed % 97 - 48


def element_of(operand: str, index: Mapping[str, int]) -> Element:
    """Return the element of the weight or the output that an index of all loops touches."""
    return tuple(index[loop] for loop in RELEVANT[operand])


def input_element(layer: Layer, index: Mapping[str, int]) -> Element | None:
    """Return the element of the input that an index of all loops touches; None for a padded zero."""
    place = [position_of(axis, index) for axis in layer.axes]
    if any(not 0 <= at < axis.size for at, axis in zip(place, layer.axes, strict=True)):
        return None
    return (index["N"], index["G"], index["C"], *place)


def position_of(axis: Axis, index: Mapping[str, int]) -> int:
    """Return the row or column of the input; positions outside [0, size) are padding."""
    return index[axis.output_loop] * axis.stride + index[axis.filter_loop] * axis.dilation - axis.padding
