"""A tile along both axes: the loop nests of its layers, and the elements of maps that move or wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onchip.answer.fused_network import MapInNetwork, NestInNetwork, ReadInNetwork
from onchip.ir.layer import Layer
from onchip.verify.stack.strips import PixelsSeen, Strip, TiledLength


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
    pixels = (
        rows.seen * columns.seen,
        new_rows * new_columns,
        rows.seen * columns.cached,
        rows.cached * new_columns,
    )
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
