"""Shapes that follow from values: the largest that an operator can give, and which operators pass such bounds on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import make_tensor_type_proto

from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.nodes import kind_of
from onchip.formats.onnx.runtime_kinds import is_runtime_kind
from onchip.formats.onnx.types import static_shape

_INDICES: Final[int] = TensorProto.INT64
_Found: TypeAlias = list[tuple[int, tuple[int, ...]]]
"""Element type and shape of each output."""

_EXACT_AXES: Final = {"NonZero": (0,), "NonMaxSuppression": (1,)}
"""Axes whose size does not follow from values, of these kinds."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest type that a tensor can have, and the axes that may be smaller."""

    kind: onnx.TypeProto
    axes: frozenset[int]

    @classmethod
    def of(cls, element_type: int, shape: Sequence[int], exact: Collection[int] = ()) -> Bound:
        """Return the bound for a shape of which all axes but the `exact` ones may be smaller."""
        axes = frozenset(range(len(shape))).difference(exact)
        return cls(make_tensor_type_proto(element_type, list(shape)), axes)


_OF_ONE_TENSOR: Final = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Bernoulli BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh CumSum "
    "DequantizeLinear Dropout DynamicQuantizeLinear Elu Erf Exp EyeLike Floor Gelu HardSigmoid HardSwish Hardmax "
    "Identity IsInf IsNaN LeakyRelu Log LogSoftmax Mish Neg Not QuantizeLinear RandomNormalLike RandomUniformLike "
    "Reciprocal Relu ReverseSequence Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan "
    "Tanh ThresholdedRelu Trilu"
)
_NORMS: Final = (
    "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization "
    "MeanVarianceNormalization RMSNormalization"
)
_OF_SEVERAL: Final = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min "
    "Mod Mul Or PRelu Pow Sub Sum Where Xor"
)
_REDUCTIONS: Final = (
    "ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare"
)
_MOVEMENTS: Final = (
    "Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND NonMaxSuppression NonZero OneHot Pad "
    "Reshape Resize ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile TopK Transpose Unique "
    "Unsqueeze Upsample"
)
_PRODUCTS: Final = (
    "Attention Conv ConvInteger ConvTranspose Einsum GRU Gemm LSTM MatMul MatMulInteger QLinearConv QLinearMatMul RNN"
)
_WINDOWS: Final = (
    "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample LpPool MaxPool MaxRoiPool RoiAlign"
)
_PASSING: Final = frozenset(
    kind
    for kinds in (_OF_ONE_TENSOR, _NORMS, _OF_SEVERAL, _REDUCTIONS, _MOVEMENTS, _PRODUCTS, _WINDOWS)
    for kind in kinds.split()
)
"""Kinds whose output is no larger where an input is smaller, axis by axis."""
BROADCASTING: Final = frozenset(_OF_SEVERAL.split())
"""Kinds whose operands must have equal sizes, or sizes of 1, counted from the last axis."""


def passes_bounds(
    node: onnx.NodeProto, axes: Mapping[str, frozenset[int]], types: Mapping[str, onnx.TypeProto]
) -> bool:
    """True if the largest shapes of the operands give the largest of the outputs.

    `axes` are, for each operand whose shape is a bound, those that may be smaller.
    """
    kind = kind_of(node)
    if kind == "GatherND" and len(node.input) > 1:  # the last axis of the indices is a number of axes
        rank = len(static_shape(types[node.input[1]]) or ())
        return rank - 1 not in axes.get(node.input[1], ())
    if kind == "Resize":  # an aspect ratio makes one axis the larger, the smaller another is
        policy = next((one.s for one in node.attribute if one.name == "keep_aspect_ratio_policy"), b"stretch")
        return policy == b"stretch"
    return kind in _PASSING or is_runtime_kind(node)


def largest_types(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], constants: Constants) -> dict[str, Bound]:
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
    """At most so many of every class of every image, each as three indices."""
    scores = shapes[1] if len(shapes) > 1 else None
    if scores is None or len(scores) != 3:
        return []
    images, classes, boxes = scores
    limit = constants.value(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if limit is not None and (numbers := numpy_helper.to_array(limit)).size == 1:
        boxes = min(boxes, max(0, int(numbers.reshape(-1)[0])))
    return [(_INDICES, (images * classes * boxes, 3))]
