"""What a tensor shows of a feature map that it is a view of: some rows and columns, and zeros beside its channels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final, Self

from onchip.facts.fusable import FeatureMap, pixels_of
from onchip.facts.views import paces_of
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.window import Window, integers
from onchip.lower.layers.sliding_windows import NoLayerError, Shape

_PIXEL: Final = Window(1, 1, 1, 0)
_ROWS: Final = 2
_BEHIND_CHANNELS: Final = 5
"""Of a Pad's eight numbers: batch, channels, rows and columns, before and then behind."""


@dataclass(frozen=True, slots=True)
class Sight:
    """`size` is channels, rows, columns; the windows, of one tap each, say which pixel of the map lies where."""

    whole: FeatureMap
    size: tuple[int, int, int]
    rows: Window = _PIXEL
    columns: Window = _PIXEL

    @classmethod
    def of(cls, whole: FeatureMap) -> Self:
        """Return the sight of all of a map, unchanged."""
        return cls(whole, (whole.channels, whole.rows, whole.columns))

    @property
    def shows_all(self) -> bool:
        """Whether it has each element of the map once, in some order."""
        return self == type(self).of(self.whole)

    def __str__(self) -> str:
        return " x ".join(map(str, self.size))


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
    """What a Slice leaves of rows and columns; raises NoLayerError where its attributes do not say that."""
    count = len(starts) if isinstance(starts := operator.attributes.get("starts"), list) else 0
    if not count or len(written) != 4:
        raise NoLayerError("its attributes do not say what it leaves of rows and columns")
    windows = [source.rows, source.columns]
    axes = integers(operator, "axes", tuple(range(count)))
    steps = integers(operator, "steps", (1,) * count)
    for axis, start, step in zip(axes, integers(operator, "starts", (0,) * count), steps, strict=True):
        index = axis % len(written) - _ROWS
        if index < 0 or step < 1:
            raise NoLayerError("it leaves a part of the channels, or reverses")
        before = windows[index]
        first = start + source.size[1 + index] if start < 0 else start
        windows[index] = replace(before, stride=before.stride * step, pad=before.pad - first * before.stride)
    return Sight(source.whole, (source.size[0], written[2], written[3]), windows[0], windows[1])


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
    if not is_around or not source.shows_all or paces_of(operator, written, written) is None:
        raise NoLayerError("it pads more than zeros behind the channels, or around whole rows and columns")
    rows, columns = (replace(_PIXEL, pad=pad) for pad in pads[2:4])
    return Sight(source.whole, (source.size[0], written[2], written[3]), rows, columns)


def between_zeros(layer: Layer, sight: Sight) -> Layer:
    """The nest of windows that slide over a sight, as one over its map, whose zeros are not stored.

    Raises NoLayerError where the sight is not the whole map, with zeros around it or without.
    """
    if sight.shows_all:
        return layer
    whole, windows = sight.whole, (sight.rows, sight.columns)
    behind = [size - window.pad for size, window in zip(sight.size[1:], windows, strict=True)]
    is_all = sight.size[0] == whole.channels and behind[0] >= whole.rows and behind[1] >= whole.columns
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


def all_of(pixels: int) -> Window:
    """Return the window through which all pixels are seen, whatever is computed."""
    return Window(pixels, 0, 1, 0)


def shape_of(graph: Graph, name: str) -> Shape:
    """Empty where it is unknown."""
    return graph.tensor[name].shape or ()
