"""What nodes with graphs of their own say: their graphs, axes, directions and counts."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import numpy_helper

from onchip.errors import GraphError


def graph_of(node: onnx.NodeProto, attribute: str, name: str) -> onnx.GraphProto:
    """The graph in an attribute; raises GraphError where there is none."""
    for each in node.attribute:
        if each.name == attribute and each.type == onnx.AttributeProto.GRAPH:
            found: onnx.GraphProto = each.g
            return found
    raise GraphError(f"it has no {attribute}", place=f"node {name!r}", expected="a graph")


def truth_or_count(value: onnx.TensorProto, name: str) -> int:
    """The one number of a tensor; raises GraphError for another tensor."""
    array = numpy_helper.to_array(value)
    if array.size != 1 or array.dtype.kind not in "biu":
        what = f"what decides how it runs is {array.dtype}{list(array.shape)}"
        raise GraphError(what, place=f"node {name!r}", expected="one truth value or integer")
    return int(array.reshape(-1)[0])


def ensure_as_many(found: int, expected: int, name: str, what: str = "outputs of its graph") -> None:
    """Raise GraphError where a graph has more or fewer of what is named."""
    if found != expected:
        raise GraphError(f"it has {found} {what}", place=f"node {name!r}", expected=str(expected))


def axes_of(node: onnx.NodeProto, attribute: str, ranks: Sequence[int], name: str) -> list[int]:
    """As many axes as there are ranks, counted from the front; raises GraphError for one that is none."""
    axes = integers_attribute(node, attribute, len(ranks))
    for axis, rank in zip(axes, ranks, strict=True):
        if not -rank <= axis < rank:
            raise GraphError(f"{attribute} has {axis}", place=f"node {name!r}", expected=f"an axis of {rank}")
    return [axis % rank for axis, rank in zip(axes, ranks, strict=True)]


def integer_attribute(node: onnx.NodeProto, name: str) -> int:
    """A whole number; 0 where the attribute is not there."""
    return next((attribute.i for attribute in node.attribute if attribute.name == name), 0)


def integers_attribute(node: onnx.NodeProto, name: str, count: int) -> list[int]:
    """As many as there should be, zeros where the attribute is not there or short."""
    found = next((list(attribute.ints) for attribute in node.attribute if attribute.name == name), [])
    return [*found, *([0] * count)][:count]
