"""Equal tiles along an axis as bounds need them: how many, in each how many pixels every layer computes and sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from onchip.analysis.back_calculation import AxisName
from onchip.analysis.back_calculation_classes import TileClass, tiled_axis
from onchip.analysis.fusable import Stack


@dataclass(frozen=True, slots=True)
class Slice:
    """So many equal tiles; of each layer the pixels it computes, those of them that see no zeros, and what it sees.

    `seen` has a number for each read of the layer.
    """

    times: int
    computed: tuple[int, ...]
    inner: tuple[int, ...]
    seen: tuple[tuple[int, ...], ...]

    def of(self, at: int) -> tuple[int, tuple[int, ...]]:
        """What a layer computes and sees."""
        return self.computed[at], self.seen[at]


@dataclass(frozen=True, slots=True)
class LayerTotals:
    """Over all tiles along the axis, of a layer; `tiles` are those in which it computes anything."""

    computed: int
    inner: int
    most: int
    least: int
    tiles: int


@dataclass(frozen=True, slots=True)
class AxisTotals:
    """`loads` are the pixels of each map from outside that come in."""

    slices: tuple[Slice, ...]
    layers: tuple[LayerTotals, ...]
    loads: Mapping[str, int]

    def largest(self, at: int) -> tuple[int, tuple[int, ...]]:
        """The most that a layer computes and sees in any tile."""
        seen = zip(*(one.seen[at] for one in self.slices), strict=True)
        return max(one.computed[at] for one in self.slices), tuple(map(max, seen))

    def total(self, at: int) -> tuple[int, tuple[int, ...]]:
        """What a layer computes and sees in all tiles together."""
        seen = zip(*([one.times * pixels for pixels in one.seen[at]] for one in self.slices), strict=True)
        return self.layers[at].computed, tuple(map(sum, seen))


def axis_totals(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> AxisTotals:
    """Of tiles of so many pixels of the stack's output."""
    tiled = tiled_axis(stack, axis, tile, cached=cached)
    times = Counter(tiled.order)
    slices = tuple(_slice(stack, axis, one, times[number]) for number, one in enumerate(tiled.classes))
    loads = {
        source.name: sum(times[number] * one.maps[source.name].computed for number, one in enumerate(tiled.classes))
        for source in stack.inputs
    }
    return AxisTotals(slices, tuple(_totals(slices, at) for at in range(len(stack.layers))), loads)


def _slice(stack: Stack, axis: AxisName, one: TileClass, times: int) -> Slice:
    computed = tuple(one.maps[layer.output.name].computed for layer in stack.layers)
    inner = []
    for at, layer in enumerate(stack.layers):
        stride, read = axis.window(layer.reads[0]).stride, one.reads[at][0]
        outer = -(-read.zeros_before // stride) - (-read.zeros_after // stride)
        inner.append(max(computed[at] - outer, 0))
    return Slice(times, computed, tuple(inner), tuple(tuple(read.seen for read in reads) for reads in one.reads))


def _totals(slices: tuple[Slice, ...], at: int) -> LayerTotals:
    pixels = [(one.times, one.computed[at]) for one in slices if one.computed[at]]
    return LayerTotals(
        sum(times * here for times, here in pixels),
        sum(one.times * one.inner[at] for one in slices),
        max(here for _, here in pixels),
        min(here for _, here in pixels),
        sum(times for times, _ in pixels),
    )
