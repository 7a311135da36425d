"""Shapes of one node's operands that contradict each other, where ONNX's own inference does not look."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TypeAlias

import onnx
from onnx.helper import get_attribute_value

from onchip.errors import GraphError
from onchip.formats.onnx.nodes import kind_of
from onchip.formats.onnx.types import static_shape

_Types: TypeAlias = Mapping[str, onnx.TypeProto]
_FILTERS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""Which operand a convolution's filters are."""

_AUTO_PADS = (b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID")


def ensure_operands_agree(node: onnx.NodeProto, name: str, types: _Types) -> None:
    """Raise GraphError for filters that are not of their input, and for a reshaping to more or fewer elements.

    A shape that is not in `types`, or is not static, agrees with everything.
    """
    kind = kind_of(node)
    said = None
    if kind in _FILTERS and len(node.input) > _FILTERS[kind]:
        said = _fault_of_convolution(node, types)
    elif kind == "Reshape":
        said = _fault_of_reshaping(node, types)
    if said is not None:
        what, expected = said
        raise GraphError(what, place=f"node {name!r}", expected=expected)


def _fault_of_convolution(node: onnx.NodeProto, types: _Types) -> tuple[str, str] | None:
    """What is wrong, and what was expected; filters are [outputs, inputs of one group, rows, columns] or so."""
    given, filters = _shape(node.input[0], types), _shape(node.input[_FILTERS[kind_of(node)]], types)
    if given is None or filters is None or len(given) < 3 or len(given) != len(filters):
        return None
    attributes = {one.name: get_attribute_value(one) for one in node.attribute if not one.ref_attr_name}
    groups, window = attributes.get("group", 1), tuple(attributes.get("kernel_shape", filters[2:]))
    if groups < 1:
        return f"it has {groups} groups", "at least 1"
    if attributes.get("auto_pad", b"NOTSET") not in _AUTO_PADS:
        return f"its auto_pad is {attributes['auto_pad'].decode(errors='replace')!r}", "a padding that ONNX knows"
    if window != filters[2:]:
        return f"its kernel_shape is {list(window)}, its filters have the shape {list(filters)}", "one size"
    if kind_of(node) != "ConvTranspose" and filters[0] % groups:
        return f"it has {filters[0]} outputs in {groups} groups", "as many in each"
    read = filters[0] if kind_of(node) == "ConvTranspose" else filters[1] * groups
    if read != given[1]:
        what = f"its input has {given[1]} channels, its filters {list(filters)} with group {groups} read {read}"
        return what, "as many"
    return None


def _fault_of_reshaping(node: onnx.NodeProto, types: _Types) -> tuple[str, str] | None:
    given, made = _shape(node.input[0], types), _shape(node.output[0], types)
    if given is None or made is None or prod(given) == prod(made):
        return None
    return f"it makes {list(made)} of {list(given)}", "as many elements"


def _shape(name: str, types: _Types) -> tuple[int, ...] | None:
    return static_shape(types[name]) if name in types else None
