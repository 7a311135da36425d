"""Int8 TFLite models of the shapes of small devices, with random weights.

The shapes of MLPerf Tiny (Banbury et al., 2021) and of common blocks: inverted bottlenecks, residual, dense, U-shaped
and squeeze-and-excite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from support.tflite_models import Options, TfliteModel, TfliteOperator, TfliteTensor, network

SCALE, WEIGHT_SCALE = 0.05, 0.01
SAME, RELU, LOGISTIC_SCALE = 0, 1, 1 / 256


@dataclass
class _Int8Layers:
    """A builder of int8 maps, channels last; each method adds an operator and returns the name of its output."""

    shape: tuple[int, ...]
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    tensors: list[TfliteTensor] = field(default_factory=list)
    operators: list[TfliteOperator] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tensors.append(TfliteTensor("input", self.shape, "INT8", scale=SCALE))

    def shape_of(self, name: str) -> tuple[int, ...]:
        return tuple(next(one.shape for one in self.tensors if one.name == name))

    def add(self, kind: str, inputs: list[str], shape: tuple[int, ...], options: Options) -> str:
        name = f"{kind.lower()}_{len(self.operators)}"
        self.operators.append(TfliteOperator(kind, inputs, [name], options))
        scale = LOGISTIC_SCALE if kind == "LOGISTIC" else SCALE
        self.tensors.append(TfliteTensor(name, shape, "INT8", scale=scale))
        return name

    def weights(self, channels: int, *shape: int) -> list[str]:
        names = [f"weights_{len(self.tensors)}", f"bias_{len(self.tensors)}"]
        values = self.random.integers(-127, 128, shape).astype(np.int8)
        bias = self.random.integers(-999, 1000, (channels,)).astype(np.int32)
        self.tensors.append(TfliteTensor(names[0], shape, "INT8", values, scale=WEIGHT_SCALE))
        self.tensors.append(TfliteTensor(names[1], (channels,), "INT32", bias, scale=SCALE * WEIGHT_SCALE))
        return names

    def numbers(self, *values: int) -> str:
        name = f"numbers_{len(self.tensors)}"
        self.tensors.append(TfliteTensor(name, (len(values),), "INT32", np.array(values, np.int32)))
        return name

    def convolution(self, source: str, channels: int, kernel: int | tuple[int, int] = 1, stride: int = 1) -> str:
        (_, rows, columns, depth), sizes = self.shape_of(source), kernel if isinstance(kernel, tuple) else (kernel,) * 2
        options = {"Padding": SAME, "StrideW": stride, "StrideH": stride, "FusedActivationFunction": RELU}
        options |= {"DilationWFactor": 1, "DilationHFactor": 1}
        shape = (1, -(-rows // stride), -(-columns // stride), channels)
        operands = [source, *self.weights(channels, channels, *sizes, depth)]
        return self.add("CONV_2D", operands, shape, ("Conv2DOptions", options))

    def depthwise(self, source: str, kernel: int = 3, stride: int = 1) -> str:
        _, rows, columns, depth = self.shape_of(source)
        options = {"Padding": SAME, "StrideW": stride, "StrideH": stride, "FusedActivationFunction": RELU}
        options |= {"DilationWFactor": 1, "DilationHFactor": 1, "DepthMultiplier": 1}
        shape = (1, -(-rows // stride), -(-columns // stride), depth)
        operands = [source, *self.weights(depth, 1, kernel, kernel, depth)]
        return self.add("DEPTHWISE_CONV_2D", operands, shape, ("DepthwiseConv2DOptions", options))

    def separable(self, source: str, channels: int, stride: int = 1) -> str:
        return self.convolution(self.depthwise(source, stride=stride), channels)

    def sum(self, one: str, other: str) -> str:
        return self.add("ADD", [one, other], self.shape_of(one), ("AddOptions", {}))

    def product(self, one: str, other: str) -> str:
        return self.add("MUL", [one, other], self.shape_of(one), ("MulOptions", {}))

    def joined(self, *sources: str) -> str:
        shapes = [self.shape_of(one) for one in sources]
        shape = (*shapes[0][:3], sum(one[3] for one in shapes))
        return self.add("CONCATENATION", list(sources), shape, ("ConcatenationOptions", {"Axis": 3}))

    def pool(self, source: str, size: int = 2) -> str:
        _, rows, columns, depth = self.shape_of(source)
        options = {"Padding": SAME, "StrideW": size, "StrideH": size, "FilterWidth": size, "FilterHeight": size}
        return self.add("MAX_POOL_2D", [source], (1, rows // size, columns // size, depth), ("Pool2DOptions", options))

    def mean(self, source: str) -> str:
        shape = (1, 1, 1, self.shape_of(source)[3])
        return self.add("MEAN", [source, self.numbers(1, 2)], shape, ("ReducerOptions", {"KeepDims": True}))

    def larger(self, source: str) -> str:
        _, rows, columns, depth = self.shape_of(source)
        size, options = self.numbers(2 * rows, 2 * columns), {"AlignCorners": False, "HalfPixelCenters": False}
        shape = (1, 2 * rows, 2 * columns, depth)
        return self.add("RESIZE_NEAREST_NEIGHBOR", [source, size], shape, ("ResizeNearestNeighborOptions", options))

    def connected(self, source: str, features: int) -> str:
        depth = int(np.prod(self.shape_of(source)))
        options = {"KeepNumDims": False, "FusedActivationFunction": RELU}
        operands = [source, *self.weights(features, features, depth)]
        return self.add("FULLY_CONNECTED", operands, (1, features), ("FullyConnectedOptions", options))

    def model(self, classes: int | None = None) -> TfliteModel:
        """Return the model, with classes behind a mean over the pixels if their number is given."""
        last = self.tensors[-1].name
        if classes is not None:
            last = self.connected(self.mean(last), classes)
        return network(self.tensors, self.operators, ["input"], [last])


def _image_classification() -> TfliteModel:
    """Return MLPerf Tiny's ResNet-8."""
    net = _Int8Layers((1, 32, 32, 3))
    source = net.convolution("input", 16, 3)
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        deep = net.convolution(net.convolution(source, channels, 3, stride), channels, 3)
        source = net.sum(deep, source if stride == 1 else net.convolution(source, channels, 1, stride))
    return net.model(10)


def _keyword_spotting() -> TfliteModel:
    """Return MLPerf Tiny's DS-CNN."""
    net = _Int8Layers((1, 49, 10, 1))
    source = net.convolution("input", 64, (10, 4), 2)
    for _ in range(4):
        source = net.separable(source, 64)
    return net.model(12)


def _visual_wake_words() -> TfliteModel:
    """Return MLPerf Tiny's MobileNetV1 of a quarter of the width."""
    net = _Int8Layers((1, 96, 96, 3))
    source = net.convolution("input", 8, 3, 2)
    blocks = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)]
    for channels, stride in blocks:
        source = net.separable(source, channels, stride)
    return net.model(2)


def _anomaly_detection() -> TfliteModel:
    """Return MLPerf Tiny's autoencoder."""
    net = _Int8Layers((1, 640))
    source = "input"
    for features in (*[128] * 4, 8, *[128] * 4, 640):
        source = net.connected(source, features)
    return net.model()


def _inverted_bottlenecks(width: int) -> TfliteModel:
    net = _Int8Layers((1, 80, 80, 3))
    source = net.convolution("input", width, 3, 2)
    for channels, stride in ((width, 1), (2 * width, 2), (2 * width, 1), (4 * width, 2), (4 * width, 1)):
        wide = net.convolution(source, 6 * net.shape_of(source)[3])
        narrow = net.convolution(net.depthwise(wide, stride=stride), channels)
        source = net.sum(narrow, source) if net.shape_of(narrow) == net.shape_of(source) else narrow
    return net.model(10)


def _residual(size: int) -> TfliteModel:
    net = _Int8Layers((1, size, size, 3))
    source = net.convolution("input", 16, 3)
    for _ in range(3):
        source = net.sum(net.convolution(net.convolution(source, 16, 3), 16, 3), source)
    return net.model(10)


def _dense(size: int) -> TfliteModel:
    net = _Int8Layers((1, size, size, 3))
    source = net.convolution("input", 16, 3)
    for _ in range(4):
        source = net.joined(source, net.convolution(source, 8, 3))
    return net.model(10)


def _u_shaped(size: int) -> TfliteModel:
    net = _Int8Layers((1, size, size, 3))
    high = net.convolution("input", 8, 3)
    middle = net.convolution(net.pool(high), 16, 3)
    low = net.convolution(net.pool(middle), 32, 3)
    middle = net.convolution(net.joined(net.larger(low), middle), 16, 3)
    net.convolution(net.joined(net.larger(middle), high), 2, 3)
    return net.model()


def _squeeze_and_excite() -> TfliteModel:
    net = _Int8Layers((1, 48, 48, 3))
    source = net.convolution("input", 16, 3, 2)
    for _ in range(2):
        deep = net.depthwise(net.convolution(source, 48))
        squeezed = net.convolution(net.convolution(net.mean(deep), 12), 48)
        factor = net.add("LOGISTIC", [squeezed], net.shape_of(squeezed), ("", {}))
        source = net.sum(net.convolution(net.product(deep, factor), 16), source)
    return net.model(10)


TINY_MODELS: Mapping[str, Callable[[], TfliteModel]] = {
    "image_classification": _image_classification,
    "keyword_spotting": _keyword_spotting,
    "visual_wake_words": _visual_wake_words,
    "anomaly_detection": _anomaly_detection,
    **{f"inverted_bottlenecks_{width}": partial(_inverted_bottlenecks, width) for width in (8, 16, 24)},
    **{f"residual_{size}": partial(_residual, size) for size in (32, 64)},
    **{f"dense_{size}": partial(_dense, size) for size in (32, 64)},
    **{f"u_shaped_{size}": partial(_u_shaped, size) for size in (32, 64)},
    "squeeze_and_excite": _squeeze_and_excite,
}
"""Fourteen models by name; the weights are those of seed 0."""
