"""Pictures and signals, kinds of onnxruntime's own and of ai.onnx.ml."""

from __future__ import annotations

import numpy as np

from support.one_node.node import OneNode, broadcast_pair, draws

# Pictures and signals


@draws("STFT")
def short_fourier(node: OneNode) -> None:
    length = node.integer(6, 20)
    frame = node.integer(2, 6)
    node.feed([node.integer(1, 2), length, node.one_of(1, 1, 2)])
    node.state(node.integer(1, 4))
    how = node.integer(0, 2)
    if how:
        node.take(np.ones(frame, np.float32), constant=node.chance(0.7))
    else:
        node.leave_out()
    if how != 1:
        node.state(frame)
    node.maybe(onesided=node.integer(0, 1))


# onnxruntime's own kinds


@draws("com.microsoft::QLinearAdd com.microsoft::QLinearMul")
def quantised_binary(node: OneNode) -> None:
    for shape in broadcast_pair(node):
        node.feed(shape, np.uint8)
        node.state(0.5, np.float32)
        node.state(3, np.uint8)
    node.state(0.5, np.float32)
    node.state(3, np.uint8)


@draws("com.microsoft::QLinearSigmoid com.microsoft::QLinearLeakyRelu com.microsoft::QLinearSoftmax")
def quantised_unary(node: OneNode) -> None:
    node.feed(node.shape(1), np.uint8)
    for _ in range(2):
        node.state(0.5, np.float32)
        node.state(3, np.uint8)
    if node.kind == "QLinearSoftmax":
        node.set(opset=13, axis=-1)


@draws("com.microsoft::QLinearConcat")
def quantised_concat(node: OneNode) -> None:
    shape = node.shape(1)
    axis = node.axis(len(shape))
    node.state(0.5, np.float32)
    node.state(3, np.uint8)
    for _ in range(node.integer(1, 3)):
        shape[axis] = node.integer(1, 4)
        node.feed(shape, np.uint8)
        node.state(0.5, np.float32)
        node.state(3, np.uint8)
    node.set(axis=axis)


@draws("com.microsoft::Gelu com.microsoft::FastGelu com.microsoft::QuickGelu")
def contributed_activation(node: OneNode) -> None:
    node.feed(node.shape(1))


# Kinds of ai.onnx.ml


@draws("ai.onnx.ml::ArrayFeatureExtractor")
def extracted(node: OneNode) -> None:
    shape = node.shape(1, 3)
    node.feed(shape)
    node.take(node.values(node.shape(1, 1), np.int64, 1), constant=node.chance())


@draws("ai.onnx.ml::Binarizer")
def binarised(node: OneNode) -> None:
    node.feed(node.shape(1))


@draws("ai.onnx.ml::OneHotEncoder")
def categories(node: OneNode) -> None:
    node.feed(node.shape(1, 3), np.int64, 2)
    node.set(cats_int64s=list(range(node.integer(5, 7))), zeros=1)


@draws("ai.onnx.ml::LinearClassifier")
def linear_classes(node: OneNode) -> None:
    rows, features, classes = node.integer(1, 4), node.integer(1, 4), node.integer(2, 4)
    node.feed([rows, features])
    node.set(coefficients=[0.5] * (features * classes), intercepts=[0.5] * classes)
    node.set(classlabels_ints=list(range(classes)), post_transform=node.one_of("NONE", "LOGISTIC", "SOFTMAX"))
    node.outputs = 2
