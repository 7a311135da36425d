"""The pixels that every schedule computes, for any tiling of the network.

A tile computes only the pixels of its stack's inner maps that its windows see. Some pixels are never computed, because
strides skip them or because windows end before the map does. The needed pixels are a lower bound: a tiling may compute
more.
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
from onchip.ir.operator import SEEN_SHAPES, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import Shape, integers
from onchip.ops.fusable import HEADS_RANK, MATRIX_RANKS, OF_IMAGES, OF_MATRICES, Layout, pixels_of
from onchip.ops.layers_of import (
    WITHOUT_NEST,
    moves_in_rows,
    multiplies_matrices,
    multiplies_rows,
    times_repeated,
    works_on_rows,
)
from onchip.ops.nests import LOOKUPS
from onchip.ops.views import RESIZES, SAME_ELEMENTS, Pace, moves_channels, paces_of, spans_read

VIEWS: Final = SAME_ELEMENTS | {"Slice", "Pad"} | RESIZES
"""Kinds without a loop nest that may lie inside a tiled stack, which computes only the pixels seen of them."""
JOINS: Final = frozenset({"Concat"})
"""Further kinds inside tiled stacks. Their readers see the same pixels of the maps that they join."""
MOVED_WHOLE: Final = JOINS | RESIZES
"""Views that are computed whole, in tiles or not, if their whole output is needed."""
_OF_ALL_ELEMENTS: Final = (VIEWS | JOINS) - {"Slice", "Pad"}
_MAP_RANK: Final = 4
_CHANNELS: Final = 2
"""Number of leading dimensions that are never cut: batch and channels."""


def is_view(graph: Graph, operator: Operator) -> bool:
    """Return True if the operator may lie inside a tiled stack as a view: also a Transpose, between matrices."""
    if operator.kind in VIEWS:
        return True
    if operator.kind != "Transpose" or len(operator.inputs) != 1 or operator.parameters:
        return False
    source, written = (graph.tensor[name].shape or () for name in (operator.inputs[0], operator.outputs[0]))
    are_matrices = max(len(source), len(written)) <= max(MATRIX_RANKS) or has_heads(graph, operator)
    return are_matrices and spans_read(operator, source, written) is not None


def has_heads(graph: Graph, operator: Operator) -> bool:
    """Return True if tiles of some group with the operator may cut tensors of four dimensions as matrices with heads.

    The operators of such a group are connected, none is of images, and one is a product or a normalisation of rows. A
    Transpose of four dimensions may read a matrix of fewer.
    """
    if not _may_be_of_matrices(graph, operator):
        return False
    found, waiting = {operator.name}, [operator]
    kinds, of_heads = set[str](), set[str]()
    while waiting:
        one = waiting.pop()
        kinds.add(one.kind)
        if _is_of_heads(graph, one):
            of_heads.add(one.kind)
        if of_heads - {"Transpose"} or (of_heads and not kinds.isdisjoint(OF_MATRICES)):
            return True
        written = [graph.producer[name] for name in one.inputs if name in graph.producer]
        for other in (*written, *(reader for name in one.outputs for reader in graph.readers[name])):
            if other.name not in found and _may_be_of_matrices(graph, other):
                found.add(other.name)
                waiting.append(other)
    return False


def _may_be_of_matrices(graph: Graph, operator: Operator) -> bool:
    """Return True if the operator may be in a group whose maps are matrices (`are_matrices`)."""
    ranks = {len(graph.tensor[name].shape or ()) for name in (*operator.inputs, *operator.outputs)}
    return operator.kind not in OF_IMAGES and ranks <= {*MATRIX_RANKS, HEADS_RANK}


def _is_of_heads(graph: Graph, operator: Operator) -> bool:
    ranks = [len(graph.tensor[name].shape or ()) for name in (*operator.inputs, *operator.outputs)]
    return max(ranks, default=0) == HEADS_RANK and (
        operator.kind in ("MatMul", "Transpose") or works_on_rows(graph, operator)
    )


@dataclass(frozen=True, slots=True)
class NeededPixels:
    """The pixels of a tensor in these rows and columns. None means all, also for a tensor without this axis."""

    rows: frozenset[int] | None
    columns: frozenset[int] | None

    @property
    def are_all(self) -> bool:
        """True if the whole tensor is needed."""
        return self.rows is None and self.columns is None

    def share(self, tensor: Tensor) -> Fraction:
        """Return the fraction of the tensor's elements that is needed."""
        shape = tensor.shape or ()
        found = Fraction(1)
        for pixels, axis in ((self.rows, -2), (self.columns, -1)):
            if pixels is not None:
                found *= Fraction(len(pixels), shape[axis] if len(shape) == _MAP_RANK else 1)
        return found


@dataclass(frozen=True, slots=True)
class Reach:
    """The view of an operator along an axis: its first p outputs see (p - 1) * stride + more of `size` inputs.

    Each output sees `taps` positions that are `dilation` apart, the last of them at the end of this range.
    """

    stride: int
    more: int
    size: int
    taps: int = 1
    dilation: int = 1

    def seen(self, behind: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of leading positions that the first `behind` outputs see."""
        found: NDArray[np.int64] = np.clip((behind - 1) * self.stride + self.more, 0, self.size)
        return np.where(behind > 0, found, 0)

    def touched(self, outputs: int) -> NDArray[np.int64]:
        """Return the positions that each of the first outputs sees, by output and tap, or -1 outside the input."""
        last = np.arange(outputs)[:, None] * self.stride + self.more - 1
        found = last - np.arange(self.taps) * self.dilation
        return np.where((found >= 0) & (found < self.size), found, -1)


ALL: Final = NeededPixels(None, None)
NOTHING: Final = NeededPixels(frozenset(), frozenset())


def needed_pixels(
    graph: Graph, nests: Mapping[str, tuple[Layer, ...]], operands: Mapping[str, frozenset[str]] = MappingProxyType({})
) -> Mapping[str, NeededPixels]:
    """Map each tensor of a network to the pixels that every schedule needs.

    `nests` maps operator names to their loop nests. `operands` maps operator names to the tensors that their nests
    read; an absent operator reads all its tensors.
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
    """Return True if every schedule computes the operator's whole output.

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
    """Return True if reading the tensor counts: the operator has no loop nest, or its nests read the tensor."""
    return not nests.get(operator.name) or name in operands.get(operator.name, operator.reads)


def runs_whole(graph: Graph, operator: Operator, nests: tuple[Layer, ...]) -> bool:
    """Return True if each Compute of the operator reads and writes its whole tensors, for any tiling.

    No tiling cuts a view of another shape, a map of one pixel, or an operator that runs alone.
    """
    written = graph.tensor[operator.outputs[0]].shape
    if written is None or len(operator.outputs) > 1:
        return False
    if operator.kind in SAME_ELEMENTS:
        return any(graph.tensor[name].shape not in (None, written) for name in operator.inputs[:1])
    is_one_pixel = set(pixels_cut(graph, operator)) <= {(1, 1), None}
    is_inside = operator.kind in JOINS or is_view(graph, operator)
    return runs_alone(graph, operator, nests) or (is_one_pixel and not is_inside)


def pixels_cut(graph: Graph, operator: Operator) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """Return the rows and columns along which tiles cut the output of an operator: of a matrix, its rows.

    A tensor of four dimensions may be cut as an image or, if the network has products or normalisations of such
    tensors, as matrices, along the rows and heads that are returned last.
    """
    shape = graph.tensor[operator.outputs[0]].shape or ()
    if len(shape) in MATRIX_RANKS:
        return pixels_of(shape, Layout.MATRIX), None
    is_of_heads = len(shape) == HEADS_RANK and has_heads(graph, operator)
    return pixels_of(shape), pixels_of(shape, Layout.MATRIX) if is_of_heads else None


def runs_alone(graph: Graph, operator: Operator, nests: tuple[Layer, ...]) -> bool:
    """Return True if no tiled stack has the operator: it is no view, and no layer over images or matrices."""
    written = graph.tensor[operator.outputs[0]].shape
    if written is None or len(operator.outputs) > 1 or operator.kind in VIEWS:
        return False
    is_layer = operator.kind in JOINS or bool(nests) or operator.kind not in WITHOUT_NEST
    is_layer = is_layer or works_on_rows(graph, operator) or moves_in_rows(graph, operator)
    is_layer = is_layer or times_repeated(graph, operator) > 0
    is_layer = is_layer or moves_channels(graph, operator) or is_view(graph, operator)
    return len(written) not in (*MATRIX_RANKS, _MAP_RANK) or not is_layer


def reach_of(graph: Graph, operator: Operator, nests: tuple[Layer, ...], name: str) -> tuple[Reach, Reach] | None:
    """Return the reach of an operator's first outputs into an input, along rows and columns, or None if unknown."""
    tensor, output = graph.tensor[name], graph.tensor[operator.outputs[0]]
    source, written = tensor.shape or (), output.shape or ()
    if works_on_rows(graph, operator) or (moves_channels(graph, operator) and not has_heads(graph, operator)):
        alike = True
    elif not nests:
        is_seen_alike = operator.kind in JOINS or (operator.kind in SAME_ELEMENTS and source == written)
        alike = is_seen_alike and len(source) == len(written) == _MAP_RANK and source[-2:] == written[-2:]
    else:
        alike = all(layer.is_element_by_element for layer in nests) and _are_alike(tensor, output)
    is_left = name == operator.inputs[0] and multiplies_matrices(graph, operator)
    is_of_rows = multiplies_rows(graph, operator) and SEEN_SHAPES not in operator.attributes
    if alike or is_left or is_of_rows:
        pixels, heads = pixels_cut(graph, operator)
        return Reach(1, 1, pixels[0]), Reach(1, 1, max(pixels[1], heads[1] if heads else 1))
    if len(nests) != 1 or len(operator.inputs) != 1:
        return None
    if not (_lies_over(nests[0], tensor, output) or _lies_over_reshaped(nests[0], tensor, output)):
        return None
    found = []
    cut_off = [max(-pad, 0) for pad in integers(operator, "pads", (0, 0, 0, 0))[:2]]
    for axis, taps, size, first in zip(nests[0].axes, (nests[0].r, nests[0].s), source[-2:], cut_off, strict=True):
        found.append(
            Reach(axis.stride, (taps - 1) * axis.dilation + 1 - axis.padding + first, size, taps, axis.dilation)
        )
    return found[0], found[1]


def touched_positions(axis: Axis, outputs: frozenset[int], taps: int) -> frozenset[int]:
    """Return the positions that these outputs touch through `taps` taps, including those outside the input."""
    return frozenset(
        output * axis.stride + tap * axis.dilation - axis.padding for output in outputs for tap in range(taps)
    )


def seen_pixels(
    graph: Graph, operator: Operator, nests: tuple[Layer, ...], tensor: Tensor, written: NeededPixels
) -> NeededPixels:
    """Return the pixels of a tensor that the operator reads in every tiling, given the needed pixels of its output."""
    if not nests:
        if moves_channels(graph, operator):
            return written
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
    """Return the input pixels that needed pixels of a Slice, Pad or Resize show, or NOTHING if they are unknown.

    If at least one channel shows a pixel of an operator's output, the pixel is computed in all channels. A network
    input may be read in fewer channels, so its pixels count only if all channels show.
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
    """Return the input positions that these output positions show."""
    places = ((pixel * pace.step + pace.first) // pace.repeat for pixel in pixels)
    return frozenset(place for place in places if 0 <= place < size)


def _paces(operator: Operator, source: Shape, result: Shape) -> tuple[Pace, ...] | None:
    """Return the map from output positions to input positions along each axis, or None if unknown.

    A Pad shows its input for any padding values.
    """
    if operator.kind != "Pad":
        return paces_of(operator, source, result)
    pads = integers(operator, "pads", (0,) * (2 * len(source)))
    before, behind = pads[: len(source)], pads[len(source) :]
    if tuple(map(sum, zip(before, source, behind, strict=True))) != result:
        return None
    return tuple(Pace(-pad) for pad in before)


def _has_all_pixels(tensor: Tensor, output: Tensor) -> bool:
    """Return True if a Slice keeps all rows and columns of a computed map, so that each pixel has all channels.

    A network input may be read in fewer channels, so it does not count.
    """
    if tensor.role is not Role.ACTIVATION or len(tensor.shape or ()) != len(output.shape or ()):
        return False
    return (tensor.shape or ())[_CHANNELS:] == (output.shape or ())[_CHANNELS:]


def _are_alike(tensor: Tensor, output: Tensor) -> bool:
    return tensor.shape == output.shape and tensor.shape is not None


def _lies_over(layer: Layer, tensor: Tensor, output: Tensor) -> bool:
    """Return True if the nest's windows slide over the rows and columns of `tensor`, and its outputs are `output`."""
    if tensor.role is Role.PARAMETER or len(tensor.shape or ()) != _MAP_RANK or len(output.shape or ()) != _MAP_RANK:
        return False
    rows, columns = layer.axes
    *channels, height, width = tensor.shape or ()
    fits = rows.size <= height and columns.size <= width and layer.n * layer.c * layer.g == prod(channels)
    return fits and (layer.p, layer.q) == (output.shape or ())[-2:]


def _lies_over_reshaped(layer: Layer, tensor: Tensor, output: Tensor) -> bool:
    """Return True if the nest's windows slide over all rows and columns of a tensor with several axes of channels."""
    if tensor.role is Role.PARAMETER or len(tensor.shape or ()) <= _MAP_RANK or len(output.shape or ()) != _MAP_RANK:
        return False
    rows, columns = layer.axes
    *channels, height, width = tensor.shape or ()
    is_same = (rows.size, columns.size) == (height, width) and layer.n * layer.c * layer.g == prod(channels)
    return is_same and (layer.p, layer.q) == (output.shape or ())[-2:]


def _through_windows(operator: Operator, layer: Layer, tensor: Tensor, written: NeededPixels) -> NeededPixels:
    """Return the pixels that windows touch. Negative padding cuts off the first ones."""
    found = []
    cut_off = [max(-pad, 0) for pad in integers(operator, "pads", (0, 0, 0, 0))[:2]]
    axes = zip(layer.axes, (layer.p, layer.q), (layer.r, layer.s), (written.rows, written.columns), strict=True)
    for (axis, outputs, taps, needed), size, first in zip(axes, (tensor.shape or ())[-2:], cut_off, strict=True):
        positions = touched_positions(axis, frozenset(range(outputs)) if needed is None else needed, taps)
        inside = frozenset(position + first for position in positions if 0 <= position + first < size)
        found.append(None if len(inside) == size else inside)
    return NeededPixels(*found)


def _touches_all(layer: Layer, tensor: Tensor) -> bool:
    """Return True if each element of the tensor is an operand of the nest when all its outputs are computed."""
    if tensor.role is Role.PARAMETER or tensor.shape is None:
        return tensor.role is Role.PARAMETER
    for axis, outputs, taps in zip(layer.axes, (layer.p, layer.q), (layer.r, layer.s), strict=True):
        if not frozenset(range(axis.size)) <= touched_positions(axis, frozenset(range(outputs)), taps):
            return False
    elements = prod(tensor.shape)
    return elements in (layer.elements(INPUT), layer.elements("weight"))
