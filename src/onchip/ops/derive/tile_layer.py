"""The loop nest of a part of an operator's output: its own, with the rows and columns of the part."""

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
    """The loop nest over `tile` pixels of the output, of which the nest `layer` computes `whole`.

    `padding` are the zeros that its windows see on each side. Where pixels are no rows and columns of the nest (element
    by element), they are groups, or else of a batch that meets the same parameter or gate; these become fewer.
    """
    if (layer.p, layer.q) == whole:
        return replace(layer, p=tile[0], q=tile[1], padding=padding)
    pixels, fewer = whole[0] * whole[1], tile[0] * tile[1]
    if pixels_are_groups:
        return replace(layer, g=layer.g // pixels * fewer)
    return replace(layer, n=layer.n // pixels * fewer)
