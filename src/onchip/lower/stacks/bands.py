"""Feature maps in bands, as the tiles of fused stacks write and read them.

A map that is computed once is cut along every line at which a tile's reading or writing begins or ends: its bands
partition it. Along an axis on which tiles compute pixels again, each tile has bands of its own, cut at its own lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from onchip.facts.back_calculation import BackCalculation, MapUse, Spans
from onchip.facts.fusable import Stack
from onchip.ir.region import Range, Region, whole_region
from onchip.ir.tensor import Tensor


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

    @property
    def are_shared(self) -> bool:
        """Whether all tiles write and read the same bands."""
        return len(self.of_tiles) == 1

    def pieces(self, tile: int, within: Range) -> tuple[Range, ...]:
        """The ranges between lines that make up `within`, whose ends are lines."""
        lines = self.of_tiles[0 if self.are_shared else tile]
        return tuple(pairwise(lines[bisect_left(lines, within[0]) : bisect_left(lines, within[1]) + 1]))


@dataclass(frozen=True, slots=True)
class MapBands:
    """The bands of a map; a pixel is `scale` (rows, columns) elements of the tensor wide (a transposed convolution)."""

    base: Tensor
    rows: Lines
    columns: Lines
    scale: tuple[int, int] = (1, 1)

    def within(self, place: TilePlace, rows: Range, columns: Range) -> tuple[Tensor, ...]:
        """Those of which a rectangle is made, as the tile at `place` has them, the columns fastest."""
        return tuple(
            self._band(place, self.region(down, across))
            for down in self.rows.pieces(place.row, rows)
            for across in self.columns.pieces(place.column, columns)
        )

    @property
    def pixels(self) -> tuple[int, int]:
        """Rows and columns of the map."""
        height, width = (self.base.shape or ())[2:] or (1, 1)
        return height // self.scale[0], width // self.scale[1]

    @property
    def all(self) -> tuple[Tensor, ...]:
        """Every band of a map whose bands all tiles share."""
        rows, columns = self.pixels
        return self.within(TilePlace(0, 0, 1), (0, rows), (0, columns))

    def region(self, rows: Range, columns: Range) -> Region:
        """A rectangle of the map as a region of the tensor, of all channels."""
        shape = self.base.shape or ()
        if len(shape) < 4:
            return whole_region(shape)
        scaled = ((size * low, size * high) for size, (low, high) in zip(self.scale, (rows, columns), strict=True))
        return (*whole_region(shape[:2]), *scaled)

    def _band(self, place: TilePlace, region: Region) -> Tensor:
        """Of what tiles compute again, called after the first tile that has it."""
        first = (0 if self.rows.are_shared else place.row) * place.columns
        first += 0 if self.columns.are_shared else place.column
        is_shared = self.rows.are_shared and self.columns.are_shared
        return band_of_tensor(self.base, region, "" if is_shared else f"#{first}")


def band_of_tensor(base: Tensor, region: Region, mark: str = "") -> Tensor:
    """Called like `conv1#3[:,:,0:8,0:16]`, `#3` being the mark; the tensor itself where it is all of it, unmarked."""
    shape = base.shape or ()
    if not mark and region == whole_region(shape):
        return base
    ranges = ",".join(
        ":" if each == (0, size) else f"{each[0]}:{each[1]}" for each, size in zip(region, shape, strict=True)
    )
    sizes = tuple(stop - start for start, stop in region)
    band = Tensor.of_shape(f"{base.name}{mark}[{ranges}]", sizes, base.bits or 0, base.role)
    aliases = tuple(f"{alias}{mark}[{ranges}]" for alias in base.aliases)
    return replace(band, aliases=aliases, part_of=base.name, region=region)


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
