"""What a layer of a network costs at least by its multiply-accumulate and by its element, in tiles of some shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from onchip.arch.memory import Operand
from onchip.bounds.group.reuse_floors import ReuseFloors, reuse_floors
from onchip.bounds.group.seen_shares import share_of
from onchip.bounds.layer.layer_floors import NestFloors, OperandFloor
from onchip.ir.layer import Layer
from onchip.ops.derive.fusable import FusableLayer

TileShape: TypeAlias = tuple[Layer, tuple[float, ...], bool, bool]
"""A nest over a tile, the part of a map that each of its reads sees, whether it joins maps, whether it weighs one."""


@dataclass(frozen=True, slots=True)
class LayerFloors:
    """What a layer costs at least where no tile is larger; without weights `reuse` is None.

    Of what it sees, at least the `share` is neither skipped by a stride nor between dilated taps.
    """

    nest: NestFloors
    share: float
    input: OperandFloor
    reuse: ReuseFloors | None
    output: Mapping[str, float]


def floors_of_nest(fusable: FusableLayer, nest: NestFloors) -> LayerFloors:
    """Return the floors of a layer of a network by those of its loop nest in tiles."""
    layer = nest.layer
    has_weights = layer.has_weight and not fusable.weight_is_a_map and not has_weights_by_pixel(fusable)
    return LayerFloors(
        nest,
        min(share_of(fusable, read) for read in fusable.reads),
        nest.floor(Operand.INPUT, layer.k),
        reuse_floors(nest) if has_weights else None,
        nest.output_floor(),
    )


def shape_of_tile(fusable: FusableLayer, rows: int, columns: int) -> Layer:
    """Return the nest over a tile of so many pixels; of a layer whose pixels are groups only their product matters."""
    layer, output = fusable.layer, fusable.output
    if (layer.p, layer.q) == (output.rows, output.columns):
        return replace(layer, p=rows, q=columns, padding=(0, 0, 0, 0))
    return replace(layer, g=layer.g // (output.rows * output.columns) * rows * columns)


def adds_two_maps(fusable: FusableLayer) -> bool:
    """Return whether a layer adds one map to another, which is its second input."""
    return len(fusable.reads) > 1 and not fusable.joins


def has_weights_by_pixel(fusable: FusableLayer) -> bool:
    """Whether its pixels are groups, each with weights of its own: nothing is said of how often these are used."""
    layer, output = fusable.layer, fusable.output
    return (layer.p, layer.q) != (output.rows, output.columns)
