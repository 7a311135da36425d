"""Totals over equal tiles along an axis, for bounds: number of tiles, and pixels that each layer computes and sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onchip.ops.fusable import AxisName, FusableLayer, MapUse, ReadUse, Stack, back_calculation


@dataclass(frozen=True, slots=True)
class Slice:
    """A class of `times` tiles with equal pixel counts in a layer.

    `computed` pixels, of which the windows of `inner` pixels see no zeros and `written` go to a cache. `seen` pixels by
    read, of which `cached` come from a cache.
    """

    times: float
    computed: int
    seen: tuple[int, ...] = ()
    inner: int = 0
    cached: tuple[int, ...] = ()
    written: int = 0


@dataclass(frozen=True, slots=True)
class LayerTotals:
    """Totals over all tiles along an axis in which a layer computes at least one pixel.

    `first` is the number of pixels computed in the first tile, `most` the maximum of any tile. `largest` and `total`
    are the pixels computed and seen (by read): the maximum of a tile, and the sum. `inner` computed pixels see no
    zeros. Tiles of one of the `slices` compute and see equally many pixels; tiles of one of the `uses` compute equally
    many. `cached` pixels by read come from a cache, and `written` pixels go to one.
    """

    slices: tuple[Slice, ...]
    uses: tuple[Slice, ...]
    inner: int
    first: int
    most: int
    tiles: int
    largest: tuple[int, tuple[int, ...]]
    total: tuple[int, tuple[int, ...]]
    cached: tuple[int, ...]
    written: int = 0

    @property
    def computed(self) -> int:
        """Return the number of pixels computed in all tiles together."""
        return self.total[0]

    def new(self, read: int) -> int:
        """Return the number of pixels that one of the layer's reads sees and that come from no cache."""
        return self.total[1][read] - self.cached[read]


@dataclass(frozen=True, slots=True)
class AxisTotals:
    """Totals by layer name, and by map name the pixels that neighbours share in a cache (`kept`) and all (`whole`)."""

    layers: Mapping[str, LayerTotals]
    kept: Mapping[str, int]
    whole: Mapping[str, int]


def axis_totals(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> AxisTotals:
    """Return the totals for tiles of `tile` pixels of the stack's output.

    Raises InputError as `back_calculation` does.
    """
    found = back_calculation(stack, axis, tile, cached=cached)
    layers = {
        layer.name: _totals(layer, axis, found.maps[layer.output.name], reads)
        for layer, reads in zip(stack.layers, found.reads, strict=True)
    }
    return AxisTotals(layers, found.kept, found.whole)


def _totals(layer: FusableLayer, axis: AxisName, output: MapUse, reads: tuple[ReadUse, ...]) -> LayerTotals:
    """Return the totals of a layer. Its slices are in the order of their first tiles."""
    stride, pixels = axis.window(layer.reads[0]).stride, output.computed.lengths
    outer = -(-reads[0].zeros_before // stride) - (-reads[0].zeros_after // stride)
    inner = np.maximum(pixels - outer, 0)
    seen, cached = [read.seen.lengths for read in reads], [read.cached for read in reads]
    table = np.stack([pixels, *seen, inner, *cached, output.written])[:, pixels > 0]
    count, behind = len(reads), 2 + len(reads)
    found = Counter(map(tuple, table.T.tolist()))
    slices = tuple(
        Slice(times, own[0], own[1 : 1 + count], own[1 + count], own[behind:-1], own[-1])
        for own, times in found.items()
    )
    most, total = table.max(axis=1).tolist(), table.sum(axis=1).tolist()
    return LayerTotals(
        slices,
        slices,
        total[1 + count],
        int(pixels[0]),
        most[0],
        table.shape[1],
        (most[0], tuple(most[1 : 1 + count])),
        (total[0], tuple(total[1 : 1 + count])),
        tuple(total[behind:-1]),
        total[-1],
    )
