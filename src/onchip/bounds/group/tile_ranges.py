"""Bounds on the pixel counts of equal tiles along an axis, valid for all tile sizes of a range.

Away from its ends, a tile of `t` pixels of the stack's output needs `(t - 1) * pace + reach` pixels of a feature map.
Two neighbours share `reach - pace` of them. docs/fusion.md, section 4, proves the bounds for the sizes in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from onchip.bounds.group.tile_totals import AxisTotals, LayerTotals, Slice
from onchip.ops.fusable import AxisName, FusableLayer, Stack


@dataclass(frozen=True, slots=True)
class _Needed:
    """Pixels of a map that pixel `x` of the stack's output needs: `[x * pace + start, x * pace + stop)`.

    For the first `before` and the last `behind` pixels of the output, the end of some map on the way may cut off part
    of that interval.
    """

    pace: int
    start: int
    stop: int
    before: int
    behind: int

    @property
    def reach(self) -> int:
        """Number of pixels that one output pixel needs."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Tile sizes from `least` to `most` pixels, for a stack's output of `pixels` pixels."""

    least: int
    most: int
    pixels: int

    @property
    def fewest_tiles(self) -> int:
        """Return the number of tiles of the largest size that cover the output."""
        return -(-self.pixels // self.most)

    @property
    def longest_first(self) -> int:
        """Maximum size of the first tile, which takes the remainder of at least `fewest_tiles - 1` other tiles."""
        return min(self.most, self.pixels - (self.fewest_tiles - 1) * self.least)


def range_totals(stack: Stack, axis: AxisName, sizes: SizeRange, whole: AxisTotals, *, cached: bool) -> AxisTotals:
    """Return totals that are bounds for each size of the range. `whole` are the totals of a single tile.

    Pixels that several layers read may come from a cache; otherwise caches do not count. Requires that no layer skips
    pixels, and that all branches are `paced_alike`.
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
    """Return True if all paths from a map to the stack's output have the same product of strides.

    Returns False if some window has stride 0 (all pixels see the same one) or repeats pixels.
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
    """Return a lower bound on the pixels that neighbouring tiles both compute, without tiles near the ends."""
    cut_off = (1 + (needed.before - 1) // sizes.least if needed.before else 0) + needed.behind // sizes.least
    return max(sizes.fewest_tiles - 1 - cut_off, 0) * max(needed.reach - needed.pace, 0)


def _needed(stack: Stack, axis: AxisName) -> Mapping[str, _Needed]:
    """Map each feature map to its needed pixels, calculated from the stack's output backwards."""
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
