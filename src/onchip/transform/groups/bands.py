"""Feature maps in bands, as the tiles of fused stacks write and read them.

A map that is computed once is cut along every line at which a tile's reading or writing begins or ends: its bands
partition it. Along an axis on which tiles compute pixels again, each tile has bands of its own, cut at its own lines.
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
from onchip.ops.derive.fusable import Stack, pixels_of, region_of_pixels
from onchip.transform.slices.bands import band_of_tensor


@dataclass(frozen=True, slots=True)
class TilePlace:
    """A tile of a stack: its row and column among `columns` in a row. Tiles run row by row, from left to right."""

    row: int
    column: int
    columns: int

    @property
    def number(self) -> int:
        """In the order in which the stack's tiles run."""
        return self.row * self.columns + self.column


@dataclass(frozen=True, slots=True)
class Lines:
    """Where a map is cut along one axis, in pixels: for each tile its own lines, or one tuple for all tiles."""

    of_tiles: tuple[tuple[int, ...], ...]
    known: dict[tuple[int, Range], tuple[Range, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def are_shared(self) -> bool:
        """Whether all tiles write and read the same bands."""
        return len(self.of_tiles) == 1

    def pieces(self, tile: int, within: Range) -> tuple[Range, ...]:
        """The ranges between lines that make up `within`, whose ends are lines; all tiles of a row ask for the same."""
        key = 0 if self.are_shared else tile, within
        if key not in self.known:
            lines = self.of_tiles[key[0]]
            inside = lines[bisect_left(lines, within[0]) : bisect_left(lines, within[1]) + 1]
            self.known[key] = tuple(pairwise(inside))
        return self.known[key]


@dataclass(frozen=True, slots=True)
class MapBands:
    """The bands of a map, whose lines count elements of the tensor.

    Tiles count pixels of `scale` (rows, columns) elements each: more than one where a transposed convolution writes it.
    """

    base: Tensor
    rows: Lines
    columns: Lines
    scale: tuple[int, int] = (1, 1)
    made: dict[tuple[str, Range, Range], Tensor] = field(default_factory=dict, compare=False, repr=False)
    whole: Region = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", whole_region(self.base.shape or ()))

    def within(self, place: TilePlace, rows: Range, columns: Range) -> tuple[Tensor, ...]:
        """Those of which a rectangle of pixels is made, as the tile at `place` has them, the columns fastest."""
        high, wide = self.scale
        downwards = self.rows.pieces(place.row, (rows[0] * high, rows[1] * high))
        sideways = self.columns.pieces(place.column, (columns[0] * wide, columns[1] * wide))
        mark = self._mark(place)
        return tuple([self._band(mark, down, across) for down in downwards for across in sideways])

    @property
    def pixels(self) -> tuple[int, int]:
        """Rows and columns of the map."""
        height, width = pixels_of(self.base.shape or ())
        return height // self.scale[0], width // self.scale[1]

    @property
    def all(self) -> tuple[Tensor, ...]:
        """Every band of a map whose bands all tiles share."""
        rows, columns = self.pixels
        return self.within(TilePlace(0, 0, 1), (0, rows), (0, columns))

    def _mark(self, place: TilePlace) -> str:
        """What tiles compute again is called after the first tile that has it."""
        if self.rows.are_shared and self.columns.are_shared:
            return ""
        first = (0 if self.rows.are_shared else place.row) * place.columns
        return f"#{first + (0 if self.columns.are_shared else place.column)}"

    def _band(self, mark: str, rows: Range, columns: Range) -> Tensor:
        """A rectangle of elements, of all channels; each is made once."""
        key = mark, rows, columns
        band = self.made.get(key)
        if band is None:
            region = region_of_pixels(self.whole, rows, columns)
            band = self.made[key] = band_of_tensor(self.base, region, mark)
        return band


@dataclass(frozen=True, slots=True)
class JoinedBands:
    """The bands of a concatenation that is not made: those of the maps that it joins, one after the other."""

    parts: tuple[MapBands, ...]

    def within(self, place: TilePlace, rows: Range, columns: Range) -> tuple[Tensor, ...]:
        """Those of which a rectangle of pixels is made, as the tile at `place` has them."""
        return tuple(band for part in self.parts for band in part.within(place, rows, columns))

    @property
    def pixels(self) -> tuple[int, int]:
        """Rows and columns of the maps."""
        return self.parts[0].pixels

    @property
    def all(self) -> tuple[Tensor, ...]:
        """Every band of all maps."""
        return tuple(band for part in self.parts for band in part.all)


class OutsideLines:
    """Where maps between stacks are cut, in rows and columns of their tensors; each begins and ends at a line."""

    def __init__(self, graph: Graph, names: Iterable[str]) -> None:
        self._graph = graph
        self._lines: dict[str, tuple[set[int], set[int]]] = {}
        for name in names:
            height, width = pixels_of(graph.tensor[name].shape or ())
            self._lines[name] = {0, height}, {0, width}

    def cut(self, name: str, rows: Iterable[int], columns: Iterable[int]) -> None:
        """Cuts a map at these lines."""
        for lines, more in zip(self._lines[name], (rows, columns), strict=True):
            lines.update(more)

    def bands(self, name: str, scale: tuple[int, int] = (1, 1)) -> MapBands:
        """The bands of a map; tiles count its pixels in squares of `scale` elements."""
        rows, columns = (Lines((tuple(sorted(lines)),)) for lines in self._lines[name])
        return MapBands(self._graph.tensor[name], rows, columns, scale)


def lines_inside(stack: Stack, found: BackCalculation, *, cached: bool) -> Mapping[str, Lines]:
    """Of the maps that do not leave the stack."""
    inner = (layer.output.name for layer in stack.layers[:-1])
    return {name: _lines(_spans(stack, found, name), cached=cached) for name in inner}


def lines_outside(stack: Stack, found: BackCalculation) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Where a stack cuts its inputs and its output."""
    for one in (*stack.inputs, stack.output):
        yield one.name, _lines(_spans(stack, found, one.name), cached=True).of_tiles[0]


def range_of(spans: Spans, tile: int) -> Range:
    """The tile's interval; empty where it takes nothing."""
    return int(spans.starts[tile]), int(spans.stops[tile])


def _spans(stack: Stack, found: BackCalculation, name: str) -> Iterator[Spans]:
    """What is written and read of a map; of one from outside, read."""
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
