"""Element-wise nodes, reductions and normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.one_node.node import OneNode, broadcast_pair, draws, part_of

# Element-wise operators

FLOATS = (np.float32, np.float32, np.float64, np.float16)


@draws(
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity "
    "IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign "
    "Sqrt Swish Tan Tanh ThresholdedRelu DynamicQuantizeLinear Bernoulli RandomNormalLike RandomUniformLike"
)
def elementwise(node: OneNode) -> None:
    node.feed(node.shape(), np.float32 if node.chance(0.7) else node.one_of(*FLOATS))
    if node.kind == "DynamicQuantizeLinear":
        node.outputs = 3


@draws("Add Sub Mul Div Pow Mod PRelu Equal Greater GreaterOrEqual Less LessOrEqual BitShift")
@draws("And Or Xor BitwiseAnd BitwiseOr BitwiseXor")
def binary(node: OneNode) -> None:
    dtype: Any = np.float32
    if node.kind in ("And", "Or", "Xor"):
        dtype = np.bool_
    elif node.kind.startswith("Bit") or node.kind == "Mod":
        dtype = np.uint8
    first, second = broadcast_pair(node)
    node.feed(first, dtype)
    if node.kind == "PRelu":
        second = [1 if node.chance() else size for size in first[node.integer(0, len(first)) :]]
    node.take(node.values(second, dtype) + dtype(1), constant=node.chance(0.3))
    if node.kind == "BitShift":
        node.set(direction=node.one_of("LEFT", "RIGHT"))


@draws("Max Min Mean Sum")
def variadic(node: OneNode) -> None:
    whole = node.shape(1)
    for _ in range(node.integer(1, 4)):
        node.feed(part_of(node, whole))


@draws("Where")
def where(node: OneNode) -> None:
    whole = node.shape(1)
    node.feed(part_of(node, whole), np.bool_)
    node.feed(part_of(node, whole))
    node.feed(part_of(node, whole))


@draws("Clip")
def clip(node: OneNode) -> None:
    node.feed(node.shape())
    if node.opset < 11:
        node.maybe(min=0.5, max=2.0)
    else:
        node.state(0.5, np.float32)
        node.state(2.0, np.float32)


@draws("Not BitwiseNot")
def negated(node: OneNode) -> None:
    node.feed(node.shape(), np.bool_ if node.kind == "Not" else np.uint8, 2)


@draws("Cast")
def cast(node: OneNode) -> None:
    node.feed(node.shape())
    node.set(to=int(node.one_of(1, 2, 3, 5, 6, 7, 9, 10, 11)))


@draws("Dropout")
def dropout(node: OneNode) -> None:
    node.feed(node.shape(1))
    node.outputs = node.integer(1, 2)


@draws("Softmax LogSoftmax Hardmax")
def softmax(node: OneNode) -> None:
    shape = node.shape(1)
    node.feed(shape)
    node.maybe(axis=node.axis(len(shape), negative=node.opset >= 11))


@draws("QuantizeLinear DequantizeLinear")
def quantised(node: OneNode) -> None:
    shape, axis, blocks = node.shape(2), None, None
    scale: list[int] = []
    if node.opset >= 13 and node.chance():
        axis = node.axis(len(shape))
        scale = [shape[axis]]
        if node.opset >= 21 and node.chance():
            blocks, scale = node.integer(1, 3), list(shape)
            scale[axis] = -(-shape[axis] // blocks)
    whole = node.kind == "DequantizeLinear"
    narrow = node.one_of(np.uint8, np.int8)
    node.feed(shape, narrow if whole else np.float32)
    node.take(node.values(scale) + np.float32(1), constant=node.chance())
    if whole or node.chance():
        node.weight(scale, narrow)
    node.set(axis=axis, block_size=blocks)


# Reductions


@draws(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
def reduced(node: OneNode) -> None:
    shape = node.shape(1)
    node.feed(shape)
    axes = node.axes(len(shape)) if node.chance(0.8) else None
    if node.opset < 11 and axes is not None:
        axes = [axis % len(shape) for axis in axes]
    as_input = node.opset >= (13 if node.kind == "ReduceSum" else 18)
    if as_input and axes is not None:
        node.state(axes)
    elif axes:
        node.set(axes=axes)
    if as_input:
        node.maybe(noop_with_empty_axes=node.integer(0, 1))
    node.maybe(keepdims=node.integer(0, 1))


@draws("ArgMax ArgMin")
def extreme(node: OneNode) -> None:
    shape = node.shape(1)
    node.feed(shape)
    node.maybe(axis=node.axis(len(shape), negative=node.opset >= 11), keepdims=node.integer(0, 1))
    if node.opset >= 12:
        node.maybe(select_last_index=1)


# Normalisations


@draws("BatchNormalization")
def batch_norm(node: OneNode) -> None:
    shape = node.shape(2, 5)
    node.feed(shape)
    for _ in range(4):
        node.weight([shape[1]])
    if node.opset >= 14 and node.chance(0.2):
        node.set(training_mode=1)
        node.outputs = 3


@draws("InstanceNormalization GroupNormalization")
def channel_norm(node: OneNode) -> None:
    groups = node.integer(1, 2)
    shape = [node.integer(1, 2), groups * node.integer(1, 3), *node.integers(node.integer(1, 3), 1, 5)]
    node.feed(shape)
    length = groups if node.kind == "GroupNormalization" and node.opset < 21 else shape[1]
    node.weight([length])
    node.weight([length])
    if node.kind == "GroupNormalization":
        node.set(num_groups=groups)


@draws("LayerNormalization RMSNormalization")
def layer_norm(node: OneNode) -> None:
    shape = node.shape(1)
    axis = node.axis(len(shape))
    node.feed(shape)
    node.weight(shape[axis:])
    node.set(axis=axis if axis != -1 or node.chance() else None)
    if node.kind == "LayerNormalization":
        node.outputs = node.integer(1, 3)


@draws("LpNormalization MeanVarianceNormalization")
def plain_norm(node: OneNode) -> None:
    shape = node.shape(4, 4)
    node.feed(shape)
    if node.kind == "LpNormalization":
        node.maybe(axis=node.axis(4), p=node.integer(1, 2))
    else:
        node.maybe(axes=[0, 2, 3])
