"""Largest shapes of tensors whose shape follows from values, and the propagation of these bounds.

Detectors compute shapes from the number of boxes that they found. Each size lies between 0 and its bound. A function
that is monotone in its operands maps the least values to the least, and the greatest to the greatest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import make_tensor_type_proto

from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.nodes import Types, kind_of, static_shape
from onchip.formats.onnx.runtime_kinds import is_runtime_kind
from onchip.formats.onnx.specification import ranges_of

Axes: TypeAlias = Mapping[str, frozenset[int]]
"""Map from each operand whose shape is a bound to the axes that may be smaller."""
_Shape: TypeAlias = tuple[int, ...]
_Sized: TypeAlias = tuple[_Shape, frozenset[int]]
"""Largest sizes of a tensor, and the axes that may be smaller."""
_Sizes: TypeAlias = list[_Sized]
_INDICES: Final[int] = TensorProto.INT64
_Found: TypeAlias = list[tuple[int, tuple[int, ...]]]
"""Element type and shape of each output."""

_EXACT_AXES: Final = {"NonZero": (0,), "NonMaxSuppression": (1,)}
"""Map from kind to the axes whose size does not follow from values."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest type that a tensor can have, and the axes that may be smaller."""

    kind: onnx.TypeProto
    axes: frozenset[int]

    @classmethod
    def of(cls, element_type: int, shape: Sequence[int], exact: Collection[int] = ()) -> Bound:
        """Return the bound for a shape in which all axes except the `exact` ones may be smaller."""
        axes = frozenset(range(len(shape))).difference(exact)
        return cls(make_tensor_type_proto(element_type, list(shape)), axes)


_OF_SEVERAL: Final = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min "
    "Mod Mul Or PRelu Pow Sub Sum Where Xor"
)
_OF_OTHERS: Final = (
    "Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Bernoulli BitwiseNot "
    "Cast CastLike Ceil Celu Clip Compress Concat Conv ConvInteger ConvTranspose Cos Cosh CumSum DepthToSpace "
    "DequantizeLinear Dropout DynamicQuantizeLinear Einsum Elu Erf Exp Expand EyeLike Flatten Floor GRU Gather "
    "GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample GroupNormalization "
    "HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu "
    "Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger MaxPool MaxRoiPool MeanVarianceNormalization Mish Neg "
    "NonMaxSuppression NonZero Not OneHot Pad QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN "
    "RandomNormalLike RandomUniformLike Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax "
    "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round "
    "ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign "
    "SpaceToDepth Split Sqrt Squeeze Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze "
    "Upsample"
)
_PASSING: Final = frozenset((*_OF_SEVERAL.split(), *_OF_OTHERS.split()))
"""Kinds whose output never grows along any axis if an input shrinks."""
BROADCASTING: Final = frozenset(_OF_SEVERAL.split())
"""Kinds whose operands must have equal sizes, or sizes of 1, counted from the last axis."""


def passes_bounds(node: onnx.NodeProto, axes: Axes, types: Types) -> bool:
    """Return True if the largest shapes of the operands give the largest shapes of the outputs.

    `axes` maps each operand whose shape is a bound to the axes that may be smaller.
    """
    kind = kind_of(node)
    if kind == "GatherND" and len(node.input) > 1:  # the last axis of the indices is a number of axes
        rank = len(static_shape(types[node.input[1]]) or ())
        return rank - 1 not in axes.get(node.input[1], ())
    if kind == "Resize":  # an aspect ratio makes one axis the larger, the smaller another is
        policy = next((one.s for one in node.attribute if one.name == "keep_aspect_ratio_policy"), b"stretch")
        return policy == b"stretch"
    return kind in _PASSING or is_runtime_kind(node)


def largest_types(node: onnx.NodeProto, types: Types, constants: Constants) -> dict[str, Bound]:
    """Return the largest types of the outputs of an operator whose shapes follow from values; empty for any other."""
    shapes = [static_shape(types[name]) if name else None for name in node.input]
    if not shapes or shapes[0] is None:
        return {}
    own = types[node.input[0]].tensor_type.elem_type
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    found: _Found = []
    match kind_of(node):
        case "NonZero" if shapes[0]:
            found = [(_INDICES, (len(shapes[0]), prod(shapes[0])))]
        case "Unique":
            found = _unique(own, shapes[0], attributes.get("axis"))
        case "Compress":
            found = _compressed(own, shapes[0], shapes[1:2], attributes.get("axis"))
        case "NonMaxSuppression":
            found = _boxes(node, shapes, constants)
        case "TopK":
            found = [(own, shapes[0]), (_INDICES, shapes[0])]
        case "Slice":
            found = [(own, shapes[0])]
    return {
        output: Bound.of(element_type, shape, _EXACT_AXES.get(kind_of(node), ()))
        for output, (element_type, shape) in zip(node.output, found, strict=False)
        if output
    }


def _unique(own: int, shape: tuple[int, ...], axis: int | None) -> _Found:
    count = prod(shape)
    if axis is None:
        return [(own, (count,)), *([(_INDICES, (count,))] * 3)]
    if not -len(shape) <= axis < len(shape):
        return []
    return [(own, shape), *([(_INDICES, (shape[axis],))] * 3)]


def _compressed(own: int, shape: tuple[int, ...], condition: list[tuple[int, ...] | None], axis: int | None) -> _Found:
    chosen = prod(condition[0]) if condition and condition[0] is not None else prod(shape)
    if axis is None:
        return [(own, (min(chosen, prod(shape)),))]
    if not -len(shape) <= axis < len(shape):
        return []
    axis %= len(shape)
    return [(own, (*shape[:axis], min(chosen, shape[axis]), *shape[axis + 1 :]))]


def _boxes(node: onnx.NodeProto, shapes: list[tuple[int, ...] | None], constants: Constants) -> _Found:
    """Return the largest shape: at most `limit` boxes of every class of every image, three indices each."""
    scores = shapes[1] if len(shapes) > 1 else None
    if scores is None or len(scores) != 3:
        return []
    images, classes, boxes = scores
    limit = constants.integers(node, 2)
    if limit is not None and len(limit) == 1:
        boxes = min(boxes, max(0, limit[0]))
    return [(_INDICES, (images * classes * boxes, 3))]


def bounds_by_rule(node: onnx.NodeProto, types: Types, axes: Axes, constants: Constants) -> Mapping[str, Bound]:
    """Return the bounds of the outputs of a Slice, Split or Reshape; empty for any other kind or unknown values."""
    if not node.input or not node.input[0]:
        return {}
    shape = static_shape(types[node.input[0]])
    if shape is None:
        return {}
    element_type = types[node.input[0]].tensor_type.elem_type
    smaller = axes.get(node.input[0], frozenset())
    found: _Sizes = []
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


def _sliced(node: onnx.NodeProto, shape: _Shape, smaller: frozenset[int], constants: Constants) -> _Sizes:
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


def _split(node: onnx.NodeProto, shape: _Shape, smaller: frozenset[int], constants: Constants) -> _Sizes:
    """Return exact sizes for parts of stated sizes; equal parts are rounded up, except the last."""
    attributes = {one.name: one for one in node.attribute}
    axis = attributes["axis"].i if "axis" in attributes else 0
    if not -len(shape) <= axis < len(shape):
        return []
    axis %= len(shape)
    stated = list(attributes["split"].ints) if "split" in attributes else []
    if len(node.input) > 1 and node.input[1]:
        given = constants.integers(node, 1)
        if given is None:
            return []
        stated = given
    count = len(node.output)
    if axis not in smaller and not stated:
        return []
    if stated:
        sizes, variable = stated, smaller - {axis}
    else:
        sizes, variable = [*[-(-shape[axis] // count)] * (count - 1), shape[axis] // count], smaller
    return [((*shape[:axis], size, *shape[axis + 1 :]), variable) for size in sizes]


def _reshaped(node: onnx.NodeProto, shape: _Shape, smaller: frozenset[int], constants: Constants) -> _Sizes:
    """Return the stated sizes, which are exact; the size -1 is bounded by the number of elements."""
    target = constants.integers(node, 1)
    if target is None:
        return []
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


Values: TypeAlias = npt.NDArray[Any]
_RISING: Final = frozenset({"Add", "Concat", "Max", "Min", "Mul", "Sum"})
"""Kinds that are monotone in their operands (Mul only if no operand is negative)."""
_RISING_IN_FIRST: Final = frozenset(
    {"Cast", "Ceil", "Div", "Floor", "Gather", "Identity", "ReduceMax", "ReduceMin"}
) | {*("ReduceProd", "ReduceSum", "Reshape", "Slice", "Squeeze", "Sub", "Unsqueeze")}
"""Kinds that are monotone in their first operand if the others are constants."""
_WIDE: Final = frozenset({TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE})
"""Element types to which a size is cast without wrapping."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The least and the greatest values that a tensor can have, element by element."""

    least: Values
    greatest: Values

    @property
    def is_exact(self) -> bool:
        """True if the values are known."""
        return bool(np.array_equal(self.least, self.greatest))

    @property
    def is_ordered(self) -> bool:
        """True if no least value exceeds its greatest one, as it does where numbers wrap."""
        return self.least.shape == self.greatest.shape and bool((self.least <= self.greatest).all())


class ValueBounds:
    """Ranges of the tensors that follow from bounded shapes."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._ranges: dict[str, ValueRange] = {}

    def follow(self, node: onnx.NodeProto, types: Types, axes: frozenset[int]) -> None:
        """Note the range of what a node writes, and that it is a constant if it is exact.

        `axes` are those of the first operand that may be smaller than its type says.
        """
        found = self._of_shape(node, types, axes) if kind_of(node) in ("Shape", "Size") else self._of_values(node)
        if found is None:
            return
        (output,) = node.output
        if found.is_exact:
            self._constants.add_tensor(output, numpy_helper.from_array(found.greatest, output))
        else:
            self._ranges[output] = found

    def shape_stated(
        self, node: onnx.NodeProto, types: Types, axes: frozenset[int], written: Types
    ) -> dict[str, Bound]:
        """Return the largest types of the outputs of a node whose shape an operand of a known range states.

        `axes` are those of the first operand that may be smaller, `written` has the outputs' element types.
        """
        shape = static_shape(types[node.input[0]]) if any(node.input[:1]) else None
        found: _Sized | None = None
        match kind_of(node):
            case "ConstantOfShape" if (stated := self._range(node, 0)) is not None:
                found = _sizes(stated.greatest), _variable(stated)
            case "Expand" if shape is not None and (stated := self._range(node, 1)) is not None:
                found = _expanded(shape, axes, stated)
            case "Reshape" if shape is not None and (stated := self._range(node, 1)) is not None:
                found = _reshaped_to(shape, stated)
            case "Tile" if shape and (stated := self._range(node, 1)) and stated.greatest.shape == (len(shape),):
                found = tuple(np.multiply(shape, stated.greatest).tolist()), _variable(stated) | axes
            case "TopK" if shape and (stated := self._range(node, 1)) is not None and stated.greatest.size == 1:
                axis = next((one.i for one in node.attribute if one.name == "axis"), -1) % len(shape)
                sizes = list(shape)
                sizes[axis] = min(shape[axis], max(0, *_sizes(stated.greatest)))
                found = tuple(sizes), axes | {axis}
            case "Range" if len(node.input) == 3:
                found = self._counted(node)
        if found is None or min(found[0], default=0) < 0:
            return {}
        exact = frozenset(range(len(found[0]))) - found[1]
        elements = {name: kind.tensor_type.elem_type for name, kind in written.items()}
        return {name: Bound.of(element, found[0], exact) for name, element in elements.items() if element}

    def _of_shape(self, node: onnx.NodeProto, types: Types, axes: frozenset[int]) -> ValueRange | None:
        if not axes:
            return None
        shape = static_shape(types[node.input[0]]) or ()
        least = [0 if axis in axes else size for axis, size in enumerate(shape)]
        if kind_of(node) == "Size":
            return ValueRange(np.array(np.prod(least), np.int64), np.array(np.prod(shape), np.int64))
        ends = {one.name: one.i for one in node.attribute}
        part = slice(ends.get("start", 0), ends.get("end", len(shape)))
        return ValueRange(np.array(least[part], np.int64), np.array(shape[part], np.int64))

    def _of_values(self, node: onnx.NodeProto) -> ValueRange | None:
        named = {at: name for at, name in enumerate(node.input) if name}
        if self._ranges.keys().isdisjoint(named.values()) or len(node.output) != 1:
            return None
        found = {at: self._range(node, at) for at in named}
        ranges = {at: each for at, each in found.items() if each is not None}
        if len(ranges) < len(found):
            return None
        if kind_of(node) == "Equal":
            return _equal(*ranges.values())
        if not _never_falls(node, ranges):
            return None
        least, greatest = (
            self._constants.evaluated(
                node, {name: numpy_helper.from_array(getattr(ranges[at], end), name) for at, name in named.items()}
            )
            for end in ("least", "greatest")
        )
        if not least or not greatest:
            return None
        found_range = ValueRange(numpy_helper.to_array(least[0]), numpy_helper.to_array(greatest[0]))
        return found_range if found_range.is_ordered else None

    def _range(self, node: onnx.NodeProto, place: int) -> ValueRange | None:
        """Return the range of an operand; that of a constant is its value."""
        name = node.input[place] if place < len(node.input) else ""
        if name in self._ranges:
            return self._ranges[name]
        value = self._constants.value(name) if name else None
        if value is None or value.data_type == TensorProto.STRING:
            return None
        array = numpy_helper.to_array(value)
        return ValueRange(array, array)

    def _counted(self, node: onnx.NodeProto) -> _Sized | None:
        """Return the largest length of a Range, from the least start to the greatest limit."""
        ranges = [self._range(node, place) for place in range(3)]
        if any(each is None or each.greatest.size != 1 for each in ranges):
            return None
        start, limit, step = (each for each in ranges if each is not None)
        if not step.is_exact or step.least.item() <= 0 or step.least.dtype.kind not in "iu":
            return None
        count = -((start.least.item() - limit.greatest.item()) // step.least.item())
        return (max(0, count),), frozenset({0})


def _never_falls(node: onnx.NodeProto, ranges: Mapping[int, ValueRange]) -> bool:
    """Return True if the output is monotone between the least and the greatest values of the operands."""
    kind = kind_of(node)
    if kind == "Where":
        return ranges[0].is_exact
    if kind in ("Mul", "ReduceProd") and any((each.least < 0).any() for each in ranges.values()):
        return False
    if kind in _RISING:
        return True
    if kind not in _RISING_IN_FIRST or not all(each.is_exact for at, each in ranges.items() if at):
        return False
    if kind == "Cast":
        return any(one.name == "to" and one.i in _WIDE for one in node.attribute)
    return kind != "Div" or bool((ranges[1].least > 0).all())


def _equal(one: ValueRange, other: ValueRange) -> ValueRange | None:
    """Return the result of Equal if it is known: for constants, or for ranges without common values."""
    if one.least.shape != other.least.shape and 1 not in (one.least.size, other.least.size):
        return None
    is_apart = (one.greatest < other.least) | (one.least > other.greatest)
    is_same = (one.least == one.greatest) & (other.least == other.greatest) & (one.least == other.least)
    found = np.asarray(is_same)
    return ValueRange(found, found) if bool(np.all(is_apart | is_same)) else None


def _sizes(values: Values) -> tuple[int, ...]:
    return tuple(int(size) for size in values.reshape(-1))


def _variable(stated: ValueRange) -> frozenset[int]:
    pairs = zip(_sizes(stated.least), _sizes(stated.greatest), strict=True)
    return frozenset(axis for axis, (least, greatest) in enumerate(pairs) if least != greatest)


def _expanded(shape: tuple[int, ...], axes: frozenset[int], stated: ValueRange) -> _Sized:
    """Return the output's sizes: an exact size above 1 of either side decides."""
    wanted, rank = _sizes(stated.greatest), max(len(shape), stated.greatest.size)
    more, missing = rank - len(shape), rank - len(wanted)
    smaller, open_ = {axis + more for axis in axes}, {axis + missing for axis in _variable(stated)}
    sizes, variable = [], set()
    for axis, (own, target) in enumerate(zip((1,) * more + shape, (1,) * missing + wanted, strict=True)):
        exact = [size for size, free in ((own, smaller), (target, open_)) if axis not in free and size > 1]
        sizes.append(exact[0] if exact else max(own, target))
        if not exact and axis in smaller | open_:
            variable.add(axis)
    return tuple(sizes), frozenset(variable)


def _reshaped_to(shape: tuple[int, ...], stated: ValueRange) -> _Sized | None:
    """Return the stated sizes; None if a size is open, or if a size of 0 might copy a larger one from the input."""
    sizes, variable = _sizes(stated.greatest), _variable(stated)
    if min((*sizes, *_sizes(stated.least)), default=0) < 0:
        return None
    for axis, least in enumerate(_sizes(stated.least)):
        if least == 0 and len(shape) > 1 and axis < len(shape) and shape[axis] > sizes[axis]:
            return None
    return sizes, variable
