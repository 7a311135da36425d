"""A tile along both axes: the layers that run in it, with their loop nests, and elements of maps that move or wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onchip.answer.fused_network import MapInNetwork, NestInNetwork, ReadInNetwork
from onchip.ir.layer import Layer
from onchip.verify.stack.strips import PixelsSeen, Strip, TiledLength


@dataclass(frozen=True, slots=True)
class ComputedPart:
    """Elements of a map that a tile computes, or loads, and those of them that go to a cache of columns, rows, both."""

    map: MapInNetwork
    elements: int
    to_columns: int
    to_rows: int
    to_both: int

    @property
    def bits(self) -> int:
        """What the tile computes of the map, in bits."""
        return self.elements * self.map.bits


@dataclass(frozen=True, slots=True)
class SeenPart:
    """Elements of a map that a layer sees in a tile, in all of its channels; those that it takes of them.

    The latter are also told by where they come from; the corner is the columns' cache's.
    """

    map: MapInNetwork
    elements: int
    taken: int
    new: int
    from_columns: int
    from_rows: int


@dataclass(frozen=True, slots=True)
class LayerPart:
    """A layer of the stack, by its number there, as it runs in a tile."""

    number: int
    layer: NestInNetwork
    nest: Layer
    seen: tuple[SeenPart, ...]
    made: ComputedPart

    @property
    def seen_bits(self) -> int:
        """What the layer sees of all maps, in bits."""
        return sum(one.elements * one.map.bits for one in self.seen)

    @property
    def sources(self) -> frozenset[str]:
        """The maps that it reads, by name."""
        return frozenset(one.map.name for one in self.seen)


@dataclass(frozen=True, slots=True)
class StackPart:
    """One tile of a stack: what it loads from outside, and the layers that compute something in it."""

    loaded: tuple[ComputedPart, ...]
    layers: tuple[LayerPart, ...]


def stack_part(
    layers: Sequence[NestInNetwork], inputs: Sequence[MapInNetwork], down: Strip, across: Strip
) -> StackPart:
    """The tile where a row of tiles and a column of them meet."""
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
    """The layer's loops over the tile's pixels; element by element these are among the groups."""
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
    """What waits of each map beside a tile of these rows, in bits, by name."""
    return {one.name: columns.kept[one.name] * row.maps[one.name].needed * one.channels * one.bits for one in maps}


def row_caches_bits(maps: Sequence[MapInNetwork], rows: TiledLength, columns: TiledLength) -> int:
    """What waits of all maps below a row of tiles, over the whole width, in bits."""
    return sum(rows.kept[one.name] * columns.whole[one.name] * one.channels * one.bits for one in maps)


def corner_bits(maps: Sequence[MapInNetwork], rows: TiledLength, columns: TiledLength) -> int:
    """What is in both caches of all maps, in bits."""
    return sum(rows.kept[one.name] * columns.kept[one.name] * one.channels * one.bits for one in maps)
