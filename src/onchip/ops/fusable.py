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
OF_IMAGES: Final = SLIDING | {"ConvTranspose", "GlobalMaxPool", "GlobalAveragePool", "Resize", "Upsample"}
"""Kinds whose maps are images in every group."""
OF_ROWS: Final = frozenset({"Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"})
"""Kinds without a loop nest that compute each row of a matrix from that row, if their axis is the last."""
OF_MATRICES: Final = OF_ROWS | {"MatMul"}
"""Kinds beside which tensors of four dimensions are matrices with heads."""
MATRIX_RANKS: Final = (2, 3)
"""Numbers of dimensions of a matrix, possibly with a batch before it."""
HEADS_RANK: Final = 4
"""Number of dimensions of matrices with heads: batch, heads, rows and columns."""


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
    ranks = MATRIX_RANKS if kinds.isdisjoint(OF_MATRICES) else (*MATRIX_RANKS, HEADS_RANK)
    return (
        kinds.isdisjoint(OF_IMAGES)
        and all(len(shape) in ranks for shape in shapes)
        and any(shape[-2] > 1 for shape in shapes)
    )


def layout_needed(graph: Graph, operator: str) -> Layout | None:
    """Return the layout that an operator gives to its group, or None if it takes the layout of the others."""
    if graph.operator[operator].kind in OF_IMAGES:
        return Layout.IMAGE
    return Layout.MATRIX if are_matrices(graph, [operator]) else None


def pixels_of(shape: tuple[int, ...], layout: Layout = Layout.IMAGE) -> tuple[int, int]:
    """Return the rows and columns of a tensor, or 1 for missing dimensions.

    In an image of more than four dimensions, all dimensions before the rows are channels.
    """
    if layout is Layout.MATRIX:
        return shape[-2], shape[-3] if len(shape) == HEADS_RANK else 1
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
        return region[-2], region[-3] if len(region) == HEADS_RANK else (0, 1)
    rows = region[-2] if len(region) > ROW_AXES else (0, 1)
    return rows, region[-1] if len(region) >= ROW_AXES else (0, 1)


def region_of_pixels(whole: Region, rows: Range, columns: Range, layout: Layout = Layout.IMAGE) -> Region:
    """Return these rows and columns in all channels of a tensor; `whole` is its region, which may lack both."""
    if layout is Layout.MATRIX:
        return (whole[0], columns, rows, whole[-1]) if len(whole) == HEADS_RANK else (*whole[:-2], rows, whole[-1])
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
    pixels = axis.pixels(stack.output)
    if not 1 <= tile <= pixels:
        raise InputError(f"a tile has {tile} {axis} of {stack.output.name!r}", place="tile", expected=f"1 to {pixels}")
    tiles = StackAxisTiles(stack, axis, tile, cached)
    maps = (*(layer.output for layer in reversed(stack.layers)), *stack.inputs)
    return BackCalculation(
        {one.name: tiles.use(one.name) for one in maps},
        tuple(
            tuple(tiles.read(at, number) for number in range(len(layer.reads))) for at, layer in enumerate(stack.layers)
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """The stored pixels of a map that a layer sees in each tile; empty where the layer computes nothing."""

    seen: Spans
    is_busy: NDArray[np.bool_]
    zeros_before: Integers
    zeros_after: Integers

    @classmethod
    def of(cls, window: Window, size: int, computed: Spans) -> _View:
        """Return the view through a window on a map of `size` pixels of a layer that computes these pixels."""
        positions, is_busy = size * window.repeat, computed.lengths > 0
        first = computed.starts * window.stride - window.pad
        behind = (computed.stops - 1) * window.stride - window.pad + window.reach
        begins = np.minimum(np.maximum(first, 0), positions) // window.repeat
        ends = -(-np.minimum(np.maximum(behind, 0), positions) // window.repeat)
        zeros = np.where(is_busy, np.maximum(-first, 0), 0), np.where(is_busy, np.maximum(behind - positions, 0), 0)
        return cls(Spans(np.where(is_busy, begins, ends), ends), is_busy, *zeros)


@dataclass(slots=True)
class StackAxisTiles:
    """Tiles of one size along an axis of a stack.

    If `cached`, pixels of the preceding tile stay available. Maps are calculated on demand, from the stack's output
    backwards, so the unused beginning of a long stack costs nothing. All queries raise InputError if a tile sees only
    padding of a map that it needs.
    """

    stack: Stack
    axis: AxisName
    size: int
    cached: bool
    _pixels: dict[str, int] = field(init=False)
    _readers: dict[str, list[tuple[int, int]]] = field(init=False)
    """Map from feature map to its readers, as pairs of layer index and read index."""
    _computed: dict[str, Spans] = field(init=False)
    _views: dict[tuple[int, int], _View] = field(default_factory=dict)
    _calculated_from: int = field(init=False)

    def __post_init__(self) -> None:
        output, layers = self.stack.output, self.stack.layers
        maps = (*self.stack.inputs, *(layer.output for layer in layers))
        self._pixels = {one.name: self.axis.pixels(one) for one in maps}
        self._readers = {one.name: [] for one in maps}
        for at, layer in enumerate(layers):
            for number, read in enumerate(layer.reads):
                self._readers[read.source].append((at, number))
        pixels = self._pixels[output.name]
        stops = np.arange(pixels % self.size or self.size, pixels + 1, self.size, dtype=np.int64)
        self._computed = {output.name: Spans(self._after_the_one_before(stops, 0), stops)}
        self._calculated_from = len(layers) - 1

    def computed(self, name: str) -> Spans:
        """Return the pixels of a map that each tile computes, or loads if the map comes from outside."""
        if name not in self._computed:
            needed = min((at for at, _ in self._readers[name]), default=self._calculated_from)
            for at in reversed(range(needed, self._calculated_from)):  # chains exceed the recursion limit
                self._calculate(self.stack.layers[at].output.name)
                self._calculated_from = at
            self._calculate(name)
        return self._computed[name]

    def read(self, at: int, number: int) -> ReadUse:
        """Return the pixels that layer `at` sees in each tile through read `number`."""
        view = self._view(at, number)
        from_cache = np.zeros_like(view.seen.starts)
        if self.cached:
            source = self.computed(self.stack.layers[at].reads[number].source)
            from_cache = np.maximum(np.minimum(view.seen.stops, source.starts) - view.seen.starts, 0)
        return ReadUse(view.seen, from_cache, view.zeros_before, view.zeros_after)

    def use(self, name: str) -> MapUse:
        """Return the pixels of a map that each tile needs, computes and caches."""
        computed, views = self.computed(name), [self._view(*reader) for reader in self._readers[name]]
        if not views:
            nothing = np.zeros_like(computed.starts)
            return MapUse(computed, computed, nothing, nothing)
        starts = np.min([np.where(one.is_busy, one.seen.starts, self._pixels[name]) for one in views], axis=0)
        stops = np.max([np.where(one.is_busy, one.seen.stops, 0) for one in views], axis=0)
        kept = self.kept(name)
        return MapUse(Spans(np.minimum(starts, stops), stops), computed, kept, np.minimum(kept, computed.lengths))

    def kept(self, name: str) -> Integers:
        """Return the number of pixels of a map that a cache holds for later tiles after each tile."""
        stops = self.computed(name).stops
        if not self.cached or not self._readers[name]:
            return np.zeros_like(stops)
        found: Integers = np.maximum(stops - self._next_first(name), 0)
        return found

    def _view(self, at: int, number: int) -> _View:
        if (at, number) not in self._views:
            layer = self.stack.layers[at]
            read = layer.reads[number]
            own, size = self.computed(layer.output.name), self._pixels[read.source]
            view = _View.of(self.axis.window(read), size, own)
            if (view.is_busy & (view.seen.lengths <= 0)).any():
                what = f"a tile sees nothing but padding along its {self.axis}"
                raise InputError(what, place=f"feature map {read.source!r}", expected="larger tiles")
            self._views[at, number] = view
        return self._views[at, number]

    def _calculate(self, name: str) -> None:
        """Set the computed pixels of a map: the hull of its readers' views, after the preceding tile if cached."""
        if name in self._computed:
            return
        seen = [self._view(*reader).seen for reader in self._readers[name]]
        if not seen:
            what, expected = "no layer of its stack reads it", "only the last output to leave"
            raise InputError(what, place=f"feature map {name!r}", expected=expected)
        stops = np.max([one.stops for one in seen], axis=0)
        starts = np.min([one.starts for one in seen], axis=0)
        if self.cached:
            starts = self._after_the_one_before(stops, int(starts[0]))
        self._computed[name] = Spans(starts, stops)

    def _after_the_one_before(self, stops: Integers, first: int) -> Integers:
        """Return the end of the preceding tile for each tile, and `first` for the first tile."""
        return np.concatenate(([first], stops[:-1]))

    def _next_first(self, name: str) -> Integers:
        """Return the first pixel that any reader sees in later tiles, or the map's size if no reader sees one."""
        size, found = self._pixels[name], []
        for at, number in self._readers[name]:
            layer = self.stack.layers[at]
            window, stops = self.axis.window(layer.reads[number]), self.computed(layer.output.name).stops
            later = np.minimum(np.maximum(stops * window.stride - window.pad, 0), size * window.repeat)
            found.append(np.where(stops < stops[-1], later // window.repeat, size))
        least: Integers = np.min(found, axis=0)
        return least


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
