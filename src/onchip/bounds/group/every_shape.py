"""What weights and maps of a layer cost at least in tiles of any shapes: not each apart, but together in one shape.

Weights cost least in large tiles, which serve many pixels with each of them, maps in small ones, which have room near
the units. So a layer has a price of a pixel: the least of both together in any shape of tile, over its pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from onchip.arch.memory import DRAM
from onchip.bounds.group.axis_grids import LayerAxis
from onchip.bounds.group.layer_bounds import LayerBounds, MapPlaces
from onchip.bounds.group.layer_grids import LayerGrids, Reads
from onchip.ir.layer import Layer
from onchip.ir.window import Window
from onchip.ops.derive.back_calculation import AxisName
from onchip.ops.derive.fusable import FeatureMap, FusableLayer

MOST_SHAPES: Final = 2**16
"""Of a layer of larger maps nothing is said."""
_Seen: TypeAlias = tuple[Window, Window, int, int]
"""Of a read: its windows, and the map's rows and columns."""
_Key: TypeAlias = tuple[Layer, int, tuple[_Seen, ...], Reads, bool, bool, int]


@dataclass(slots=True)
class EveryShape:
    """Floors of layers over all shapes of tiles, for mappings in which every memory keeps what it holds."""

    bounds: LayerBounds
    maps: Mapping[str, FeatureMap]
    _grids: LayerGrids = field(init=False)
    _known: dict[_Key, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._grids = LayerGrids(self.bounds)

    def knows(self, layer: FusableLayer) -> bool:
        """Return whether something is said of a layer: it runs in tiles, has not too many shapes, and all is kept."""
        sharing = self.bounds.machine.sharing
        keeps = sharing.every_memory_keeps and not sharing.is_of_every_shape
        return keeps and not layer.runs_alone and layer.output.rows * layer.output.columns <= MOST_SHAPES

    def energy_pj(self, layer: FusableLayer, pixels: int, loaded: set[str], *, leaves: bool) -> float:
        """Return the least energy of its weights, of what it sees of maps that are not `loaded`, and of its output.

        At least so many `pixels` of the output are computed; where it `leaves` the network it goes to DRAM.
        """
        reads = tuple(
            (number, read.channels_seen(self.maps[read.source].channels))
            for number, read in enumerate(layer.reads)
            if read.source not in loaded
        )
        key = layer.layer, layer.output.bits, self._windows(layer), reads, layer.joins, leaves, pixels
        if key not in self._known:
            rows, columns = (
                _sizes_along(
                    axis.pixels(layer.output),
                    [(axis.window(read), axis.pixels(self.maps[read.source])) for read in layer.reads],
                )
                for axis in (AxisName.ROWS, AxisName.COLUMNS)
            )
            places = MapPlaces(DRAM if leaves else None)
            self._known[key] = self._grids.in_any_tiles_pj(layer, rows, columns, reads, places, pixels)
        return self._known[key]

    def _windows(self, layer: FusableLayer) -> tuple[_Seen, ...]:
        maps = [self.maps[read.source] for read in layer.reads]
        return tuple(
            (read.rows, read.columns, one.rows, one.columns) for read, one in zip(layer.reads, maps, strict=True)
        )


def _sizes_along(pixels: int, reads: list[tuple[Window, int]]) -> LayerAxis:
    """Tiles of every size along an axis, each seeing as little as it does anywhere; nothing is cached."""
    nothing, sizes = np.zeros(pixels), np.arange(1, pixels + 1)
    seen = np.array([[_least_seen(window, size, of, pixels) for of in sizes.tolist()] for window, size in reads], float)
    return LayerAxis(np.eye(pixels), sizes.astype(float), nothing, nothing, seen, np.zeros_like(seen), sizes - 1, seen)


def _least_seen(window: Window, size: int, tile: int, pixels: int) -> int:
    """Of a map of this size by so many pixels of the output next to each other, wherever they are."""
    positions, first = size * window.repeat, np.arange(pixels - tile + 1) * window.stride - window.pad
    begins = np.clip(first, 0, positions) // window.repeat
    ends = -(-np.clip(first + (tile - 1) * window.stride + window.reach, 0, positions) // window.repeat)
    return int((ends - begins).min())
