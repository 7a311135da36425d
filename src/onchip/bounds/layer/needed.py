"""Which pixels every schedule computes, however the network is cut into tiles.

A tile computes of its stack's inner maps only what its windows see: where strides skip pixels, or windows end before
the map does, some are never computed. What is said here to be needed is needed in every tiling; there may be more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from onchip.ir.graph import Graph
from onchip.ir.layer import INPUT, Axis, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import Shape, integers
from onchip.ops.derive.banded_operands import LOOKUPS
from onchip.ops.derive.fusable import pixels_of
from onchip.ops.derive.without_nest import WITHOUT_NEST
from onchip.ops.views.fusable_views import SAME_ELEMENTS
from onchip.ops.views.views import RESIZES, Pace, paces_of

VIEWS: Final = SAME_ELEMENTS | {"Slice", "Pad"} | RESIZES
"""Kinds without a loop nest that may stand inside a tiled stack, where only what is seen of them is made."""
JOINS: Final = frozenset({"Concat"})
"""Kinds that may stand inside a tiled stack, too, where their readers see no more than that of the maps they join."""
MOVED_WHOLE: Final = JOINS | RESIZES
"""Views that, where all that they write is needed, are made whole, be it in tiles or not."""
_OF_ALL_ELEMENTS: Final = (VIEWS | JOINS) - {"Slice", "Pad"}
_MAP_RANK: Final = 4
_CHANNELS: Final = 2
"""So many dimensions, batch and channels, are never cut."""


@dataclass(frozen=True, slots=True)
class NeededPixels:
    """Rows and columns of a tensor: every pixel at which they cross. None stands for all, if there are any or not."""

    rows: frozenset[int] | None
    columns: frozenset[int] | None

    @property
    def are_all(self) -> bool:
        """Whether the whole tensor is needed."""
        return self.rows is None and self.columns is None

    def share(self, tensor: Tensor) -> Fraction:
        """The part of the tensor's elements that is needed."""
        shape = tensor.shape or ()
        found = Fraction(1)
        for pixels, axis in ((self.rows, -2), (self.columns, -1)):
            if pixels is not None:
                found *= Fraction(len(pixels), shape[axis] if len(shape) == _MAP_RANK else 1)
        return found


@dataclass(frozen=True, slots=True)
class Reach:
    """Along an axis, the first p outputs of an operator see its input up to (p - 1) * stride + more, within `size`."""

    stride: int
    more: int
    size: int

    def seen(self, behind: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many positions, from the first on, so many outputs see."""
        found: NDArray[np.int64] = np.clip((behind - 1) * self.stride + self.more, 0, self.size)
        return np.where(behind > 0, found, 0)


ALL: Final = NeededPixels(None, None)
NOTHING: Final = NeededPixels(frozenset(), frozenset())


def needed_pixels(
    graph: Graph, nests: Mapping[str, tuple[Layer, ...]], operands: Mapping[str, frozenset[str]] = MappingProxyType({})
) -> Mapping[str, NeededPixels]:
    """Of each tensor of a network what is needed at least; `nests` are those of its operators, by name.

    `operands` are the tensors that the nests of an operator read, by its name, all if it is not there.
    """
    needed = {tensor.name: ALL if tensor.role is Role.OUTPUT else NOTHING for tensor in graph.tensors}
    for operator in graph.operators:
        if nests.get(operator.name) and _never_in_part(graph, operator):
            needed |= dict.fromkeys(operator.outputs, ALL)
    for operator in reversed(graph.operators):
        written = max((needed[name] for name in operator.outputs), key=lambda one: one.are_all)
        for name in operator.reads:
            if not is_read(operator, name, nests, operands):
                continue
            tensor = graph.tensor[name]
            seen = seen_pixels(graph, operator, nests.get(operator.name, ()), tensor, written)
            if seen.share(tensor) > needed[name].share(tensor):
                needed[name] = seen
    return needed


def _never_in_part(graph: Graph, operator: Operator) -> bool:
    """True if every schedule computes all that the operator writes.

    Only maps of two or four dimensions are cut into tiles, and a transposed convolution with a stride ends its stack:
    its output leaves the stack, so tiles compute all of it.
    """
    shape = graph.tensor[operator.outputs[0]].shape or ()
    rank = len(shape)
    is_spread = (
        operator.kind == "ConvTranspose" and max(integers(operator, "strides", (1,) * (rank - 2)), default=1) > 1
    )
    return rank not in (_CHANNELS, _MAP_RANK) or is_spread


def is_read(
    operator: Operator, name: str, nests: Mapping[str, tuple[Layer, ...]], operands: Mapping[str, frozenset[str]]
) -> bool:
    """True if reading the tensor counts: the operator has no loop nest, or its nests read the tensor."""
    return not nests.get(operator.name) or name in operands.get(operator.name, operator.reads)


def runs_whole(graph: Graph, operator: Operator, nests: tuple[Layer, ...]) -> bool:
    """True if each Compute of the operator reads and writes all that the operator does, whatever the tiling.

    No tiling cuts a view of another shape, a map of one pixel, or an operator that runs alone.
    """
    written = graph.tensor[operator.outputs[0]].shape
    if written is None or len(operator.outputs) > 1:
        return False
    if operator.kind in SAME_ELEMENTS:
        return any(graph.tensor[name].shape not in (None, written) for name in operator.inputs[:1])
    is_view = operator.kind in VIEWS | JOINS
    return runs_alone(graph, operator, nests) or (not is_view and pixels_of(written) == (1, 1))


def runs_alone(graph: Graph, operator: Operator, nests: tuple[Layer, ...]) -> bool:
    """True if no tiled stack has the operator: it is no view, and no layer over maps of two or four dimensions."""
    written = graph.tensor[operator.outputs[0]].shape
    if written is None or len(operator.outputs) > 1 or operator.kind in VIEWS:
        return False
    is_layer = operator.kind in JOINS or bool(nests) or operator.kind not in WITHOUT_NEST
    return len(written) not in (_CHANNELS, _MAP_RANK) or not is_layer


def reach_of(graph: Graph, operator: Operator, nests: tuple[Layer, ...], name: str) -> tuple[Reach, Reach] | None:
    """Return how far the first outputs of an operator see an input, along rows and columns; None if it is not known."""
    tensor, output = graph.tensor[name], graph.tensor[operator.outputs[0]]
    source, written = tensor.shape or (), output.shape or ()
    if not nests:
        is_seen_alike = operator.kind in JOINS or (operator.kind in SAME_ELEMENTS and source == written)
        alike = is_seen_alike and len(source) == len(written) == _MAP_RANK and source[-2:] == written[-2:]
    else:
        alike = all(layer.is_element_by_element for layer in nests) and _are_alike(tensor, output)
    if alike:
        rows, columns = pixels_of(written)
        return Reach(1, 1, rows), Reach(1, 1, columns)
    if len(nests) != 1 or len(operator.inputs) != 1 or not _lies_over(nests[0], tensor, output):
        return None
    found = []
    cut_off = [max(-pad, 0) for pad in integers(operator, "pads", (0, 0, 0, 0))[:2]]
    for axis, taps, size, first in zip(nests[0].axes, (nests[0].r, nests[0].s), source[-2:], cut_off, strict=True):
        found.append(Reach(axis.stride, (taps - 1) * axis.dilation + 1 - axis.padding + first, size))
    return found[0], found[1]


def touched_positions(axis: Axis, outputs: frozenset[int], taps: int) -> frozenset[int]:
    """The positions, not cut off where the input ends, that these outputs touch through so many taps."""
    return frozenset(
        output * axis.stride + tap * axis.dilation - axis.padding for output in outputs for tap in range(taps)
    )


def seen_pixels(
    graph: Graph, operator: Operator, nests: tuple[Layer, ...], tensor: Tensor, written: NeededPixels
) -> NeededPixels:
    """What the operator reads of a tensor at least, given what is needed of what it writes."""
    if not nests:
        if operator.kind == "Slice" and _has_all_pixels(tensor, graph.tensor[operator.outputs[0]]):
            return written
        if operator.kind in ("Slice", "Pad") or (operator.kind in RESIZES and not written.are_all):
            return _through_view(operator, tensor, graph.tensor[operator.outputs[0]], written)
        if operator.kind in LOOKUPS and tensor.role is Role.INPUT:
            return NOTHING
        is_seen = operator.kind not in VIEWS | JOINS or (operator.kind in _OF_ALL_ELEMENTS and written.are_all)
        return ALL if is_seen else NOTHING
    output = graph.tensor[operator.outputs[0]]
    if all(layer.is_element_by_element for layer in nests) and _are_alike(tensor, output):
        return written
    if len(nests) == 1 and len(operator.inputs) == 1 and _lies_over(nests[0], tensor, output):
        return _through_windows(operator, nests[0], tensor, written)
    if written.are_all and any(_touches_all(layer, tensor) for layer in nests):
        return ALL
    return NOTHING


def _through_view(operator: Operator, tensor: Tensor, output: Tensor, written: NeededPixels) -> NeededPixels:
    """Return the pixels that show in needed pixels of a Slice, a Pad or a Resize; nothing where that is not known.

    A map that an operator writes is computed in all channels at a pixel that any channel shows. Of what only DRAM has,
    fewer channels may be read, so that all of them have to show.
    """
    source, result = tensor.shape or (), output.shape or ()
    paces = _paces(operator, source, result)
    if paces is None or tensor.role is Role.PARAMETER or 0 in source:
        return NOTHING
    sizes = list(zip(paces, source, result, strict=True))
    shown = [_shown(pace, frozenset(range(after)), size) for pace, size, after in sizes]
    if written.are_all and all(len(each) == size for each, size in zip(shown, source, strict=True)):
        return ALL
    channels = list(zip(shown, source, strict=True))[:_CHANNELS]
    is_partly_read = tensor.role is Role.INPUT and any(len(each) < size for each, size in channels)
    if len(source) != _MAP_RANK or is_partly_read or not all(each for each, _ in channels):
        return NOTHING
    found = [
        shown_all if pixels is None else _shown(pace, pixels, size)
        for pixels, shown_all, (pace, size, _) in zip(
            (written.rows, written.columns), shown[-2:], sizes[-2:], strict=True
        )
    ]
    return NeededPixels(*(None if len(each) == size else each for each, size in zip(found, source[-2:], strict=True)))


def _shown(pace: Pace, pixels: frozenset[int], size: int) -> frozenset[int]:
    """Return the input's places that these places of the output show."""
    places = ((pixel * pace.step + pace.first) // pace.repeat for pixel in pixels)
    return frozenset(place for place in places if 0 <= place < size)


def _paces(operator: Operator, source: Shape, result: Shape) -> tuple[Pace, ...] | None:
    """Return how places of the output show those of the input; a Pad shows its input whatever it puts around it."""
    if operator.kind != "Pad":
        return paces_of(operator, source, result)
    pads = integers(operator, "pads", (0,) * (2 * len(source)))
    before, behind = pads[: len(source)], pads[len(source) :]
    if tuple(map(sum, zip(before, source, behind, strict=True))) != result:
        return None
    return tuple(Pace(-pad) for pad in before)


def _has_all_pixels(tensor: Tensor, output: Tensor) -> bool:
    """Whether what is computed of a map is computed for all channels of what a Slice leaves of these, at its pixels.

    Of what only DRAM has fewer channels may be read.
    """
    if tensor.role is not Role.ACTIVATION or len(tensor.shape or ()) != len(output.shape or ()):
        return False
    return (tensor.shape or ())[_CHANNELS:] == (output.shape or ())[_CHANNELS:]


def _are_alike(tensor: Tensor, output: Tensor) -> bool:
    return tensor.shape == output.shape and tensor.shape is not None


def _lies_over(layer: Layer, tensor: Tensor, output: Tensor) -> bool:
    """Whether the nest's windows lie over the rows and columns of a map, and its outputs are those of another."""
    if tensor.role is Role.PARAMETER or len(tensor.shape or ()) != _MAP_RANK or len(output.shape or ()) != _MAP_RANK:
        return False
    rows, columns = layer.axes
    *channels, height, width = tensor.shape or ()
    fits = rows.size <= height and columns.size <= width and layer.n * layer.c * layer.g == prod(channels)
    return fits and (layer.p, layer.q) == (output.shape or ())[-2:]


def _through_windows(operator: Operator, layer: Layer, tensor: Tensor, written: NeededPixels) -> NeededPixels:
    """Return the pixels that windows touch; negative padding cuts off the first ones."""
    found = []
    cut_off = [max(-pad, 0) for pad in integers(operator, "pads", (0, 0, 0, 0))[:2]]
    axes = zip(layer.axes, (layer.p, layer.q), (layer.r, layer.s), (written.rows, written.columns), strict=True)
    for (axis, outputs, taps, needed), size, first in zip(axes, (tensor.shape or ())[-2:], cut_off, strict=True):
        positions = touched_positions(axis, frozenset(range(outputs)) if needed is None else needed, taps)
        inside = frozenset(position + first for position in positions if 0 <= position + first < size)
        found.append(None if len(inside) == size else inside)
    return NeededPixels(*found)


def _touches_all(layer: Layer, tensor: Tensor) -> bool:
    """Whether a nest of which all is computed has every element of the tensor as an operand."""
    if tensor.role is Role.PARAMETER or tensor.shape is None:
        return tensor.role is Role.PARAMETER
    for axis, outputs, taps in zip(layer.axes, (layer.p, layer.q), (layer.r, layer.s), strict=True):
        if not frozenset(range(axis.size)) <= touched_positions(axis, frozenset(range(outputs)), taps):
            return False
    elements = prod(tensor.shape)
    return elements in (layer.elements(INPUT), layer.elements("weight"))
