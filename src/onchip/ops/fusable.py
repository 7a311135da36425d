"""Fusable layers, and the regions of their inputs that a tile of the last output needs.

Rows and columns are independent, so each axis is calculated separately, for all tiles at once. Intervals are half-open.
If the tiles do not fill the map, the first one is smaller. The first tile also computes the halo of its caches, so
fewer pixels are live in it than if the last tile were smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.fused_network import StreamedOperator
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.tile import Range, Region
from onchip.ir.window import Window

ROW_AXES: Final = 3
"""Number of dimensions from which an image has columns; with more dimensions it also has rows."""
SLIDING: Final = frozenset({"Conv", "ConvInteger", "QLinearConv", "MaxPool", "AveragePool", "LpPool"})
"""Kinds whose windows slide over rows and columns."""
_OF_IMAGES: Final = SLIDING | {"ConvTranspose", "GlobalMaxPool", "GlobalAveragePool", "Resize", "Upsample"}
OF_ROWS: Final = frozenset({"Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"})
"""Kinds without a loop nest that compute each row of a matrix from that row, if their axis is the last."""
_OF_MATRICES: Final = OF_ROWS | {"MatMul"}
MATRIX_RANKS: Final = (2, 3)
"""Numbers of dimensions of a matrix, possibly with a batch before it."""
_HEADS_RANK: Final = 4


class Layout(Enum):
    """The dimensions of a tensor that are the rows and columns of its feature map; the others are channels."""

    IMAGE = "image"
    """Rows and columns are the last two dimensions, behind batch and channels; of three dimensions, one row."""
    MATRIX = "matrix"
    """Rows are the rows of a matrix, the last dimension but one; columns are the heads before them, or one."""


def layout_of(graph: Graph) -> Layout:
    """Return the layout of a network's maps: matrices if they have several rows, and no window slides over them."""
    return Layout.MATRIX if are_matrices(graph, [operator.name for operator in graph.operators]) else Layout.IMAGE


def are_matrices(graph: Graph, operators: Sequence[str]) -> bool:
    """Return True if the maps of operators are matrices.

    They have two or three dimensions, or, if there is a product of matrices or a kind of `OF_ROWS`, a fourth one of
    heads. One of them has several rows.
    """
    every = [graph.operator[name] for name in operators]
    names = dict.fromkeys(name for one in every for name in (*one.inputs, *one.outputs))
    shapes = [graph.tensor[name].shape or () for name in names]
    kinds = {one.kind for one in every}
    ranks = MATRIX_RANKS if kinds.isdisjoint(_OF_MATRICES) else (*MATRIX_RANKS, _HEADS_RANK)
    return (
        kinds.isdisjoint(_OF_IMAGES)
        and all(len(shape) in ranks for shape in shapes)
        and any(shape[-2] > 1 for shape in shapes)
    )


def layout_needed(graph: Graph, operator: str) -> Layout | None:
    """Return the layout that an operator gives to its group, or None if it takes the layout of the others."""
    if graph.operator[operator].kind in _OF_IMAGES:
        return Layout.IMAGE
    return Layout.MATRIX if are_matrices(graph, [operator]) else None


def pixels_of(shape: tuple[int, ...], layout: Layout = Layout.IMAGE) -> tuple[int, int]:
    """Return the rows and columns of a tensor, or 1 for missing dimensions.

    In an image of more than four dimensions, all dimensions before the rows are channels.
    """
    if layout is Layout.MATRIX:
        return shape[-2], shape[-3] if len(shape) == _HEADS_RANK else 1
    rows = shape[-2] if len(shape) > ROW_AXES else 1
    return rows, shape[-1] if len(shape) >= ROW_AXES else 1


def pixels_in_tiles(graph: Graph, operators: Sequence[str]) -> tuple[int, int]:
    """Return the rows and columns along which tiles cut the last output of operators that run as one group."""
    shape = graph.tensor[graph.operator[operators[-1]].outputs[0]].shape or ()
    if are_matrices(graph, operators):
        return pixels_of(shape, Layout.MATRIX)
    return (shape[-2], shape[-1]) if len(shape) > ROW_AXES else (1, 1)


def ranges_of_pixels(region: Region, layout: Layout = Layout.IMAGE) -> tuple[Range, Range]:
    """Return the row and column ranges of a region of a tensor, (0, 1) for missing dimensions."""
    if layout is Layout.MATRIX:
        return region[-2], region[-3] if len(region) == _HEADS_RANK else (0, 1)
    rows = region[-2] if len(region) > ROW_AXES else (0, 1)
    return rows, region[-1] if len(region) >= ROW_AXES else (0, 1)


def region_of_pixels(whole: Region, rows: Range, columns: Range, layout: Layout = Layout.IMAGE) -> Region:
    """Return these rows and columns in all channels of a tensor; `whole` is its region, which may lack both."""
    if layout is Layout.MATRIX:
        return (whole[0], columns, rows, whole[-1]) if len(whole) == _HEADS_RANK else (*whole[:-2], rows, whole[-1])
    if len(whole) < ROW_AXES:
        return whole
    return (*whole[:-2], rows, columns) if len(whole) > ROW_AXES else (*whole[:-1], columns)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A tensor of `channels` (batch included) times `rows` x `columns` pixels, with `bits` per element."""

    name: str
    channels: int
    rows: int
    columns: int
    bits: int = 8
    layout: Layout = Layout.IMAGE

    @property
    def elements(self) -> int:
        """Return the number of elements of all channels, rows and columns."""
        return self.channels * self.rows * self.columns

    @property
    def size_bits(self) -> int:
        """Return the size in bits of all channels, rows and columns."""
        return self.elements * self.bits


@dataclass(frozen=True, slots=True)
class Read:
    """A feature map, by name, read through a window along its rows and one along its columns.

    A negative `pad` crops: networks without padding add feature maps of different sizes, aligned at their centres.
    `channels` is the number of the map's channels that are read; None means all.
    """

    source: str
    rows: Window
    columns: Window
    channels: int | None = None

    def channels_seen(self, of_map: int) -> int:
        """Return the number of channels read of a map that has `of_map` channels."""
        return of_map if self.channels is None else self.channels


@dataclass(frozen=True, slots=True)
class FusableLayer:
    """A layer with the loop nest `layer` over the whole output; the second read of an addition stands for its weights.

    A layer that `runs_alone` is a separate stack, in one tile, because the input region of a tile is unknown. If it
    `joins` maps, its reads are the parts of one input, concatenated along the channels and read through equal windows.
    """

    name: str
    layer: Layer
    output: FeatureMap
    reads: tuple[Read, ...]
    weight_bits: int = 0
    runs_alone: bool = False
    joins: bool = False

    @property
    def weight_is_a_map(self) -> bool:
        """Return True if the second map read stands for the weights."""
        return len(self.reads) > 1 and self.layer.has_weight and not self.joins


@dataclass(frozen=True, slots=True)
class FusableNetwork:
    """Layers in execution order; the `inputs` come from outside.

    The `outputs`, feature maps by name, leave the network, as do maps without readers. Operators in `moved` run outside
    of the stacks: the maps that they read leave the network, and the maps that they write come from outside.
    """

    name: str
    inputs: tuple[FeatureMap, ...]
    layers: tuple[FusableLayer, ...]
    outputs: tuple[str, ...] = ()
    moved: tuple[StreamedOperator, ...] = ()
    maps: Mapping[str, FeatureMap] = field(init=False, repr=False, compare=False)
    """Map from name to feature map."""
    last_readers: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Map from the name of a feature map that is read to the index of the last layer that reads it."""

    def __post_init__(self) -> None:
        readers = {read.source: at for at, layer in enumerate(self.layers) for read in layer.reads}
        object.__setattr__(self, "last_readers", readers)
        maps = {one.name: one for one in (*self.inputs, *(layer.output for layer in self.layers))}
        object.__setattr__(self, "maps", maps)
        if unknown := set(self.outputs) - self.maps.keys():
            raise InputError(f"it has no {min(unknown)!r}", file=self.name, place="outputs", expected="a feature map")


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers of a network that run together; `inputs` are the feature maps that they read from outside.

    Only the last layer's output leaves the stack; `ends_in_output` is True if it is an output of the network.
    """

    inputs: tuple[FeatureMap, ...]
    layers: tuple[FusableLayer, ...]
    ends_in_output: bool = False

    @property
    def output(self) -> FeatureMap:
        """Return the last layer's output, which is cut into tiles."""
        return self.layers[-1].output

    @property
    def is_square(self) -> bool:
        """Return True if rows and columns are equal in all maps and in all reads."""
        maps = (*self.inputs, *(layer.output for layer in self.layers))
        reads = (read for layer in self.layers for read in layer.reads)
        return all(one.rows == one.columns for one in maps) and all(read.rows == read.columns for read in reads)


Integers: TypeAlias = NDArray[np.int64]


class AxisName(StrEnum):
    """The axis of tiling: tiles follow each other along the columns, rows of tiles along the rows."""

    ROWS = "rows"
    COLUMNS = "columns"

    def pixels(self, feature_map: FeatureMap) -> int:
        """Return the number of pixels of the map along this axis."""
        return feature_map.rows if self is AxisName.ROWS else feature_map.columns

    def window(self, read: Read) -> Window:
        """Return the window of the read along this axis."""
        return read.rows if self is AxisName.ROWS else read.columns


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """An interval of pixels in every tile."""

    starts: Integers
    stops: Integers

    @property
    def lengths(self) -> Integers:
        """Return the number of pixels in each tile along the axis."""
        return self.stops - self.starts


@dataclass(frozen=True, slots=True, eq=False)
class MapUse:
    """The pixels of a feature map in every tile.

    `needed` reaches from the first to the last pixel that any layer sees. `computed` are the pixels that the tile
    computes, or loads for a map from outside. Of these and of the pixels cached before, the last `kept` wait in the
    cache for later tiles; `written` of them are newly cached.
    """

    needed: Spans
    computed: Spans
    kept: Integers
    written: Integers


@dataclass(frozen=True, slots=True, eq=False)
class ReadUse:
    """The pixels of an input that a layer sees in every tile; the first `cached` come from the cache.

    `zeros_before` and `zeros_after` count the padding seen around them.
    """

    seen: Spans
    cached: Integers
    zeros_before: Integers
    zeros_after: Integers


@dataclass(frozen=True, slots=True, eq=False)
class BackCalculation:
    """An axis of a stack: the maps by name, and the reads of each layer in the stack's order."""

    maps: Mapping[str, MapUse]
    reads: tuple[tuple[ReadUse, ...], ...]

    @property
    def kept(self) -> dict[str, int]:
        """Return the most pixels of each map that any tile keeps, by name."""
        return {name: int(use.kept.max()) for name, use in self.maps.items()}

    @property
    def whole(self) -> dict[str, int]:
        """Return the number of pixels of each map that all tiles together compute at least once, by name."""
        return {name: int(use.computed.stops.max() - use.computed.starts.min()) for name, use in self.maps.items()}


def back_calculation(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> BackCalculation:
    """Calculate tiles of `tile` output pixels along an axis; if `cached`, pixels of the previous tile are reused.

    Raises InputError for a tile larger than the output, for a layer that the output does not need, and for a tile that
    would see only padding.
    """
    edges = _edges(stack.output, axis, tile)
    computed: dict[str, Spans] = {stack.output.name: Spans(edges[:-1], edges[1:])}
    uses: dict[str, MapUse] = {stack.output.name: _used_outside(computed[stack.output.name])}
    reads: list[tuple[ReadUse, ...]] = [()] * len(stack.layers)
    readers: dict[str, list[tuple[FusableLayer, Read]]] = {}
    for layer in stack.layers:
        for read in layer.reads:
            readers.setdefault(read.source, []).append((layer, read))
    for feature_map in (*(layer.output for layer in reversed(stack.layers[:-1])), *stack.inputs):
        views = _views(readers.get(feature_map.name, ()), feature_map, axis, computed)
        computed[feature_map.name] = _computed(views, cached=cached)
        uses[feature_map.name] = _use(views, computed[feature_map.name], cached=cached)
    maps = {one.name: one for one in (*stack.inputs, *(layer.output for layer in stack.layers))}
    for at, layer in enumerate(stack.layers):
        own = computed[layer.output.name]
        reads[at] = tuple(
            _read_use(
                _View(axis.window(read), axis.pixels(maps[read.source]), own), computed[read.source], cached=cached
            )
            for read in layer.reads
        )
    return BackCalculation(uses, tuple(reads))


def _edges(output: FeatureMap, axis: AxisName, tile: int) -> Integers:
    """Return the starts of the tiles, then the end of the last one."""
    size = axis.pixels(output)
    if not 1 <= tile <= size:
        raise InputError(f"a tile has {tile} {axis} of {output.name!r}", place="tile", expected=f"1 to {size}")
    first = size % tile or tile
    return np.concatenate((np.zeros(1, np.int64), np.arange(first, size + 1, tile, dtype=np.int64)))


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """The view of one layer on a map of `size` pixels while the layer computes the pixels `computed`."""

    window: Window
    size: int
    computed: Spans
    is_busy: NDArray[np.bool_] = field(init=False)
    """True for tiles in which the layer computes something; in the last tiles it may be finished."""
    seen: Spans = field(init=False)
    """The stored pixels seen; empty while the layer computes nothing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_busy", self.computed.lengths > 0)
        starts, stops = (np.minimum(np.maximum(one, 0), self.positions) for one in (self.first, self.behind))
        begins, ends = starts // self.window.repeat, -(-stops // self.window.repeat)
        object.__setattr__(self, "seen", Spans(np.where(self.is_busy, begins, ends), ends))

    @property
    def positions(self) -> int:
        """Return the number of positions over the map; a repeated pixel has several."""
        return self.size * self.window.repeat

    @property
    def first(self) -> Integers:
        """Return the first position seen; negative in the padding."""
        return self.computed.starts * self.window.stride - self.window.pad

    @property
    def behind(self) -> Integers:
        """Return the position behind the last one seen."""
        return (self.computed.stops - 1) * self.window.stride - self.window.pad + self.window.reach

    @property
    def next_first(self) -> Integers:
        """Return the first stored pixel that later tiles see; `size` if they see none."""
        later = np.minimum(np.maximum(self.computed.stops * self.window.stride - self.window.pad, 0), self.positions)
        return np.where(self.computed.stops < self.computed.stops[-1], later // self.window.repeat, self.size)


def _views(
    readers: Sequence[tuple[FusableLayer, Read]], feature_map: FeatureMap, axis: AxisName, computed: Mapping[str, Spans]
) -> list[_View]:
    size = axis.pixels(feature_map)
    views = [
        _View(axis.window(read), size, computed[layer.output.name])
        for layer, read in readers
        if layer.output.name in computed
    ]
    place = f"feature map {feature_map.name!r}"
    if not views:
        raise InputError("no layer of its stack reads it", place=place, expected="only the last output to leave")
    for view in views:
        if (view.is_busy & (view.seen.lengths <= 0)).any():
            raise InputError(f"a tile sees nothing but padding along its {axis}", place=place, expected="larger tiles")
    return views


def _computed(views: Sequence[_View], *, cached: bool) -> Spans:
    """Return the hull of the pixels that all readers see; with caches it starts at the end of the previous tile."""
    starts = np.min([view.seen.starts for view in views], axis=0)
    stops = np.max([view.seen.stops for view in views], axis=0)
    if cached:
        starts[1:] = stops[:-1]
    return Spans(starts, stops)


def _use(views: Sequence[_View], computed: Spans, *, cached: bool) -> MapUse:
    starts = np.min([np.where(view.is_busy, view.seen.starts, view.size) for view in views], axis=0)
    stops = np.max([np.where(view.is_busy, view.seen.stops, 0) for view in views], axis=0)
    needed = Spans(np.minimum(starts, stops), stops)
    nothing = np.zeros_like(stops)
    if not cached:
        return MapUse(needed, computed, nothing, nothing)
    first_kept = np.min([view.next_first for view in views], axis=0)
    kept = np.maximum(computed.stops - first_kept, 0)
    return MapUse(needed, computed, kept, np.minimum(kept, computed.lengths))


def _used_outside(computed: Spans) -> MapUse:
    nothing = np.zeros_like(computed.starts)
    return MapUse(computed, computed, nothing, nothing)


def _read_use(view: _View, source: Spans, *, cached: bool) -> ReadUse:
    """Return the use of an input; `source` is the interval of the map that the tile computes."""
    seen = view.seen
    from_cache = np.zeros_like(seen.starts)
    if cached:
        from_cache = np.maximum(np.minimum(seen.stops, source.starts) - seen.starts, 0)
    return ReadUse(
        seen,
        from_cache,
        np.where(view.is_busy, np.maximum(-view.first, 0), 0),
        np.where(view.is_busy, np.maximum(view.behind - view.positions, 0), 0),
    )


@dataclass(frozen=True, slots=True)
class MapExtent:
    """The number of pixels of a feature map along one axis, with the fields of `back_calculation.MapUse`."""

    needed: int
    computed: int
    kept: int
    written: int


@dataclass(frozen=True, slots=True)
class ReadExtent:
    """The number of pixels of a layer's input along one axis, with the fields of `back_calculation.ReadUse`."""

    seen: int
    cached: int
    zeros_before: int
    zeros_after: int


@dataclass(frozen=True, slots=True)
class TileClass:
    """The common extents of equal tiles along an axis: maps by name, and each layer's reads in the stack's order."""

    maps: Mapping[str, MapExtent]
    reads: tuple[tuple[ReadExtent, ...], ...]


@dataclass(frozen=True, slots=True)
class TiledAxis:
    """The tiles along an axis; `order` gives the class of each tile.

    `kept` is the most pixels of each map that any tile keeps; `whole` is the number of pixels that all tiles together
    compute at least once.
    """

    classes: tuple[TileClass, ...]
    order: tuple[int, ...]
    kept: Mapping[str, int]
    whole: Mapping[str, int]


@lru_cache(maxsize=1024)
def tiled_axis(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> TiledAxis:
    """Return the back-calculation of an axis, with equal tiles merged into classes."""
    found = back_calculation(stack, axis, tile, cached=cached)
    table = _table(found)
    _, firsts, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    ranks = np.argsort(np.argsort(firsts))
    return TiledAxis(
        tuple(_class(found, stack, table[first]) for first in sorted(firsts.tolist())),
        tuple(ranks[inverse.reshape(-1)].tolist()),
        found.kept,
        found.whole,
    )


def _table(found: BackCalculation) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return a row of numbers per tile: the extents of each map, then those of each read."""
    maps = [(use.needed.lengths, use.computed.lengths, use.kept, use.written) for use in found.maps.values()]
    reads = [
        (use.seen.lengths, use.cached, use.zeros_before, use.zeros_after) for layer in found.reads for use in layer
    ]
    return np.stack([column for group in (*maps, *reads) for column in group], axis=1)


def _class(found: BackCalculation, stack: Stack, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> TileClass:
    groups = iter(numbers.reshape(-1, 4).tolist())
    maps = {name: MapExtent(*next(groups)) for name in found.maps}
    return TileClass(maps, tuple(tuple(ReadExtent(*next(groups)) for _ in layer.reads) for layer in stack.layers))
