"""Shapes of one node's operands that contradict each other, where ONNX's own inference does not look."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TypeAlias

import onnx
from onnx.helper import get_attribute_value

from onchip.errors import GraphError
from onchip.formats.onnx.nodes import kind_of
from onchip.formats.onnx.specification import UnspecifiedError, einsum_shape
from onchip.formats.onnx.types import static_shape

_Types: TypeAlias = Mapping[str, onnx.TypeProto]
_FILTERS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""Which operand a convolution's filters are."""

_AUTO_PADS = (b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID")


def ensure_operands_agree(node: onnx.NodeProto, name: str, types: _Types) -> None:
    """Raise GraphError for operands that no runtime takes together.

    These are filters of other channels than their input, operands of an Einsum that do not fit its equation, and a
    reshaping to more or fewer elements.

    A shape that is not in `types`, or is not static, agrees with everything.
    """
    kind = kind_of(node)
    said = None
    if kind in _FILTERS and len(node.input) > _FILTERS[kind]:
        said = _fault_of_convolution(node, types)
    elif kind == "Reshape":
        said = _fault_of_reshaping(node, types)
    elif kind == "Einsum":
        said = _fault_of_einsum(node, types)
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


def _fault_of_einsum(node: onnx.NodeProto, types: _Types) -> tuple[str, str] | None:
    shapes = [_shape(name, types) for name in node.input]
    given = [shape for shape in shapes if shape is not None]
    equation = next((one.s.decode(errors="replace") for one in node.attribute if one.name == "equation"), "")
    try:
        if len(given) == len(shapes):
            einsum_shape(equation, given)
    except UnspecifiedError:
        listed = ", ".join(str(list(shape)) for shape in given)
        return f"its operands {listed} do not fit its equation {equation!r}", "a term for each, and one size a letter"
    return None


def may_have_shape(
    node: onnx.NodeProto, types: _Types, shape: tuple[int, ...], largest: tuple[int, ...] | None
) -> bool:
    """False if the node cannot write a first output of this shape, whatever the values that its shape follows from.

    `largest` is the largest shape of the output, if it is known.
    """
    given = _shape(node.input[0], types) if any(node.input[:1]) else None
    if largest is not None:
        return _is_within(shape, largest)
    if given is None:
        return True
    kind = kind_of(node)
    if kind == "Reshape":
        return prod(shape) == prod(given)
    if kind in ("Squeeze", "Unsqueeze"):
        return [size for size in shape if size != 1] == [size for size in given if size != 1]
    if kind == "Split":
        return _is_within(shape, given)
    if kind == "MaxUnpool":
        return len(shape) == len(given) and shape[:2] == given[:2]
    if kind == "Tile":
        return len(shape) == len(given) and all(
            size % one == 0 if one else not size for size, one in zip(shape, given, strict=True)
        )
    if kind.startswith("Reduce"):
        is_kept = next((one.i for one in node.attribute if one.name == "keepdims"), 1)
        if is_kept:
            return len(shape) == len(given) and all(size in (1, one) for size, one in zip(shape, given, strict=True))
        left = iter(given)
        return all(size in left for size in shape)  # each size of the output is one of the input's, in their order
    return True


def _is_within(shape: tuple[int, ...], largest: tuple[int, ...]) -> bool:
    return len(shape) == len(largest) and all(size <= most for size, most in zip(shape, largest, strict=True))


def _shape(name: str, types: _Types) -> tuple[int, ...] | None:
    return static_shape(types[name]) if name in types else None
