"""A tile type in both dimensions: its layers, and the elements of each map that move or are cached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onchip.ir.layer import Layer
from onchip.ops.fusable import FeatureMap, FusableLayer, Layout, Read, ReadExtent, Stack, TileClass, TiledAxis
from onchip.ops.nests import layer_of_tile


@dataclass(frozen=True, slots=True)
class Seen:
    """A layer's input in elements: `all` channels of its pixels, and the channels it `takes`, which may be fewer.

    Taken elements are `new`, that is, computed in this tile, or come from a cache; elements in both caches come from
    the column cache.
    """

    source: FeatureMap
    all: int
    takes: int
    new: int
    from_columns: int
    from_rows: int

    @property
    def all_bits(self) -> int:
        """Return the bits of all channels of the pixels that the layer reads."""
        return self.all * self.source.bits

    @property
    def taken_bits(self) -> int:
        """Return the bits of the channels that the layer takes."""
        return self.takes * self.source.bits


@dataclass(frozen=True, slots=True)
class Made:
    """A map in elements: `computed` or loaded by the tile, and newly written to the column cache, row cache, both."""

    map: FeatureMap
    computed: int
    to_columns: int
    to_rows: int
    to_both: int

    @property
    def computed_bits(self) -> int:
        """Return the bits that the tile computes or loads."""
        return self.computed * self.map.bits


@dataclass(frozen=True, slots=True)
class LayerTile:
    """A layer in a tile; `at` is its number in the group."""

    at: int
    layer: Layer
    seen: tuple[Seen, ...]
    made: Made
    is_addition: bool

    @property
    def seen_bits(self) -> int:
        """Return the bits of all inputs that the layer reads."""
        return sum(seen.all_bits for seen in self.seen)


@dataclass(frozen=True, slots=True)
class StackTile:
    """The layers of a tile; `inputs` are loaded before the first. Layers with nothing left to compute are omitted."""

    inputs: tuple[Made, ...]
    layers: tuple[LayerTile, ...]


def stack_tile(stack: Stack, rows: TileClass, columns: TileClass, *, padding_is_stored: bool) -> StackTile:
    """Return the tile of a row class and a column class."""
    maps = {one.name: one for one in (*stack.inputs, *(layer.output for layer in stack.layers))}
    layers = []
    for at, layer in enumerate(stack.layers):
        made = _made(layer.output, rows, columns)
        if made.computed:
            extents = list(zip(rows.reads[at], columns.reads[at], strict=True))
            stored = padding_is_stored
            seen = tuple(
                _seen(maps[read.source], read, *extent, padding_is_stored=stored)
                for read, extent in zip(layer.reads, extents, strict=True)
            )
            nest = _layer(layer, rows, columns, at, stored=stored)
            layers.append(LayerTile(at, nest, seen, made, layer.weight_is_a_map))
    return StackTile(tuple(_made(one, rows, columns) for one in stack.inputs), tuple(layers))


def column_cache_bits(stack: Stack, sized: TileClass, rows: TiledAxis, columns: TiledAxis) -> Mapping[str, int]:
    """Return the bits of each map in the column cache next to a tile of the `sized` rows.

    Tiles of matrices run through all rows before the next column, so that it has all of them.
    """
    is_matrix = stack.output.layout is Layout.MATRIX
    return {
        one.name: columns.kept[one.name]
        * (rows.whole[one.name] if is_matrix else sized.maps[one.name].needed)
        * one.channels
        * one.bits
        for one in (*stack.inputs, *(layer.output for layer in stack.layers))
    }


def row_cache_bits(stack: Stack, rows: TiledAxis, columns: TiledAxis) -> Mapping[str, int]:
    """Return the bits of each map in the row cache below a row of tiles, over its whole width.

    Of matrices it has the columns of one tile, because tiles run through all rows of these first.
    """
    is_matrix = stack.output.layout is Layout.MATRIX
    return {
        one.name: rows.kept[one.name]
        * (max(each.maps[one.name].needed for each in columns.classes) if is_matrix else columns.whole[one.name])
        * one.channels
        * one.bits
        for one in (*stack.inputs, *(layer.output for layer in stack.layers))
    }


def both_caches_bits(stack: Stack, rows: TiledAxis, columns: TiledAxis) -> int:
    """Return the bits of all maps in both caches, which are stored once if the caches share a memory."""
    return sum(
        rows.kept[one.name] * columns.kept[one.name] * one.channels * one.bits
        for one in (*stack.inputs, *(layer.output for layer in stack.layers))
    )


def _made(feature_map: FeatureMap, rows: TileClass, columns: TileClass) -> Made:
    down, across, channels = rows.maps[feature_map.name], columns.maps[feature_map.name], feature_map.channels
    return Made(
        feature_map,
        down.computed * across.computed * channels,
        down.computed * across.written * channels,
        down.written * across.computed * channels,
        down.written * across.written * channels,
    )


def _seen(source: FeatureMap, read: Read, down: ReadExtent, across: ReadExtent, *, padding_is_stored: bool) -> Seen:
    height, width, channels = down.seen, across.seen, read.channels_seen(source.channels)
    if padding_is_stored:
        height += down.zeros_before + down.zeros_after
        width += across.zeros_before + across.zeros_after
    return Seen(
        source,
        height * width * source.channels,
        height * width * channels,
        (down.seen - down.cached) * (across.seen - across.cached) * channels,
        down.seen * across.cached * channels,
        down.cached * (across.seen - across.cached) * channels,
    )


def _layer(fusable: FusableLayer, rows: TileClass, columns: TileClass, at: int, *, stored: bool) -> Layer:
    """Return the loop nest over the tile."""
    if fusable.runs_alone:
        return fusable.layer.with_stored_padding() if stored else fusable.layer
    output = fusable.output
    tile = rows.maps[output.name].computed, columns.maps[output.name].computed
    down, across = rows.reads[at][0], columns.reads[at][0]
    padding = (down.zeros_before, across.zeros_before, down.zeros_after, across.zeros_after)
    own = layer_of_tile(fusable.layer, (output.rows, output.columns), tile, (0, 0, 0, 0) if stored else padding)
    if output.layout is not Layout.MATRIX or not own.has_weight or own.k * own.c == 1:
        return own
    # A product of rows: with a matrix of weights for each head, heads are groups.
    heads = own.q if fusable.weight_is_a_map else 1
    return replace(own, n=own.n * own.p * own.q // heads, g=own.g * heads, p=1, q=1)
