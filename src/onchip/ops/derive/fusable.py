"""A network as depth-first execution sees it: layers, and the windows through which they read feature maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from onchip.answer.fused_network import StreamedOperator
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.region import Range, Region
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
