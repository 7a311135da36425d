"""The strips of feature maps that tiles compute and read, and the parts in which caches hold them.

All intervals are half-open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from onchip.answer.fused_network import MapInNetwork, NestInNetwork, ReadInNetwork
from onchip.ir.layer import Layer
from onchip.ir.window import Window

Interval: TypeAlias = tuple[int, int]


class PaddingAloneError(Exception):
    """Raised if a tile sees only padding of a feature map; its text names the map."""


@dataclass(frozen=True, slots=True)
class PixelsOfMap:
    """Pixels of a map along an axis in one tile: `needed` from the first to the last one seen, `computed` in the tile.

    At the end of the tile, `kept` pixels are in a cache for later tiles; `written` of them are newly cached.
    """

    needed: int
    computed: int
    kept: int
    written: int


@dataclass(frozen=True, slots=True)
class PixelsSeen:
    """A layer's input along an axis in one tile: stored pixels, those from a cache, and zeros before and behind."""

    seen: int
    cached: int
    before: int
    behind: int


@dataclass(frozen=True, slots=True)
class Strip:
    """A tile along an axis: the maps by name, and the reads of each layer."""

    maps: Mapping[str, PixelsOfMap]
    reads: tuple[tuple[PixelsSeen, ...], ...]


@dataclass(frozen=True, slots=True)
class TiledLength:
    """The tiles along an axis: the distinct strips in order of first occurrence, and the strip index of each tile.

    `kept` is the most pixels of each map that any tile keeps; `whole` is the number of pixels that all tiles compute.
    """

    strips: tuple[Strip, ...]
    order: tuple[int, ...]
    kept: Mapping[str, int]
    whole: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Axis1D:
    """The layers of a stack along rows or columns; only the output of the last layer leaves the stack."""

    layers: Sequence[NestInNetwork]
    inputs: Sequence[MapInNetwork]
    is_rows: bool

    def length(self, one: MapInNetwork) -> int:
        """Return the number of pixels of a map along this axis."""
        return one.rows if self.is_rows else one.columns

    def window(self, read: ReadInNetwork) -> Window:
        """Return the window of a read along this axis."""
        return read.rows if self.is_rows else read.columns

    def readers(self, name: str) -> Iterator[tuple[str, Window]]:
        """Yield, for each reader of a map, the name of its output and its window."""
        for layer in self.layers:
            yield from ((layer.writes.name, self.window(read)) for read in layer.reads if read.source == name)


def tiled_length(axis: Axis1D, tile: int, *, is_cached: bool) -> TiledLength:
    """Return the tiles of `tile` output pixels along the axis, a smaller one first.

    With caching, no pixel is computed twice. Raises PaddingAloneError if a tile of a layer sees only padding of its
    input.
    """
    output = axis.layers[-1].writes
    length = axis.length(output)
    ends = range(length % tile or tile, length + 1, tile)
    computed = {output.name: [(max(end - tile, 0), end) for end in ends]}
    maps = {output.name: [PixelsOfMap(end - begin, end - begin, 0, 0) for begin, end in computed[output.name]]}
    for one in (*(layer.writes for layer in reversed(axis.layers[:-1])), *axis.inputs):
        computed[one.name], maps[one.name] = _of_map(axis, one, computed, is_cached=is_cached)
    reads = [[_seen_by(axis, layer, read, computed) for read in layer.reads] for layer in axis.layers]
    strips = [
        Strip(
            {name: pixels[at] for name, pixels in maps.items()},
            tuple(tuple(sight[at] for sight in own) for own in reads),
        )
        for at in range(len(ends))
    ]
    different: list[Strip] = []
    order: list[int] = []
    numbers: dict[object, int] = {}
    for strip in strips:
        key = tuple(strip.maps.values()), strip.reads
        if key not in numbers:
            numbers[key] = len(different)
            different.append(strip)
        order.append(numbers[key])
    kept = {name: max(one.kept for one in pixels) for name, pixels in maps.items()}
    whole = {name: max(end for _, end in own) - min(begin for begin, _ in own) for name, own in computed.items()}
    return TiledLength(tuple(different), tuple(order), kept, whole)


def _of_map(
    axis: Axis1D, one: MapInNetwork, computed: Mapping[str, Sequence[Interval]], *, is_cached: bool
) -> tuple[list[Interval], list[PixelsOfMap]]:
    """Return the interval and the pixel counts of a map in each tile, from the intervals that its readers compute."""
    size = axis.length(one)
    readers = [(window, computed[name]) for name, window in axis.readers(one.name)]
    found: list[Interval] = []
    pixels: list[PixelsOfMap] = []
    for at in range(len(readers[0][1])):
        looks = [_look(window, own[at], size) for window, own in readers]
        busy = [look for look, (_, own) in zip(looks, readers, strict=True) if own[at][0] < own[at][1]]
        if any(begin >= end for begin, end in busy):
            raise PaddingAloneError(one.name)
        begin, end = min(look[0] for look in looks), max(look[1] for look in looks)
        if is_cached and found:
            begin = found[-1][1]
        found.append((begin, end))
        needed = max(look[1] for look in busy) - min(look[0] for look in busy) if busy else 0
        kept = max(end - min(_seen_next(window, own, at, size) for window, own in readers), 0) if is_cached else 0
        pixels.append(PixelsOfMap(needed, end - begin, kept, min(kept, end - begin)))
    return found, pixels


def _look(window: Window, own: Interval, size: int) -> Interval:
    """Return the stored pixels that a reader's interval needs; an empty interval if the reader computes nothing."""
    begin, end = window.pixels(_unclipped(window, own), size)
    return (begin if own[0] < own[1] else end), end


def _unclipped(window: Window, own: Interval) -> Interval:
    return own[0] * window.stride - window.pad, (own[1] - 1) * window.stride - window.pad + window.reach


def _seen_next(window: Window, own: Sequence[Interval], at: int, size: int) -> int:
    """Return the first stored pixel that a reader needs in later tiles; the map's size if the reader is finished."""
    end = own[at][1]
    first = end * window.stride - window.pad
    return window.pixels((first, first), size)[0] if end < own[-1][1] else size


def _seen_by(
    axis: Axis1D, layer: NestInNetwork, read: ReadInNetwork, computed: Mapping[str, Sequence[Interval]]
) -> list[PixelsSeen]:
    """Return the pixels that a layer sees in each tile.

    Pixels before the tile's own interval of the map come from a cache.
    """
    every = (*axis.inputs, *(each.writes for each in axis.layers))
    size = next(axis.length(one) for one in every if one.name == read.source)
    window, found = axis.window(read), list[PixelsSeen]()
    for own, there in zip(computed[layer.writes.name], computed[read.source], strict=True):
        begin, end = _look(window, own, size)
        cached = max(min(end, there[0]) - begin, 0)
        first, behind = _unclipped(window, own)
        is_busy = own[0] < own[1]
        zeros = (max(-first, 0), max(behind - size * window.repeat, 0)) if is_busy else (0, 0)
        found.append(PixelsSeen(end - begin, cached, *zeros))
    return found


@dataclass(frozen=True, slots=True)
class ComputedPart:
    """The elements of a map that a tile computes or loads, and those that go to the column, row and both caches."""

    map: MapInNetwork
    elements: int
    to_columns: int
    to_rows: int
    to_both: int

    @property
    def bits(self) -> int:
        """Return the size in bits of the tile's part of the map."""
        return self.elements * self.map.bits


@dataclass(frozen=True, slots=True)
class SeenPart:
    """The elements of a map within a layer's windows in a tile, over all channels, and those that the layer takes.

    The elements taken are counted by source: new ones, those from the column cache, and those from the row cache.
    Elements in both caches count as the column cache's.
    """

    map: MapInNetwork
    elements: int
    taken: int
    new: int
    from_columns: int
    from_rows: int


@dataclass(frozen=True, slots=True)
class LayerPart:
    """A layer as it runs in a tile; `number` is its index in the stack."""

    number: int
    layer: NestInNetwork
    nest: Layer
    seen: tuple[SeenPart, ...]
    made: ComputedPart

    @property
    def seen_bits(self) -> int:
        """Return the size in bits of the layer's input footprint, over all maps."""
        return sum(one.elements * one.map.bits for one in self.seen)

    @property
    def sources(self) -> frozenset[str]:
        """Return the names of the maps that the layer reads."""
        return frozenset(one.map.name for one in self.seen)


@dataclass(frozen=True, slots=True)
class StackPart:
    """A tile of a stack: the maps' parts that it loads from outside, and the layers that compute something in it."""

    loaded: tuple[ComputedPart, ...]
    layers: tuple[LayerPart, ...]


def stack_part(
    layers: Sequence[NestInNetwork], inputs: Sequence[MapInNetwork], down: Strip, across: Strip
) -> StackPart:
    """Return the tile in one row of tiles and one column of tiles."""
    maps = {one.name: one for one in (*inputs, *(layer.writes for layer in layers))}
    found = []
    for number, layer in enumerate(layers):
        made = _computed(layer.writes, down, across)
        if made.elements:
            sights = list(zip(layer.reads, down.reads[number], across.reads[number], strict=True))
            seen = tuple(_seen(maps[read.source], *sight) for sight in sights for read in sight[:1])
            nest = _nest(layer, down, across, sights[0][1:])
            found.append(LayerPart(number, layer, nest, seen, made))
    return StackPart(tuple(_computed(one, down, across) for one in inputs), tuple(found))


def _computed(one: MapInNetwork, down: Strip, across: Strip) -> ComputedPart:
    rows, columns = down.maps[one.name], across.maps[one.name]
    pixels = (
        rows.computed * columns.computed,
        rows.computed * columns.written,
        rows.written * columns.computed,
        rows.written * columns.written,
    )
    return ComputedPart(one, *(one.channels * each for each in pixels))


def _seen(one: MapInNetwork, read: ReadInNetwork, rows: PixelsSeen, columns: PixelsSeen) -> SeenPart:
    new_rows, new_columns = rows.seen - rows.cached, columns.seen - columns.cached
    channels = one.channels if read.channels is None else read.channels
    pixels = (rows.seen * columns.seen, new_rows * new_columns, rows.seen * columns.cached, rows.cached * new_columns)
    return SeenPart(one, one.channels * pixels[0], *(channels * each for each in pixels))


def _nest(layer: NestInNetwork, down: Strip, across: Strip, sight: tuple[PixelsSeen, ...]) -> Layer:
    """Return the layer's loop nest over the tile's pixels, which count among the groups if it is element-wise."""
    nest, whole = layer.nest, layer.writes
    if layer.runs_alone:
        return nest
    rows, columns = down.maps[whole.name].computed, across.maps[whole.name].computed
    if (nest.p, nest.q) == (whole.rows, whole.columns):
        above, beside = sight
        padding = (above.before, beside.before, above.behind, beside.behind)
        return replace(nest, p=rows, q=columns, padding=padding)
    return replace(nest, g=nest.g // (whole.rows * whole.columns) * rows * columns)


def column_caches_bits(maps: Sequence[MapInNetwork], row: Strip, columns: TiledLength) -> Mapping[str, int]:
    """Return the size in bits of each map's column cache at the side of a tile of these rows, by name."""
    return {one.name: columns.kept[one.name] * row.maps[one.name].needed * one.channels * one.bits for one in maps}


def row_caches_bits(maps: Sequence[MapInNetwork], rows: TiledLength, columns: TiledLength) -> int:
    """Return the total size in bits of the row caches of all maps, over the whole width."""
    return sum(rows.kept[one.name] * columns.whole[one.name] * one.channels * one.bits for one in maps)


def corner_bits(maps: Sequence[MapInNetwork], rows: TiledLength, columns: TiledLength) -> int:
    """Return the total size in bits of the elements that are in both caches, over all maps."""
    return sum(rows.kept[one.name] * columns.kept[one.name] * one.channels * one.bits for one in maps)
