"""Equal tiles of any size between two along an axis: at least so many pixels, at most so large tiles.

Away from its ends, a tile of `t` pixels of the stack's output needs `(t - 1) * pace + reach` of a feature map; what two
neighbours both need is `reach - pace`. docs/fusion.md, section 4, says why no tiling in between has less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from onchip.bounds.group.tile_totals import AxisTotals, LayerTotals, Slice
from onchip.ops.derive.back_calculation import AxisName
from onchip.ops.derive.fusable import FusableLayer, Stack


@dataclass(frozen=True, slots=True)
class _Needed:
    """Pixels of a map that pixel `x` of the stack's output needs: `[x * pace + start, x * pace + stop)`.

    Of the pixels of the output, `before` and `behind` are near enough to the first and to the last for an end of any
    map on the way to cut that off.
    """

    pace: int
    start: int
    stop: int
    before: int
    behind: int

    @property
    def reach(self) -> int:
        """How many one pixel needs."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Tiles of `least` to `most` of the `pixels` of a stack's output."""

    least: int
    most: int
    pixels: int

    @property
    def fewest_tiles(self) -> int:
        """Return how many tiles of the greatest size cover the output."""
        return -(-self.pixels // self.most)

    @property
    def longest_first(self) -> int:
        """The first tile is what the others leave, of which there are at least as many as are fewest."""
        return min(self.most, self.pixels - (self.fewest_tiles - 1) * self.least)


def range_totals(stack: Stack, axis: AxisName, sizes: SizeRange, whole: AxisTotals, *, cached: bool) -> AxisTotals:
    """What is true of each size of the range, for bounds; `whole` is that of one tile.

    Of caches only that what several layers read may come from there. No layer may skip pixels, and all branches have to
    be `paced_alike`.
    """
    needed = _needed(stack, axis)
    readers = Counter(read.source for layer in stack.layers for read in layer.reads)
    layers = {}
    for layer in stack.layers:
        own = whole.layers[layer.name]
        found = _of_layer(layer, axis, needed[layer.output.name], sizes, own, cached=cached)
        alone = [readers[read.source] == 1 for read in layer.reads]
        from_caches = (0 if is_alone else seen for is_alone, seen in zip(alone, own.total[1], strict=True))
        layers[layer.name] = replace(found, cached=tuple(from_caches))
    return AxisTotals(layers, {}, whole.whole)


def paced_alike(stack: Stack) -> bool:
    """Whether pixels of a map stand for equally many of the output's, whatever way leads there.

    They do not where all pixels see the same one, and of pixels that are repeated that is not said.
    """
    reads = [read for layer in stack.layers for read in layer.reads]
    windows = [axis.window(read) for axis in AxisName for read in reads]
    if not all(window.stride and window.repeat == 1 for window in windows):
        return False
    return all(
        needed[read.source].pace == needed[layer.output.name].pace * axis.window(read).stride
        for axis in AxisName
        for needed in [_needed(stack, axis)]
        for layer in stack.layers
        for read in layer.reads
    )


def _of_layer(
    layer: FusableLayer, axis: AxisName, needed: _Needed, sizes: SizeRange, whole: LayerTotals, *, cached: bool
) -> LayerTotals:
    pixels, seen = whole.total
    paces = [axis.window(read).stride for read in layer.reads]
    most = min(pixels, (sizes.most - 1) * needed.pace + needed.reach)
    first = min(pixels, (sizes.longest_first - 1) * needed.pace + needed.reach)
    over = max((sizes.pixels - 1) * needed.pace + needed.stop - max(needed.start, 0) - pixels, 0)
    other = sizes.least * needed.pace - over if sizes.least > needed.behind else 0
    missing = [
        (pixels - 1) * pace + axis.window(read).reach - visible
        for read, pace, visible in zip(layer.reads, paces, seen, strict=True)
    ]
    seen_by_other = tuple(max(other * pace - zeros, 0) for pace, zeros in zip(paces, missing, strict=True))
    computed = pixels if cached else pixels + _shared(needed, sizes)
    in_others = max(pixels - first, 0) if other > 0 else 0
    slices = [Slice(pixels - in_others, 1, (0,) * len(paces))]
    if in_others:
        slices.append(Slice(in_others / other, other, seen_by_other))
    return LayerTotals(
        tuple(slices),
        (Slice(computed / most, most),),
        whole.inner,
        0,
        most,
        max(sizes.fewest_tiles - needed.behind // sizes.least, 1),
        (max(other, 1), seen_by_other),
        (computed, seen),
        (0,) * len(paces),
    )


def _shared(needed: _Needed, sizes: SizeRange) -> int:
    """What neighbours both compute, but for those so near an end that less is known of them."""
    cut_off = (1 + (needed.before - 1) // sizes.least if needed.before else 0) + needed.behind // sizes.least
    return max(sizes.fewest_tiles - 1 - cut_off, 0) * max(needed.reach - needed.pace, 0)


def _needed(stack: Stack, axis: AxisName) -> Mapping[str, _Needed]:
    """By feature map, from the stack's output on."""
    pixels = axis.pixels(stack.output)
    found = {stack.output.name: _Needed(1, 0, 1, 0, 0)}
    for layer in reversed(stack.layers):
        own = found[layer.output.name]
        maps = {one.name: one for one in (*stack.inputs, *(one.output for one in stack.layers))}
        for read in layer.reads:
            window, source = axis.window(read), maps[read.source]
            start = own.start * window.stride - window.pad
            stop = (own.stop - 1) * window.stride - window.pad + window.reach
            before, behind = own.before, own.behind
            pace = own.pace * window.stride
            if known := found.get(read.source):
                start, stop = min(start, known.start), max(stop, known.stop)
                before, behind = max(before, known.before), max(behind, known.behind)
            size = axis.pixels(source)
            over = (pixels - 1) * pace + stop - size
            found[read.source] = _Needed(
                pace,
                start,
                stop,
                max(before, -(start // pace) - 1 if start < 0 else 0),
                max(behind, -(-over // pace) if over > 0 else 0),
            )
    return found
