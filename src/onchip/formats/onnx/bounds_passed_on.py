"""Bounds of shapes through operators for which the largest input alone does not say the largest output."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TypeAlias

import onnx
from onnx import numpy_helper
from onnx.helper import make_tensor_type_proto

from onchip.formats.onnx.bounds import BROADCASTING, Bound
from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.nodes import kind_of
from onchip.formats.onnx.slices import ranges_of
from onchip.formats.onnx.types import static_shape

Types: TypeAlias = Mapping[str, onnx.TypeProto]
Axes: TypeAlias = Mapping[str, frozenset[int]]
"""The axes that may be smaller, for each operand whose shape is a bound."""
_Shape: TypeAlias = tuple[int, ...]


def bounds_by_rule(node: onnx.NodeProto, types: Types, axes: Axes, constants: Constants) -> Mapping[str, Bound]:
    """Return the bounds of the outputs of a Slice, Split or Reshape; empty for any other kind or unknown values."""
    if not node.input or not node.input[0]:
        return {}
    shape = static_shape(types[node.input[0]])
    if shape is None:
        return {}
    element_type = types[node.input[0]].tensor_type.elem_type
    smaller = axes.get(node.input[0], frozenset())
    found: list[tuple[_Shape, frozenset[int]]] = []
    match kind_of(node):
        case "Slice":
            found = _sliced(node, shape, smaller, constants)
        case "Split":
            found = _split(node, shape, smaller, constants)
        case "Reshape":
            found = _reshaped(node, shape, smaller, constants)
    return {
        name: Bound(make_tensor_type_proto(element_type, list(sizes)), variable)
        for name, (sizes, variable) in zip(node.output, found, strict=False)
        if name
    }


def types_that_agree(node: onnx.NodeProto, types: Types, axes: Axes) -> Types:
    """Return the operands' types with bounds replaced that cannot be reached together.

    Sizes that must be equal when the network runs may have unequal bounds.
    """
    kind = kind_of(node)
    shapes = {name: shape for name in node.input if name and (shape := static_shape(types[name])) is not None}
    if len(shapes) < len(set(filter(None, node.input))):
        return types
    if kind in BROADCASTING:
        changed = _broadcast(shapes, axes)
    elif kind == "Concat":
        changed = _joined(node, shapes, axes)
    else:
        return types
    kinds = {
        name: make_tensor_type_proto(types[name].tensor_type.elem_type, list(shape)) for name, shape in changed.items()
    }
    return {name: kinds.get(name, types[name]) for name in shapes}


def without_elements_along(kind: onnx.TypeProto, axes: frozenset[int]) -> onnx.TypeProto:
    """Return the type with the size 0 along these axes."""
    shape = [0 if axis in axes else size for axis, size in enumerate(static_shape(kind) or ())]
    return make_tensor_type_proto(kind.tensor_type.elem_type, shape)


def axes_that_differ(kind: onnx.TypeProto, other: onnx.TypeProto | None) -> frozenset[int]:
    """Return the axes along which two types have unequal sizes; all axes if the other is not known as well."""
    shape, smallest = static_shape(kind) or (), None if other is None else static_shape(other)
    if smallest is None or len(smallest) != len(shape):
        return frozenset(range(len(shape)))
    return frozenset(axis for axis, sizes in enumerate(zip(shape, smallest, strict=True)) if sizes[0] != sizes[1])


def _sliced(
    node: onnx.NodeProto, shape: _Shape, smaller: frozenset[int], constants: Constants
) -> list[tuple[_Shape, frozenset[int]]]:
    ranges = ranges_of(node, len(shape), constants)
    if ranges is None:
        return []
    sizes = list(shape)
    for each in ranges:
        if each.axis in smaller:
            sizes[each.axis] = each.greatest_length(shape[each.axis])
        else:
            sizes[each.axis] = each.length(shape[each.axis])
    return [(tuple(sizes), smaller)]


def _split(
    node: onnx.NodeProto, shape: _Shape, smaller: frozenset[int], constants: Constants
) -> list[tuple[_Shape, frozenset[int]]]:
    """Parts of stated sizes are exact; of equal parts all but the last are rounded up."""
    attributes = {one.name: one for one in node.attribute}
    axis = attributes["axis"].i if "axis" in attributes else 0
    if not -len(shape) <= axis < len(shape):
        return []
    axis %= len(shape)
    stated = list(attributes["split"].ints) if "split" in attributes else []
    if len(node.input) > 1 and node.input[1]:
        value = constants.value(node.input[1])
        if value is None:
            return []
        stated = [int(size) for size in numpy_helper.to_array(value).reshape(-1)]
    count = len(node.output)
    if axis not in smaller and not stated:
        return []
    if stated:
        sizes, variable = stated, smaller - {axis}
    else:
        sizes, variable = [*[-(-shape[axis] // count)] * (count - 1), shape[axis] // count], smaller
    return [((*shape[:axis], size, *shape[axis + 1 :]), variable) for size in sizes]


def _reshaped(
    node: onnx.NodeProto, shape: _Shape, smaller: frozenset[int], constants: Constants
) -> list[tuple[_Shape, frozenset[int]]]:
    """Stated sizes are exact; the size -1 is at most the number of elements by them."""
    value = constants.value(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if value is None:
        return []
    target = [int(size) for size in numpy_helper.to_array(value).reshape(-1)]
    takes_zero = any(one.name == "allowzero" and one.i for one in node.attribute)
    copied = {at for at, size in enumerate(target) if size == 0 and not takes_zero}
    if any(at >= len(shape) for at in copied) or target.count(-1) > 1 or min(target, default=0) < -1:
        return []
    if takes_zero and 0 in target:
        return []
    sizes = [shape[at] if at in copied else size for at, size in enumerate(target)]
    variable = {at for at in copied if at in smaller}
    if -1 in target:
        at = target.index(-1)
        left = [axis for axis in range(len(shape)) if axis not in copied]
        stated = prod(size for size in target if size > 0)
        sizes[at] = prod(shape[axis] for axis in left) // stated
        if smaller.intersection(left):
            variable.add(at)
    return [(tuple(sizes), frozenset(variable))]


def _broadcast(shapes: Mapping[str, _Shape], axes: Axes) -> dict[str, _Shape]:
    """Give each bound the size that the axis has in the output, unless it is 1 at most."""
    changed = dict(shapes)
    for back in range(1, 1 + max(map(len, shapes.values()), default=0)):
        at_axis = {name: shape[-back] for name, shape in shapes.items() if len(shape) >= back}
        exact = {size for name, size in at_axis.items() if len(shapes[name]) - back not in axes.get(name, ())}
        size = max(exact - {1}, default=max(at_axis.values()))
        for name, bound in at_axis.items():
            axis = len(shapes[name]) - back
            if bound > 1 and axis in axes.get(name, ()):
                changed[name] = (*changed[name][:axis], size, *changed[name][axis + 1 :])
    return changed


def _joined(node: onnx.NodeProto, shapes: Mapping[str, _Shape], axes: Axes) -> dict[str, _Shape]:
    """Give all operands one size along each axis along which they are not joined."""
    along = next((one.i for one in node.attribute if one.name == "axis"), 0)
    ranks = {len(shape) for shape in shapes.values()}
    if len(ranks) > 1:
        return dict(shapes)
    (rank,) = ranks
    changed = {name: list(shape) for name, shape in shapes.items()}
    for axis in set(range(rank)) - {along % rank if rank else 0}:
        exact = {shape[axis] for name, shape in shapes.items() if axis not in axes.get(name, ())}
        size = min(exact or {shape[axis] for shape in shapes.values()})
        for name in shapes:
            if axis in axes.get(name, ()):
                changed[name][axis] = size
    return {name: tuple(shape) for name, shape in changed.items()}
