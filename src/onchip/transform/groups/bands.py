"""Bands and parts of tensors that tiles read and write, and views of them.

A map that is computed once is cut wherever a tile's written or read region begins or ends, so that its bands partition
it. Along an axis on which tiles recompute pixels, each tile has separate bands with separate lines.

Such a view is no layer and costs nothing: every tile creates its own views, which are never cached.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

import numpy as np

from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import KEY_SLICE, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region, Tile, size_of, whole_region
from onchip.ops.entries import geometry_of
from onchip.ops.fusable import (
    BackCalculation,
    Layout,
    MapUse,
    Spans,
    Stack,
    pixels_of,
    ranges_of_pixels,
    region_of_pixels,
)
from onchip.ops.views import JoinedMaps, paces_of, region_read, seen_region, spans_read
from onchip.transform.slices.bands import band_of_tensor, place_of, tile_of

_RUN_IN_PARTS: frozenset[str] = frozenset({"ConvTranspose"})
"""Kinds that run in parts in addition to views and the kinds with a geometry (`ops/entries.py`)."""


@dataclass
class EmittedParts:
    """Operators by name; of each tensor of `graph` the bands that are used, by name.

    `parameters` are those that the parts of an operator read, by its name; of an operator that it does not name, all.
    Concatenations that are `joined` are not made: operators list the bands of their parts.
    """

    graph: Graph
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joined: JoinedMaps = field(default_factory=dict)
    operators: dict[str, Operator] = field(default_factory=dict)
    bands: dict[str, dict[str, Tensor]] = field(default_factory=lambda: defaultdict(dict))
    _runs_in_parts: dict[str, bool] = field(default_factory=dict)
    _whole_tiles: dict[str, Tile] = field(default_factory=dict)

    def add(
        self,
        operator: Operator,
        name: str,
        inputs: Sequence[Tensor],
        written: Sequence[Tensor],
        parameter_bands: Sequence[Tensor] | None = None,
    ) -> None:
        """Add the part of an operator that writes these bands, under a name; or the operator itself if nothing is cut.

        The part reads `parameter_bands`, by default its parameters whole. Raises GraphError for a kind that cannot run
        in parts, or a name that is taken.
        """
        for band in (*inputs, *(parameter_bands or ()), *written):
            self.bands[band.part_of or band.name][band.name] = band
        if name in self.operators:
            raise GraphError("a tile of another operator has this name", place=f"operator {name!r}", expected="another")
        parameters = self.parameters.get(operator.name, operator.parameters)
        if parameter_bands is not None:
            parameters = tuple([band.name for band in parameter_bands])
        if all(band.part_of is None for band in (*inputs, *written)):
            if not any(read in self.joined for read in operator.inputs):
                self.operators[operator.name] = replace(operator, parameters=parameters)
                return
            name = operator.name
        region = _region_of(written)
        self._ensure_it_runs(operator, inputs, region)
        self.operators[name] = Operator(
            name,
            operator.kind,
            tuple(dict.fromkeys([band.name for band in inputs])),
            tuple([band.name for band in written]),
            parameters,
            operator.attributes,
            operator.members,
            replace(self._whole_tile(operator), regions=(region,)),
        )

    def add_whole(self, operator: Operator, bands_of: Callable[[str], Sequence[Tensor]]) -> None:
        """Add an operator that runs whole, with all bands of each tensor that is cut.

        Raises GraphError if a tile of another operator has its name.
        """
        listed = []
        for names in (operator.inputs, operator.outputs):
            bands = {name: bands_of(name) for name in names}
            for band in (band for own in bands.values() for band in own):
                self.bands[band.part_of or band.name][band.name] = band
            listed.append(tuple(band.name for name in names for band in bands[name]))
        if operator.name in self.operators:
            raise GraphError("a tile has this name", place=f"operator {operator.name!r}", expected="another")
        if listed != [operator.inputs, operator.outputs]:
            tile = operator.tile or self._whole_tile(operator)
            operator = replace(operator, inputs=tuple(dict.fromkeys(listed[0])), outputs=listed[1], tile=tile)
        parameters = self.parameters.get(operator.name, operator.parameters)
        self.operators[operator.name] = replace(operator, parameters=parameters)

    def fresh_name(self, name: str) -> str:
        """`name`, or with a number where an operator is called that already."""
        numbered = (name if not again else f"{name}.{again}" for again in range(len(self.operators) + 1))
        return next(each for each in numbered if each not in self.operators)

    def keep(self, name: str, bands: Iterable[Tensor]) -> None:
        """Record these bands of a tensor of `graph` as used."""
        self.bands[name].update((band.name, band) for band in bands)

    def finished(self, inputs: Mapping[str, Iterable[Tensor]]) -> Graph:
        """Return the graph of all parts; `inputs` are the bands of network inputs, some possibly without readers."""
        return Graph(self.graph.name, tuple(self.tensors(inputs)), tuple(self.operators.values()))

    def tensors(self, inputs: Mapping[str, Iterable[Tensor]]) -> list[Tensor]:
        """Return the bands of parameters and network inputs (whole if not cut), and the used bands of other tensors."""
        tensors: list[Tensor] = []
        for tensor in self.graph.tensors:
            if tensor.role is Role.PARAMETER:
                tensors.extend(self.bands[tensor.name].values() or (tensor,))
            elif tensor.role is Role.INPUT:
                tensors.extend(inputs.get(tensor.name, (tensor,)))
            else:
                tensors.extend(self.bands[tensor.name].values())
        return tensors

    def _whole_tile(self, operator: Operator) -> Tile:
        """Return the tile that covers all of an operator.

        The operator's other tiles differ from it only in the region.
        """
        if operator.name not in self._whole_tiles:
            joined = tuple(part for name in dict.fromkeys(operator.inputs) for part in self.joined.get(name, ()))
            self._whole_tiles[operator.name] = replace(tile_of(self.graph, operator), joined=joined)
        return self._whole_tiles[operator.name]

    def _ensure_it_runs(self, operator: Operator, inputs: Sequence[Tensor], region: Region) -> None:
        if self._runs_in_parts.get(operator.name) or self._is_all(operator, inputs, region):
            return
        if operator.name not in self._runs_in_parts:
            source, written = (
                self.graph.tensor[each].shape or () for each in (operator.inputs[0], operator.outputs[0])
            )
            self._runs_in_parts[operator.name] = (
                operator.kind in _RUN_IN_PARTS
                or paces_of(operator, source, written) is not None
                or geometry_of(operator, self.graph, is_model=False) is not None
            )
        if not self._runs_in_parts[operator.name]:
            raise GraphError(
                f"it cannot run in parts ({operator.kind})",
                place=f"operator {operator.name!r}",
                expected="convolutions, pools, elementwise operators, Slice or Pad, or else a stack in one tile",
            )

    def _is_all(self, operator: Operator, inputs: Sequence[Tensor], region: Region) -> bool:
        """Return True if the part reads and writes everything that the operator does."""
        read = [self._whole_tile(operator).seen(band) for band in dict.fromkeys(inputs)]
        given = {
            name: sum(prod(band.shape or ()) for band in read if place_of(band)[0] == name) for name in operator.inputs
        }
        is_read = all(given[name] == prod(self.graph.tensor[name].shape or ()) for name in operator.inputs)
        return is_read and size_of(region) == prod(self.graph.tensor[operator.outputs[0]].shape or ())


def _region_of(bands: Sequence[Tensor]) -> Region:
    """Return the rectangle that bands in row-major order make up, from the first's start to the last's end."""
    first, last = (band.region or whole_region(band.shape or ()) for band in (bands[0], bands[-1]))
    return tuple([(begin[0], end[1]) for begin, end in zip(first, last, strict=True)])


@dataclass(frozen=True, slots=True)
class TilePlace:
    """The row and column of a tile of a stack, and the number of tiles until the next row and the next column run."""

    row: int
    column: int
    down: int
    across: int = 1

    @property
    def number(self) -> int:
        """Return the position of the tile in execution order."""
        return self.row * self.down + self.column * self.across


@dataclass(frozen=True, slots=True)
class Lines:
    """The positions, in pixels, at which a map is cut along one axis: one tuple per tile, or one for all tiles."""

    of_tiles: tuple[tuple[int, ...], ...]
    known: dict[tuple[int, Range], tuple[Range, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def are_shared(self) -> bool:
        """Return True if all tiles write and read the same bands."""
        return len(self.of_tiles) == 1

    def are_bounds(self, tile: int, within: Range, scale: int) -> bool:
        """Return True if lines of a tile bound a range, whose pixels have `scale` elements."""
        return {end * scale for end in within} <= {*self.of_tiles[0 if self.are_shared else tile]}

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
    channels: tuple[int, ...] = ()
    """The channels at which slices cut the map, both ends included; empty if no slice does."""
    made: dict[tuple[str, Range, Range, Range | None], Tensor] = field(default_factory=dict, compare=False, repr=False)
    whole: Region = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", whole_region(self.base.shape or ()))

    def within(
        self, place: TilePlace, rows: Range, columns: Range, channels: Range | None = None
    ) -> tuple[Tensor, ...]:
        """Return the bands that make up a rectangle of pixels for the tile at `place`, row by row.

        They have the given `channels`, by default all of them.
        """
        high, wide = self.scale
        downwards = self.rows.pieces(place.row, (rows[0] * high, rows[1] * high))
        sideways = self.columns.pieces(place.column, (columns[0] * wide, columns[1] * wide))
        mark = self._mark(place)
        slices: Sequence[Range | None] = [
            each for each in pairwise(self.channels) if channels is None or channels[0] <= each[0] < channels[1]
        ]
        return tuple(
            [
                self._band(mark, down, across, own)
                for own in slices or (None,)
                for down in downwards
                for across in sideways
            ]
        )

    def seen(self, place: TilePlace, rows: Range, columns: Range) -> tuple[Tensor, ...]:
        """Return the bands that contain a rectangle of pixels; of a matrix all rows (heads) if no lines bound them."""
        if self.layout is Layout.MATRIX:
            axes = (self.rows, place.row, rows), (self.columns, place.column, columns)
            rows, columns = (
                own if lines.are_bounds(tile, own, scale) else (0, size)
                for (lines, tile, own), scale, size in zip(axes, self.scale, self.pixels, strict=True)
            )
        return self.within(place, rows, columns)

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
        shared = {"row": 0} if self.rows.are_shared else {}
        shared |= {"column": 0} if self.columns.are_shared else {}
        return f"#{replace(place, **shared).number}"

    def _band(self, mark: str, rows: Range, columns: Range, channels: Range | None) -> Tensor:
        """Return the band of a rectangle of elements, with all channels if they are None; each is created once."""
        key = mark, rows, columns, channels
        band = self.made.get(key)
        if band is None:
            region = region_of_pixels(self.whole, rows, columns, self.layout)
            if channels is not None:
                region = (region[0], channels, *region[2:])
            band = self.made[key] = band_of_tensor(self.base, region, mark)
        return band


@dataclass(frozen=True, slots=True)
class JoinedBands:
    """The bands of a concatenation that is not made: those of the maps that it joins, one after the other."""

    parts: tuple[MapBands, ...]

    def within(self, place: TilePlace, rows: Range, columns: Range) -> tuple[Tensor, ...]:
        """Return the bands of all parts that make up a rectangle of pixels for the tile at `place`."""
        return tuple(band for part in self.parts for band in part.within(place, rows, columns))

    seen = within

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
        self._channels: dict[str, set[int]] = {}
        for name, layout in layouts.items():
            height, width = pixels_of(graph.tensor[name].shape or (), layout)
            self._lines[name] = {0, height}, {0, width}

    def cut(self, name: str, rows: Iterable[int], columns: Iterable[int]) -> None:
        """Cuts a map at these lines."""
        for lines, more in zip(self._lines[name], (rows, columns), strict=True):
            lines.update(more)

    def cut_channels(self, name: str, channels: Iterable[int]) -> None:
        """Cut a map between channels at these lines, which include both ends."""
        self._channels.setdefault(name, set()).update(channels)

    def bands(self, name: str, scale: tuple[int, int] = (1, 1)) -> MapBands:
        """Return the bands of a map; tiles count its pixels in squares of `scale` elements."""
        rows, columns = (Lines((tuple(sorted(lines)),)) for lines in self._lines[name])
        channels = tuple(sorted(self._channels.get(name, ())))
        return MapBands(self._graph.tensor[name], rows, columns, scale, self._layouts[name], channels)


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


@dataclass
class ViewEmission:
    """The views of one tile, whose maps have the given `bands`; `made` are the views so far, by tensor and region."""

    parts: EmittedParts
    bands: Mapping[str, MapBands | JoinedBands]
    place: TilePlace
    made: dict[tuple[str, Region], tuple[Tensor, ...]] = field(default_factory=dict)

    def view(self, name: str, region: Region) -> tuple[Tensor, ...]:
        """Return a region of a view, or the bands of the parts of a concatenation that is not materialised.

        Raises GraphError if only a part of a view of another shape is requested.
        """
        if (name, region) not in self.made:
            self.made[name, region] = self._made(self.parts.graph.tensor[name], region)
        return self.made[name, region]

    def leave(self, tensor: Tensor) -> None:
        """Emit a whole view that is an output of the network."""
        operator = self.parts.graph.producer[tensor.name]
        region = whole_region(tensor.shape or ())
        name = self.parts.fresh_name(f"{operator.name}#{self.place.number}")
        self.parts.add(operator, name, self._seen(operator, tensor, region), (tensor,))

    def _made(self, tensor: Tensor, region: Region) -> tuple[Tensor, ...]:
        operator = self.parts.graph.producer[tensor.name]
        seen = self._seen(operator, tensor, region)
        if tensor.name in self.parts.joined:
            return seen
        is_whole = region == whole_region(tensor.shape or ()) and all(band.part_of is None for band in seen)
        is_whole = is_whole and KEY_SLICE not in operator.attributes  # a tile reads the part again, not to keep it
        if is_whole and operator.name in self.parts.operators:
            return (tensor,)
        name = self.parts.fresh_name(f"{operator.name}#{self.place.number}")
        written = band_of_tensor(tensor, region, "" if is_whole else name.removeprefix(operator.name))
        if not is_whole:
            written = replace(written, role=Role.ACTIVATION)
        self.parts.add(operator, name, seen, (written,))
        return (written,)

    def _seen(self, operator: Operator, tensor: Tensor, region: Region) -> tuple[Tensor, ...]:
        """Return the parts of the inputs that the region needs: bands of maps, or regions of further views."""
        sources = [self.parts.graph.tensor[name] for name in operator.inputs]
        wanted = (_wanted(operator, source, tensor, region) for source in sources)
        every = zip(sources, wanted, strict=True)
        return tuple(band for source, own in every for band in self._of_source(source.name, own))

    def _of_source(self, name: str, wanted: Region) -> tuple[Tensor, ...]:
        if name not in self.bands:
            return self.view(name, wanted)
        bands = self.bands[name]
        return bands.seen(self.place, *ranges_of_pixels(wanted, bands.layout))


def shift_of_view(graph: Graph, name: str, maps: Container[str]) -> tuple[int, int]:
    """Return the rows and columns by which a view's pixels are shifted in the map that it shows."""
    down = across = 0
    while name not in maps:
        operator = graph.producer[name]
        source, written = (graph.tensor[each].shape or () for each in (operator.inputs[0], name))
        paces = paces_of(operator, source, written)
        if paces is not None:
            down, across = down + paces[-2].first, across + paces[-1].first
        name = operator.inputs[0]
    return down, across


def _wanted(operator: Operator, source: Tensor, written: Tensor, region: Region) -> Region:
    shape, after = source.shape or (), written.shape or ()
    paces = paces_of(operator, shape, after)
    if paces is not None:
        return seen_region(paces, region, shape)
    spans = spans_read(operator, shape, after)
    if spans is not None:
        return region_read(spans, after, region)
    if operator.kind == "Concat":
        return region_of_pixels(whole_region(shape), *ranges_of_pixels(region))
    if region != whole_region(after):
        place = f"operator {operator.name!r}"
        raise GraphError(f"a part of it is read ({operator.kind})", place=place, expected="a stack in one tile")
    return whole_region(shape)
