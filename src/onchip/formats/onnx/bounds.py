"""Shapes that follow from values: the largest that an operator can give, and which operators pass such bounds on."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final, TypeAlias

import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import make_tensor_type_proto

from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.nodes import kind_of
from onchip.formats.onnx.types import static_shape

_INDICES: Final[int] = TensorProto.INT64
_Found: TypeAlias = list[tuple[int, tuple[int, ...]]]
"""Element type and shape of each output."""

_OF_ONE_TENSOR: Final = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh Dropout Elu Erf Exp Floor Gelu "
    "HardSigmoid HardSwish Hardmax Identity IsInf IsNaN LayerNormalization LeakyRelu Log LogSoftmax Mish Neg Not "
    "Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu"
)
_OF_SEVERAL: Final = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike DequantizeLinear Div Equal Greater GreaterOrEqual Less "
    "LessOrEqual Max Mean Min Mod Mul Or PRelu Pow QuantizeLinear Sub Sum Where Xor"
)
_REDUCTIONS: Final = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
_MOVEMENTS: Final = (
    "Concat Gather GatherElements GatherND MatMul NonZero Reshape Shape Size Squeeze Transpose Unique Unsqueeze"
)
_PASSING: Final = frozenset(
    kind for kinds in (_OF_ONE_TENSOR, _OF_SEVERAL, _REDUCTIONS, _MOVEMENTS) for kind in kinds.split()
)
"""Kinds whose output is no larger where an input is smaller."""
_EXACT: Final = frozenset({"ScatterND", "ScatterElements", "Shape", "Size"})
"""Kinds whose output's shape is known though that of an input is only bounded: of the first two, of a later input."""


def passes_bounds(node: onnx.NodeProto, bounded: Mapping[str, object] | set[str]) -> bool:
    """Whether the largest shapes of the operands in `bounded` give, by inference, the largest of the outputs."""
    if kind_of(node) in ("ScatterND", "ScatterElements"):
        return node.input[0] not in bounded
    return kind_of(node) in _PASSING


def has_exact_output(node: onnx.NodeProto) -> bool:
    """Whether the shape of the outputs is exact though that of an operand is a bound."""
    return kind_of(node) in _EXACT


def largest_types(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], constants: Constants
) -> dict[str, onnx.TypeProto]:
    """The largest types of the outputs of an operator whose shapes follow from values; none of another operator."""
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
        output: make_tensor_type_proto(element_type, shape)
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
    """At most so many of every class of every image, each as three indices."""
    scores = shapes[1] if len(shapes) > 1 else None
    if scores is None or len(scores) != 3:
        return []
    images, classes, boxes = scores
    limit = constants.value(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if limit is not None and (numbers := numpy_helper.to_array(limit)).size == 1:
        boxes = min(boxes, max(0, int(numbers.reshape(-1)[0])))
    return [(_INDICES, (images * classes * boxes, 3))]
