"""What a tensor shows of a feature map that it is a view of: some rows and columns, and zeros beside its channels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final, Self

from onchip.facts.fusable import FeatureMap, pixels_of
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


def with_channels(operator: Operator, source: Sight, written: Shape) -> Sight:
    """Zeros that a Pad puts behind the channels; raises NoLayerError where it pads anything else."""
    more = prod(written[:2]) - source.size[0]
    pads = tuple(more if at == _BEHIND_CHANNELS else 0 for at in range(8))
    if more < 0 or integers(operator, "pads", (-1,) * 8) != pads:
        raise NoLayerError("it pads more than the channels, behind those that are there")
    return replace(source, size=(source.size[0] + more, source.size[1], source.size[2]))


def spreads_over(sight: Sight, written: Sight, layer: Layer) -> bool:
    """Whether a whole map has the pixels that are written, and its channels, which are groups, spread over others."""
    is_whole = sight.shows_all and sight.size[1:] == written.size[1:] and layer.has_weight
    return is_whole and prod(sight.size) == layer.g < prod(written.size)


def shape_of(graph: Graph, name: str) -> Shape:
    """Empty where it is unknown."""
    return graph.tensor[name].shape or ()
