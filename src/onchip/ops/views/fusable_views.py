"""What a tensor shows of a feature map that it is a view of: some rows and columns, and zeros beside its channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Self

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.window import Window, integer, integers
from onchip.ops.derive.fusable import FeatureMap, Read, pixels_of
from onchip.ops.views.views import RESIZES, paces_of
from onchip.ops.windows.sliding_windows import NoLayerError, Shape

_PIXEL: Final = Window(1, 1, 1, 0)
_ROWS: Final = 2
_SAME_ELEMENTS: Final = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
_BEHIND_CHANNELS: Final = 5
"""Of a Pad's eight numbers: batch, channels, rows and columns, before and then behind."""


@dataclass(frozen=True, slots=True)
class Sight:
    """`size` is channels, rows, columns; the windows, of one tap each, say which pixel of the map lies where.

    It has so many of the map's `channels`, and maybe zeros behind them; None stands for all.
    """

    whole: FeatureMap
    size: tuple[int, int, int]
    rows: Window = _PIXEL
    columns: Window = _PIXEL
    channels: int | None = None

    @classmethod
    def of(cls, whole: FeatureMap) -> Self:
        """Return the sight of all of a map, unchanged."""
        return cls(whole, (whole.channels, whole.rows, whole.columns))

    @property
    def shows_all(self) -> bool:
        """Whether it has each element of the map once, in some order."""
        return self == type(self).of(self.whole)

    @property
    def stored_channels(self) -> int:
        """The channels that it has of the map."""
        return self.whole.channels if self.channels is None else self.channels

    @property
    def shows_all_pixels(self) -> bool:
        """Whether it has each pixel of the map once, with all channels or some of them."""
        return replace(self, channels=None, size=(self.whole.channels, *self.size[1:])).shows_all

    @property
    def shows_all_repeated(self) -> bool:
        """Whether it has each pixel of the map, equally often in a row, with all channels or some of them."""
        times = self.rows.repeat, self.columns.repeat
        alike = replace(self, rows=replace(self.rows, repeat=1), columns=replace(self.columns, repeat=1))
        size = self.whole.rows * times[0], self.whole.columns * times[1]
        return self.size[1:] == size and replace(alike, size=(self.size[0], *self._stored)).shows_all_pixels

    @property
    def _stored(self) -> tuple[int, int]:
        return self.whole.rows, self.whole.columns

    def seen_through(self, read: Read) -> Read:
        """Return what is read of the map by who reads a concatenation of which this is a part."""
        rows, columns = replace(read.rows, repeat=self.rows.repeat), replace(read.columns, repeat=self.columns.repeat)
        return self.read(rows, columns)

    def read(self, rows: Window, columns: Window) -> Read:
        """Return what a layer reads of the map that looks through these windows."""
        return Read(self.whole.name, rows, columns, self.channels)

    def __str__(self) -> str:
        return " x ".join(map(str, self.size))


def changed(graph: Graph, operator: Operator, source: Sight) -> Sight | None:
    """What an operator of one input leaves of a sight; None where it does not only change that.

    Raises NoLayerError where the kind does, and nothing says how.
    """
    written = shape_of(graph, operator.outputs[0])
    if operator.kind in _SAME_ELEMENTS:
        return reshaped(source, shape_of(graph, operator.inputs[0]), written)
    if operator.kind == "Slice":
        return cropped(operator, source, written)
    if operator.kind in RESIZES:
        return repeated(graph, operator, source)
    return padded(operator, source, written) if operator.kind == "Pad" else None


def repeated(graph: Graph, operator: Operator, source: Sight) -> Sight | None:
    """Each pixel so many times in a row as a Resize to the nearest makes of it; None where it makes other pixels."""
    read, written = (shape_of(graph, name) for name in (operator.inputs[0], operator.outputs[0]))
    paces = paces_of(operator, read, written) if len(read) == len(written) > _ROWS else None
    if paces is None or not source.shows_all_pixels or any(pace.repeat > 1 for pace in paces[:-_ROWS]):
        return None
    rows, columns = (replace(_PIXEL, repeat=pace.repeat) for pace in paces[-_ROWS:])
    return replace(source, size=(source.size[0], *pixels_of(written)), rows=rows, columns=columns)


def reshaped(source: Sight, read: Shape, written: Shape) -> Sight:
    """The same sight, where `written` is that or a row of all its elements; raises NoLayerError for another map.

    Rows and columns stay at their places among the dimensions, unless all is one pixel.
    """
    pixels = pixels_of(written)
    size = prod(written) // prod(pixels), *pixels
    is_same = size == source.size and (len(read) == len(written) or prod(pixels) == 1)
    if not is_same and size != (prod(source.size), 1, 1):
        raise NoLayerError(f"it makes {list(written)} of {source}")
    return source


def cropped(operator: Operator, source: Sight, written: Shape) -> Sight:
    """What a Slice leaves of rows and columns, or of channels; raises NoLayerError where nothing says that."""
    count = len(starts) if isinstance(starts := operator.attributes.get("starts"), list) else 0
    if not count or len(written) not in (_ROWS, 4):
        raise NoLayerError("its attributes do not say what it leaves of rows and columns")
    source = _with_channels(source, prod(written[:2]))
    windows = [source.rows, source.columns]
    axes = integers(operator, "axes", tuple(range(count)))
    steps = integers(operator, "steps", (1,) * count)
    for axis, start, step in zip(axes, integers(operator, "starts", (0,) * count), steps, strict=True):
        index = axis % len(written) - _ROWS
        if step < 1 or (index < 0 and step > 1):
            raise NoLayerError("it leaves out some of the channels between others, or reverses")
        if index < 0:
            continue
        before = windows[index]
        first = start + source.size[1 + index] if start < 0 else start
        windows[index] = replace(before, stride=before.stride * step, pad=before.pad - first * before.stride)
    return replace(source, size=(source.size[0], *pixels_of(written)), rows=windows[0], columns=windows[1])


def _with_channels(source: Sight, channels: int) -> Sight:
    """The sight with so many of its channels; raises NoLayerError where there are zeros behind these."""
    if channels == source.size[0]:
        return source
    if source.size[0] != source.stored_channels:
        raise NoLayerError("it leaves a part of the channels that zeros were put behind")
    return replace(source, size=(channels, *source.size[1:]), channels=channels)


def padded(operator: Operator, source: Sight, written: Shape) -> Sight:
    """Zeros that a Pad puts behind the channels, or around rows and columns that are all there.

    Raises NoLayerError where it pads anything else.
    """
    more = prod(written[:2]) - source.size[0]
    behind = tuple(more if at == _BEHIND_CHANNELS else 0 for at in range(8))
    pads = integers(operator, "pads", (-1,) * 8)
    if more >= 0 and pads == behind:
        return replace(source, size=(source.size[0] + more, source.size[1], source.size[2]))
    is_around = min(pads) >= 0 and pads == (0, 0, *pads[2:4], 0, 0, *pads[6:])
    if not is_around or not source.shows_all_pixels or paces_of(operator, written, written) is None:
        raise NoLayerError("it pads more than zeros behind the channels, or around whole rows and columns")
    rows, columns = (replace(_PIXEL, pad=pad) for pad in pads[2:4])
    return replace(source, size=(source.size[0], written[2], written[3]), rows=rows, columns=columns)


def between_zeros(layer: Layer, sight: Sight) -> Layer:
    """The nest of windows that slide over a sight, as one over its map, whose zeros are not stored.

    Raises NoLayerError where the sight is not the whole map, with zeros around it or without.
    """
    if sight.shows_all_repeated:
        return layer
    whole, windows = sight.whole, (sight.rows, sight.columns)
    behind = [size - window.pad for size, window in zip(sight.size[1:], windows, strict=True)]
    is_all = sight.size[0] == sight.stored_channels and behind[0] >= whole.rows and behind[1] >= whole.columns
    if not is_all or any(window != replace(_PIXEL, pad=max(window.pad, 0)) for window in windows):
        raise NoLayerError(f"it reads {sight} of {whole.name!r}")
    top, left = layer.padding[0] + sight.rows.pad, layer.padding[1] + sight.columns.pad
    height, width = (
        axis.span(*loops) for axis, loops in zip(layer.axes, ((layer.p, layer.r), (layer.q, layer.s)), strict=True)
    )
    return replace(layer, padding=(top, left, max(height - top - whole.rows, 0), max(width - left - whole.columns, 0)))


def spreads_over(sight: Sight, written: Sight, layer: Layer) -> bool:
    """Whether a whole map has the pixels that are written, and its channels, which are groups, spread over others."""
    is_whole = sight.shows_all and sight.size[1:] == written.size[1:] and layer.has_weight
    return is_whole and prod(sight.size) == layer.g < prod(written.size)


def over_all_pixels(layer: Layer, source: FeatureMap) -> Layer:
    """Return the nest with the map's pixels as the kernel, where it has them among its channels."""
    pixels = source.rows * source.columns
    if layer.r * layer.s == pixels or layer.c % pixels:
        return layer
    return replace(layer, c=layer.c // pixels, r=source.rows, s=source.columns)


def ensure_side_by_side(operator: Operator, parts: Mapping[str, Sight], whole: FeatureMap, shape: Shape) -> None:
    """Raise NoLayerError unless a Concat joins maps, or channels of maps, along the channels of `whole`."""
    plain = [name for name, part in parts.items() if part == Sight.of(part.whole)]
    if any(parts[name].whole.name != name for name in plain):
        raise NoLayerError("it joins other than whole maps")
    pixels = {(*part.size[1:], part.whole.bits) for part in parts.values()}
    channels, rank = sum(parts[name].size[0] for name in operator.inputs), len(shape)
    is_along_channels = rank > 0 and integer(operator, "axis", 0) % rank < rank - min(max(rank - _ROWS, 0), _ROWS)
    are_whole = all(part.shows_all_repeated for part in parts.values()) and channels == whole.channels
    if pixels != {(whole.rows, whole.columns, whole.bits)} or not is_along_channels or not are_whole:
        raise NoLayerError("it does not join maps along their channels")


def is_one_a_channel(graph: Graph, name: str, operator: Operator) -> bool:
    """Whether a map has an element for each channel of what the operator writes, and for several pixels."""
    written = shape_of(graph, operator.outputs[0])
    spread = ((1,) * len(written) + shape_of(graph, name))[-len(written) :]
    pixels = min(max(len(written) - 2, 0), 2)
    channels = len(written) - pixels
    is_spread = spread == (*written[:channels], *(1,) * pixels)
    return is_spread and prod(written[channels:]) > 1


def all_of(pixels: int) -> Window:
    """Return the window through which all pixels are seen, whatever is computed."""
    return Window(pixels, 0, 1, 0)


def shape_of(graph: Graph, name: str) -> Shape:
    """Empty where it is unknown."""
    return graph.tensor[name].shape or ()
