"""The loop nest of a part of an operator's output: the operator's nest over the rows and columns of the part."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from onchip.ir.layer import Layer

Pixels: TypeAlias = tuple[int, int]
"""Rows and columns."""
Sides: TypeAlias = tuple[int, int, int, int]
"""Top, left, bottom, right."""


def layer_of_tile(
    layer: Layer, whole: Pixels, tile: Pixels, padding: Sides, *, pixels_are_groups: bool = True
) -> Layer:
    """Return the loop nest over `tile` pixels of the output; `layer` is the nest over the `whole` output.

    `padding` are the zeros that its windows see on each side. In element-wise nests, pixels are not rows and columns:
    they are groups, or a batch that meets one parameter or gate, and their number is reduced.
    """
    if (layer.p, layer.q) == whole:
        return replace(layer, p=tile[0], q=tile[1], padding=padding)
    pixels, fewer = whole[0] * whole[1], tile[0] * tile[1]
    if pixels_are_groups:
        return replace(layer, g=layer.g // pixels * fewer)
    return replace(layer, n=layer.n // pixels * fewer)
