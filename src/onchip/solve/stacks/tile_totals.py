"""Equal tiles along an axis as bounds need them: how many, in each how many pixels every layer computes and sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from onchip.facts.back_calculation import AxisName
from onchip.facts.back_calculation_classes import TileClass, tiled_axis
from onchip.facts.fusable import Stack


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
    """Of tiles of so many pixels of the stack's output."""
    tiled = tiled_axis(stack, axis, tile, cached=cached)
    times = Counter(tiled.order)
    layers = {layer.name: _totals(stack, axis, at, tiled.classes, times) for at, layer in enumerate(stack.layers)}
    return AxisTotals(layers, tiled.kept, tiled.whole)


def _totals(
    stack: Stack, axis: AxisName, at: int, classes: tuple[TileClass, ...], times: Mapping[int, int]
) -> LayerTotals:
    """Classes are in the order in which tiles are."""
    layer = stack.layers[at]
    stride = axis.window(layer.reads[0]).stride
    found = Counter[tuple[int, tuple[int, ...], int, tuple[int, ...], int]]()
    inner = written = 0
    cached = [0] * len(layer.reads)
    for number, one in enumerate(classes):
        if computed := one.maps[layer.output.name].computed:
            reads = one.reads[at]
            zeros = reads[0].zeros_before, reads[0].zeros_after
            outer = sum(-(-count // stride) for count in zeros if count)
            own = max(computed - outer, 0), tuple(read.cached for read in reads), one.maps[layer.output.name].written
            found[computed, tuple(read.seen for read in reads), *own] += times[number]
            inner += times[number] * own[0]
            written += times[number] * own[2]
            cached = [known + times[number] * read.cached for known, read in zip(cached, reads, strict=True)]
    computed = sum(count * pixels for (pixels, *_), count in found.items())
    seen = zip(*([count * pixels for pixels in own] for (_, own, *_), count in found.items()), strict=True)
    most = max(pixels for pixels, *_ in found)
    slices = tuple(Slice(count, *alike) for alike, count in found.items())
    return LayerTotals(
        slices,
        slices,
        inner,
        classes[0].maps[layer.output.name].computed,
        most,
        found.total(),
        (most, tuple(map(max, zip(*(own for _, own, *_ in found), strict=True)))),
        (computed, tuple(map(sum, seen))),
        tuple(cached),
        written,
    )
