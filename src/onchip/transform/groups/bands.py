"""Bands of feature maps, as the tiles of fused stacks write and read them.

A map that is computed once is cut wherever a tile's written or read region begins or ends, so that its bands partition
it. Along an axis on which tiles recompute pixels, each tile has separate bands with separate lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from onchip.ir.graph import Graph
from onchip.ir.region import Range, Region, whole_region
from onchip.ir.tensor import Tensor
from onchip.ops.derive.back_calculation import BackCalculation, MapUse, Spans
from onchip.ops.derive.fusable import Layout, Stack, pixels_of, region_of_pixels
from onchip.transform.slices.bands import band_of_tensor


@dataclass(frozen=True, slots=True)
class TilePlace:
    """A tile of a stack: its row and column among `columns` in a row. Tiles run row by row, from left to right."""

    row: int
    column: int
    columns: int

    @property
    def number(self) -> int:
        """Return the position of the tile in execution order."""
        return self.row * self.columns + self.column


@dataclass(frozen=True, slots=True)
class Lines:
    """The positions, in pixels, at which a map is cut along one axis: one tuple per tile, or one for all tiles."""

    of_tiles: tuple[tuple[int, ...], ...]
    known: dict[tuple[int, Range], tuple[Range, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def are_shared(self) -> bool:
        """Return True if all tiles write and read the same bands."""
        return len(self.of_tiles) == 1

    def pieces(self, tile: int, within: Range) -> tuple[Range, ...]:
        """Return the ranges between lines that make up `within`, whose ends are lines.

        Cached, as tiles share ranges.
        """
        key = 0 if self.are_shared else tile, within
        if key not in self.known:
            lines = self.of_tiles[key[0]]
            inside = lines[bisect_left(lines, within[0]) : bisect_left(lines, within[1]) + 1]
            self.known[key] = tuple(pairwise(inside))
        return self.known[key]


@dataclass(frozen=True, slots=True)
class MapBands:
    """The bands of a map, whose lines count elements of the tensor.

    Tiles count pixels of `scale` (rows, columns) elements each: more than one where a transposed convolution writes it,
    and where a group reads the rows of a matrix as one pixel.
    """

    base: Tensor
    rows: Lines
    columns: Lines
    scale: tuple[int, int] = (1, 1)
    layout: Layout = Layout.IMAGE
    made: dict[tuple[str, Range, Range], Tensor] = field(default_factory=dict, compare=False, repr=False)
    whole: Region = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", whole_region(self.base.shape or ()))

    def within(self, place: TilePlace, rows: Range, columns: Range) -> tuple[Tensor, ...]:
        """Return the bands that make up a rectangle of pixels for the tile at `place`, row by row."""
        high, wide = self.scale
        downwards = self.rows.pieces(place.row, (rows[0] * high, rows[1] * high))
        sideways = self.columns.pieces(place.column, (columns[0] * wide, columns[1] * wide))
        mark = self._mark(place)
        return tuple([self._band(mark, down, across) for down in downwards for across in sideways])

    @property
    def pixels(self) -> tuple[int, int]:
        """Rows and columns of the map."""
        height, width = pixels_of(self.base.shape or (), self.layout)
        return height // self.scale[0], width // self.scale[1]

    @property
    def all(self) -> tuple[Tensor, ...]:
        """Return all bands of a map whose bands are shared by all tiles."""
        rows, columns = self.pixels
        return self.within(TilePlace(0, 0, 1), (0, rows), (0, columns))

    def _mark(self, place: TilePlace) -> str:
        """Return the suffix of band names; recomputed bands are named after the first tile that has them."""
        if self.rows.are_shared and self.columns.are_shared:
            return ""
        first = (0 if self.rows.are_shared else place.row) * place.columns
        return f"#{first + (0 if self.columns.are_shared else place.column)}"

    def _band(self, mark: str, rows: Range, columns: Range) -> Tensor:
        """Return the band of a rectangle of elements, with all channels; each band is created once."""
        key = mark, rows, columns
        band = self.made.get(key)
        if band is None:
            region = region_of_pixels(self.whole, rows, columns, self.layout)
            band = self.made[key] = band_of_tensor(self.base, region, mark)
        return band


@dataclass(frozen=True, slots=True)
class JoinedBands:
    """The bands of a concatenation that is not made: those of the maps that it joins, one after the other."""

    parts: tuple[MapBands, ...]

    def within(self, place: TilePlace, rows: Range, columns: Range) -> tuple[Tensor, ...]:
        """Return the bands of all parts that make up a rectangle of pixels for the tile at `place`."""
        return tuple(band for part in self.parts for band in part.within(place, rows, columns))

    @property
    def pixels(self) -> tuple[int, int]:
        """Rows and columns of the maps."""
        return self.parts[0].pixels

    @property
    def layout(self) -> Layout:
        """Return the layout of the maps."""
        return self.parts[0].layout

    @property
    def all(self) -> tuple[Tensor, ...]:
        """Return all bands of all maps."""
        return tuple(band for part in self.parts for band in part.all)


class OutsideLines:
    """The cuts of maps between stacks, in rows and columns of their tensors, including both ends."""

    def __init__(self, graph: Graph, layouts: Mapping[str, Layout]) -> None:
        self._graph = graph
        self._layouts = layouts
        self._lines: dict[str, tuple[set[int], set[int]]] = {}
        for name, layout in layouts.items():
            height, width = pixels_of(graph.tensor[name].shape or (), layout)
            self._lines[name] = {0, height}, {0, width}

    def cut(self, name: str, rows: Iterable[int], columns: Iterable[int]) -> None:
        """Cuts a map at these lines."""
        for lines, more in zip(self._lines[name], (rows, columns), strict=True):
            lines.update(more)

    def bands(self, name: str, scale: tuple[int, int] = (1, 1)) -> MapBands:
        """Return the bands of a map; tiles count its pixels in squares of `scale` elements."""
        rows, columns = (Lines((tuple(sorted(lines)),)) for lines in self._lines[name])
        return MapBands(self._graph.tensor[name], rows, columns, scale, self._layouts[name])


def lines_inside(stack: Stack, found: BackCalculation, *, cached: bool) -> Mapping[str, Lines]:
    """Return the lines of the maps that do not leave the stack."""
    inner = (layer.output.name for layer in stack.layers[:-1])
    return {name: _lines(_spans(stack, found, name), cached=cached) for name in inner}


def lines_outside(stack: Stack, found: BackCalculation) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the lines at which a stack cuts its inputs and its output."""
    for one in (*stack.inputs, stack.output):
        yield one.name, _lines(_spans(stack, found, one.name), cached=True).of_tiles[0]


def range_of(spans: Spans, tile: int) -> Range:
    """Return the tile's interval; empty if the tile has none of the axis."""
    return int(spans.starts[tile]), int(spans.stops[tile])


def _spans(stack: Stack, found: BackCalculation, name: str) -> Iterator[Spans]:
    """Yield the intervals of a map that tiles compute and read.

    Only those read, if the map is an input of the stack.
    """
    use: MapUse = found.maps[name]
    if name not in {one.name for one in stack.inputs}:
        yield use.computed
    for layer, uses in zip(stack.layers, found.reads, strict=True):
        yield from (one.seen for read, one in zip(layer.reads, uses, strict=True) if read.source == name)


def _lines(spans: Iterable[Spans], *, cached: bool) -> Lines:
    starts, stops = (np.stack(each) for each in zip(*((one.starts, one.stops) for one in spans), strict=True))
    is_taken = starts < stops
    if cached or starts.shape[1] == 1:
        return Lines((tuple(np.unique(np.concatenate((starts[is_taken], stops[is_taken]))).tolist()),))
    tiles = range(starts.shape[1])
    return Lines(
        tuple(tuple(np.unique((starts[is_taken[:, at], at], stops[is_taken[:, at], at])).tolist()) for at in tiles)
    )
