"""A network as depth-first execution sees it: layers, and through which windows each looks at feature maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from onchip.answer.fused_network import StreamedOperator
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.ir.region import Range, Region
from onchip.ir.window import Window

ROW_AXES: Final = 3
"""A tensor of so many dimensions has columns; one of more has rows, too."""


def pixels_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the rows and columns of a tensor: its last two dimensions behind batch and channels, 1 where it has less.

    What has three dimensions is one row; of what has more than four, all before the rows are channels.
    """
    rows = shape[-2] if len(shape) > ROW_AXES else 1
    return rows, shape[-1] if len(shape) >= ROW_AXES else 1


def ranges_of_pixels(region: Region) -> tuple[Range, Range]:
    """Return the rows and columns of a region of a tensor, 0 to 1 where it has none."""
    rows = region[-2] if len(region) > ROW_AXES else (0, 1)
    return rows, region[-1] if len(region) >= ROW_AXES else (0, 1)


def region_of_pixels(whole: Region, rows: Range, columns: Range) -> Region:
    """Return these rows and columns of all channels of a tensor; `whole` is its region, which may have neither."""
    if len(whole) < ROW_AXES:
        return whole
    return (*whole[:-2], rows, columns) if len(whole) > ROW_AXES else (*whole[:-1], columns)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A tensor of `channels` (batch included) times `rows` x `columns` pixels of `bits` an element."""

    name: str
    channels: int
    rows: int
    columns: int
    bits: int = 8

    @property
    def elements(self) -> int:
        """Return the number of elements of all channels, rows and columns."""
        return self.channels * self.rows * self.columns

    @property
    def size_bits(self) -> int:
        """Return the bits of all channels, rows and columns."""
        return self.elements * self.bits


@dataclass(frozen=True, slots=True)
class Read:
    """A feature map, by name, seen through a window along its rows and one along its columns.

    A negative `pad` crops: networks without padding add feature maps of different sizes, their middles aligned.
    Of the map's channels so many are seen as `channels` says; None stands for all.
    """

    source: str
    rows: Window
    columns: Window
    channels: int | None = None

    def channels_seen(self, of_map: int) -> int:
        """Return how many channels it sees of a map that has so many."""
        return of_map if self.channels is None else self.channels


@dataclass(frozen=True, slots=True)
class FusableLayer:
    """`layer` is the loop nest over the whole output; of two reads (an addition) the second stands for its weights.

    One that `runs_alone` is a stack of its own, in one tile: which part of its inputs a tile would see is not known.
    Where it `joins` maps, its reads are the parts of one input, side by side along the channels, seen alike.
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
        """Whether the second map that it reads stands for its weights."""
        return len(self.reads) > 1 and self.layer.has_weight and not self.joins


@dataclass(frozen=True, slots=True)
class FusableNetwork:
    """Layers in an order in which they can run; the `inputs` come from outside.

    Its `outputs`, feature maps by name, leave it, whoever reads them; so does what nobody reads. Operators that are
    `moved` run beside the layers: what they read leaves, what they write comes from outside.
    """

    name: str
    inputs: tuple[FeatureMap, ...]
    layers: tuple[FusableLayer, ...]
    outputs: tuple[str, ...] = ()
    moved: tuple[StreamedOperator, ...] = ()
    maps: Mapping[str, FeatureMap] = field(init=False, repr=False, compare=False)
    """All feature maps by name."""
    last_readers: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Of each feature map that is read, the place of the last layer that reads it."""

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

    Only the last layer's output leaves it; `ends_in_output` says that it is an output of the network, whoever reads it.
    """

    inputs: tuple[FeatureMap, ...]
    layers: tuple[FusableLayer, ...]
    ends_in_output: bool = False

    @property
    def output(self) -> FeatureMap:
        """The feature map that the last layer writes, and that tiles cut."""
        return self.layers[-1].output

    @property
    def is_square(self) -> bool:
        """Return whether rows and columns are alike in all its maps and in how they are read."""
        maps = (*self.inputs, *(layer.output for layer in self.layers))
        reads = (read for layer in self.layers for read in layer.reads)
        return all(one.rows == one.columns for one in maps) and all(read.rows == read.columns for read in reads)
