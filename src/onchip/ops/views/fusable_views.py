"""Views of feature maps: some rows and columns of a map, and zeros after its channels."""

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
SAME_ELEMENTS: Final = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
"""Kinds that write the elements that they read, in their order."""
_BEHIND_CHANNELS: Final = 5
"""Index in a Pad's eight numbers (batch, channels, rows and columns, before and then after) of zeros after channels."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A view of a feature map; `size` is channels, rows, columns.

    The windows, of one tap each, locate the map's pixels in the view. `channels` is the number of the map's channels in
    the view (None: all); zeros may follow them.
    """

    whole: FeatureMap
    size: tuple[int, int, int]
    rows: Window = _PIXEL
    columns: Window = _PIXEL
    channels: int | None = None

    @classmethod
    def of(cls, whole: FeatureMap) -> Self:
        """Return the view of a whole map, unchanged."""
        return cls(whole, (whole.channels, whole.rows, whole.columns))

    @property
    def shows_all(self) -> bool:
        """Return True if the view has each element of the map once, in some order."""
        return self == type(self).of(self.whole)

    @property
    def stored_channels(self) -> int:
        """Return the number of the map's channels in the view."""
        return self.whole.channels if self.channels is None else self.channels

    @property
    def shows_all_pixels(self) -> bool:
        """Return True if the view has each pixel of the map once, with all or some channels."""
        return replace(self, channels=None, size=(self.whole.channels, *self.size[1:])).shows_all

    @property
    def shows_all_repeated(self) -> bool:
        """Return True if the view repeats each pixel of the map equally often, with all or some channels."""
        times = self.rows.repeat, self.columns.repeat
        alike = replace(self, rows=replace(self.rows, repeat=1), columns=replace(self.columns, repeat=1))
        size = self.whole.rows * times[0], self.whole.columns * times[1]
        return self.size[1:] == size and replace(alike, size=(self.size[0], *self._stored)).shows_all_pixels

    @property
    def _stored(self) -> tuple[int, int]:
        return self.whole.rows, self.whole.columns

    def seen_through(self, read: Read) -> Read:
        """Return the read of the map by a layer that reads a concatenation that contains this view."""
        rows, columns = replace(read.rows, repeat=self.rows.repeat), replace(read.columns, repeat=self.columns.repeat)
        return self.read(rows, columns)

    def read(self, rows: Window, columns: Window) -> Read:
        """Return the read of the map by a layer with these windows over the view."""
        return Read(self.whole.name, rows, columns, self.channels)

    def __str__(self) -> str:
        return " x ".join(map(str, self.size))


def changed(graph: Graph, operator: Operator, source: Sight) -> Sight | None:
    """Return the view after an operator of one input; None if the operator computes something.

    Raises NoLayerError if the kind may be a view, but attributes or shapes do not determine it.
    """
    written = shape_of(graph, operator.outputs[0])
    if operator.kind in SAME_ELEMENTS:
        return reshaped(source, shape_of(graph, operator.inputs[0]), written)
    if operator.kind == "Slice":
        return cropped(operator, source, written)
    if operator.kind in RESIZES:
        return repeated(graph, operator, source)
    return padded(operator, source, written) if operator.kind == "Pad" else None


def repeated(graph: Graph, operator: Operator, source: Sight) -> Sight | None:
    """Return the view with pixels repeated by a nearest-neighbour Resize; None for any other Resize."""
    read, written = (shape_of(graph, name) for name in (operator.inputs[0], operator.outputs[0]))
    paces = paces_of(operator, read, written) if len(read) == len(written) > _ROWS else None
    if paces is None or not source.shows_all_pixels or any(pace.repeat > 1 for pace in paces[:-_ROWS]):
        return None
    rows, columns = (replace(_PIXEL, repeat=pace.repeat) for pace in paces[-_ROWS:])
    return replace(source, size=(source.size[0], *pixels_of(written)), rows=rows, columns=columns)


def reshaped(source: Sight, read: Shape, written: Shape) -> Sight:
    """Return the view unchanged if `written` keeps it or flattens it to a row; raises NoLayerError otherwise.

    Rows and columns keep their positions among the dimensions, unless the map is one pixel.
    """
    pixels = pixels_of(written)
    size = prod(written) // prod(pixels), *pixels
    is_same = size == source.size and (len(read) == len(written) or prod(pixels) == 1)
    if not is_same and size != (prod(source.size), 1, 1):
        raise NoLayerError(f"it makes {list(written)} of {source}")
    return source


def cropped(operator: Operator, source: Sight, written: Shape) -> Sight:
    """Return the view after a Slice of rows, columns or channels; raises NoLayerError if it cannot be determined."""
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
    """Return the view with that many of its channels; raises NoLayerError if zeros follow the stored ones."""
    if channels == source.size[0]:
        return source
    if source.size[0] != source.stored_channels:
        raise NoLayerError("it leaves a part of the channels that zeros were put behind")
    return replace(source, size=(channels, *source.size[1:]), channels=channels)


def padded(operator: Operator, source: Sight, written: Shape) -> Sight:
    """Return the view with zeros padded after the channels, or around rows and columns that are all present.

    Raises NoLayerError for any other Pad.
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
    """Return a nest of windows over a padded view as a nest over the map, whose zeros are not stored.

    Raises NoLayerError if the view is not the whole map with or without zeros around it.
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
    """Return True if a whole map has the pixels written, and its channels (the groups) are broadcast to others."""
    is_whole = sight.shows_all and sight.size[1:] == written.size[1:] and layer.has_weight
    return is_whole and prod(sight.size) == layer.g < prod(written.size)


def over_all_pixels(layer: Layer, source: FeatureMap) -> Layer:
    """Return the nest with the map's pixels as the kernel, if the nest has them among its channels."""
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
    """Return True if a map has one element per channel of the operator's output, for several pixels."""
    written = shape_of(graph, operator.outputs[0])
    spread = ((1,) * len(written) + shape_of(graph, name))[-len(written) :]
    pixels = min(max(len(written) - 2, 0), 2)
    channels = len(written) - pixels
    is_spread = spread == (*written[:channels], *(1,) * pixels)
    return is_spread and prod(written[channels:]) > 1


def all_of(pixels: int) -> Window:
    """Return the window through which every output sees all pixels."""
    return Window(pixels, 0, 1, 0)


def shape_of(graph: Graph, name: str) -> Shape:
    """Return the shape of a tensor; empty if it is unknown."""
    return graph.tensor[name].shape or ()
