"""Transposes that reorder channels, and Expands that repeat heads, write the shape that all their readers see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_PARAMETER_SHAPES, SEEN_SHAPES, VIEWS, Operator
from onchip.ir.tensor import Role
from onchip.ir.window import Shape, shapes_as_read
from onchip.ops.fusable import HEADS_RANK
from onchip.ops.views import moves_channels

_OTHER_VIEWS: Final = VIEWS - {SEEN_SHAPES, SEEN_PARAMETER_SHAPES}


def as_images(graph: Graph) -> Graph:
    """Return the graph in which such an operator writes four dimensions, which its readers see, in place of more.

    A shuffle of channels reads an image in five dimensions and writes five, which the next operator reads as an image.
    Grouped-query attention repeats the heads of keys and values along a fifth dimension. Without these views, tiles of
    rows and columns, or heads, are regions of four dimensions from operator to operator. The bytes of the tensor stay
    the same.
    """
    shapes = {
        operator.outputs[0]: shape
        for operator in graph.operators
        if operator.kind in ("Expand", "Transpose") and (shape := _image_read(graph, operator)) is not None
    }
    if not shapes:
        return graph
    tensors = tuple(replace(one, shape=shapes.get(one.name, one.shape)) for one in graph.tensors)
    operators = tuple(
        _without_views(graph, one, shapes) if not shapes.keys().isdisjoint(one.inputs) else one
        for one in graph.operators
    )
    return Graph(graph.name, tensors, operators, graph.states)


def _image_read(graph: Graph, writer: Operator) -> Shape | None:
    """Return the shape in which all readers see an output; None if it is no reordered image and no repeated heads."""
    if len(writer.outputs) != 1:
        return None
    tensor, readers = graph.tensor[writer.outputs[0]], graph.readers[writer.outputs[0]]
    if (
        tensor.role is not Role.ACTIVATION
        or not readers
        or any(one.attributes.keys() & _OTHER_VIEWS for one in readers)
    ):
        return None
    seen = {
        shape
        for one in readers
        for name, shape in zip(one.inputs, _inputs_as_read(graph, one), strict=True)
        if name == tensor.name
    }
    if len(seen) != 1 or seen == {tensor.shape}:
        return None
    (shape,) = seen
    has_repeated_heads = writer.kind == "Expand" and len(shape) == HEADS_RANK < len(tensor.shape or ())
    return shape if has_repeated_heads or moves_channels(graph, writer, shape) else None


def _without_views(graph: Graph, reader: Operator, shapes: Mapping[str, Shape]) -> Operator:
    """Return the operator without the shapes of its inputs if it then reads each in the shape that is stored."""
    stored = [shapes.get(name, graph.tensor[name].shape or ()) for name in reader.inputs]
    if _inputs_as_read(graph, reader) != stored:
        return reader
    return replace(reader, attributes={name: one for name, one in reader.attributes.items() if name != SEEN_SHAPES})


def _inputs_as_read(graph: Graph, operator: Operator) -> list[Shape]:
    stored = [graph.tensor[name].shape or () for name in (*operator.inputs, *operator.parameters)]
    return list(shapes_as_read(operator, stored)[: len(operator.inputs)])
