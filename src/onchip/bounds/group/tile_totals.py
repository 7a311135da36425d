"""Equal tiles along an axis as bounds need them: how many, in each how many pixels every layer computes and sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onchip.ops.derive.back_calculation import AxisName, MapUse, ReadUse, back_calculation
from onchip.ops.derive.fusable import FusableLayer, Stack


@dataclass(frozen=True, slots=True)
class Slice:
    """`times` tiles in which a layer computes and sees equally much; `seen` has a number for each of its reads.

    `inner` pixels see no zeros, `cached` ones of each read come from a cache, `written` ones go to one.
    """

    times: float
    computed: int
    seen: tuple[int, ...] = ()
    inner: int = 0
    cached: tuple[int, ...] = ()
    written: int = 0


@dataclass(frozen=True, slots=True)
class LayerTotals:
    """Over all tiles along the axis in which a layer computes anything: `inner` pixels of them see no zeros.

    `first` are those of the first tile, `most` those of any; `largest` and `total` are what it computes and sees, at
    most in a tile and in all together. `slices` are alike in both, `uses` in what they compute. Of what it sees,
    `cached` pixels come from a cache, and of what it computes `written` go to one.
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
        """Return how many pixels are computed in all tiles together."""
        return self.total[0]

    def new(self, read: int) -> int:
        """Pixels that it sees and that come from no cache, of one of its reads."""
        return self.total[1][read] - self.cached[read]


@dataclass(frozen=True, slots=True)
class AxisTotals:
    """Layers and maps by name; neighbours share `kept` pixels of a map through a cache, of the `whole` that it has."""

    layers: Mapping[str, LayerTotals]
    kept: Mapping[str, int]
    whole: Mapping[str, int]


def axis_totals(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> AxisTotals:
    """Of tiles of so many pixels of the stack's output; raises InputError as `back_calculation` does."""
    found = back_calculation(stack, axis, tile, cached=cached)
    layers = {
        layer.name: _totals(layer, axis, found.maps[layer.output.name], reads)
        for layer, reads in zip(stack.layers, found.reads, strict=True)
    }
    return AxisTotals(layers, found.kept, found.whole)


def _totals(layer: FusableLayer, axis: AxisName, output: MapUse, reads: tuple[ReadUse, ...]) -> LayerTotals:
    """What tiles have alike is in the order in which they are."""
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
