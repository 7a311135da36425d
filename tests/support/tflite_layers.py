"""TFLite networks grown layer by layer, with seeded weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from support.tflite_models import Options, TfliteModel, TfliteOperator, TfliteTensor, network


class TfliteLayers:
    """A chain of layers over float maps, with seeded weights."""

    def __init__(self, *shape: int, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.tensors = [TfliteTensor("x", shape)]
        self.operators: list[TfliteOperator] = []

    @property
    def last(self) -> TfliteTensor:
        return next(each for each in reversed(self.tensors) if each.data is None)

    def constant(self, *shape: int) -> str:
        name = f"constant {len(self.tensors)}"
        self.tensors.append(TfliteTensor(name, shape, data=self.random.standard_normal(shape).astype(np.float32)))
        return name

    def numbers(self, *shape: int, values: Sequence[int]) -> str:
        name = f"constant {len(self.tensors)}"
        self.tensors.append(TfliteTensor(name, shape, "INT32", np.array(values, np.int32).reshape(shape)))
        return name

    def add(self, kind: str, operands: Sequence[str], shape: Sequence[int], options: Options = ("", {})) -> str:
        name = f"{kind.lower()} {len(self.tensors)}"
        self.operators.append(TfliteOperator(kind, operands, [name], options))
        self.tensors.append(TfliteTensor(name, shape))
        return name

    def model(self) -> TfliteModel:
        return network(self.tensors, self.operators, ["x"], [self.last.name])


def a_network_of_many_kinds() -> TfliteModel:
    net = TfliteLayers(1, 12, 10, 3)
    window = {"Padding": 0, "StrideH": 2, "StrideW": 1, "FusedActivationFunction": 3}
    first = net.add(
        "CONV_2D", ["x", net.constant(8, 3, 3, 3), net.constant(8)], (1, 6, 10, 8), ("Conv2DOptions", window)
    )
    depth = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 1}
    deep = ("DepthwiseConv2DOptions", depth)
    second = net.add("DEPTHWISE_CONV_2D", [first, net.constant(1, 5, 3, 8), net.constant(8)], (1, 6, 10, 8), deep)
    scaled = net.add("MUL", [second, net.constant(8)], (1, 6, 10, 8))
    added = net.add("ADD", [scaled, first], (1, 6, 10, 8))
    joined = net.add("CONCATENATION", [added, second], (1, 6, 10, 16), ("ConcatenationOptions", {"Axis": 3}))
    pool = {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}
    pooled = net.add("MAX_POOL_2D", [joined], (1, 3, 5, 16), ("Pool2DOptions", pool))
    slope = net.add("PRELU", [pooled, net.constant(1, 1, 16)], (1, 3, 5, 16))
    up = {"Padding": 0, "StrideH": 2, "StrideW": 2}
    weights = [net.numbers(4, values=[1, 6, 10, 4]), net.constant(4, 3, 3, 16)]
    high = net.add("TRANSPOSE_CONV", [*weights, slope], (1, 6, 10, 4), ("TransposeConvOptions", up))
    padded = net.add("PAD", [high, net.numbers(4, 2, values=[0, 0, 1, 0, 0, 2, 0, 3])], (1, 7, 12, 7))
    cut = net.add(
        "SLICE", [padded, net.numbers(4, values=[0, 1, 2, 3]), net.numbers(4, values=[1, 5, -1, 4])], (1, 5, 10, 4)
    )
    soft = net.add("SOFTMAX", [cut], (1, 5, 10, 4), ("SoftmaxOptions", {"Beta": 1.0}))
    turned = net.add("TRANSPOSE", [soft, net.numbers(4, values=[0, 2, 3, 1])], (1, 10, 4, 5))
    mean = net.add("MEAN", [turned, net.numbers(2, values=[1, 2])], (1, 5), ("ReducerOptions", {"KeepDims": False}))
    net.add("FULLY_CONNECTED", [mean, net.constant(6, 5), net.constant(6)], (1, 6))
    return net.model()


def a_network_of_what_moves_elements() -> TfliteModel:
    """Return slices with steps, splits, mirrored pads, blocks of pixels and resizes over maps."""
    net = TfliteLayers(1, 9, 8, 4)
    pool = {"Padding": 0, "StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 3}
    pooled = net.add("AVERAGE_POOL_2D", ["x"], (1, 9, 8, 4), ("Pool2DOptions", pool))
    limits = [net.numbers(4, values=values) for values in ((0, 1, -7, 0), (1, 8, 0, 4), (1, 3, 2, 1))]
    cut = net.add("STRIDED_SLICE", [pooled, *limits], (1, 3, 4, 4), ("StridedSliceOptions", {"EndMask": 4}))
    mirror = net.numbers(4, 2, values=[0, 0, 1, 2, 2, 0, 0, 0])
    mirrored = net.add("MIRROR_PAD", [cut, mirror], (1, 6, 6, 4), ("MirrorPadOptions", {"Mode": 0}))
    blocks = net.add("SPACE_TO_DEPTH", [mirrored], (1, 3, 3, 16), ("SpaceToDepthOptions", {"BlockSize": 2}))
    wide = net.add("DEPTH_TO_SPACE", [blocks], (1, 6, 6, 4), ("DepthToSpaceOptions", {"BlockSize": 2}))
    large = net.add("RESIZE_NEAREST_NEIGHBOR", [wide, net.numbers(2, values=[12, 12])], (1, 12, 12, 4))
    smooth = ("ResizeBilinearOptions", {"HalfPixelCenters": True})
    large = net.add("RESIZE_BILINEAR", [large, net.numbers(2, values=[7, 5])], (1, 7, 5, 4), smooth)
    name = net.add("SPLIT", [net.numbers(values=[3]), large], (1, 7, 5, 2), ("SplitOptions", {"NumSplits": 2}))
    other = TfliteTensor("other half", (1, 7, 5, 2))
    net.operators[-1].outputs = [name, other.name]
    net.tensors.insert(-1, other)
    net.add("SUB", [name, other.name], (1, 7, 5, 2))
    net.add("LOG_SOFTMAX", [net.last.name], (1, 7, 5, 2))
    return net.model()


def bytes_side_by_side() -> TfliteModel:
    """Return int8 operators, each with an output: sums, products, extremes, curves, means, pools, pads and slices."""
    x, z = "x", "z"
    shape = (1, 6, 8, 4)
    tensors = [TfliteTensor(name, shape, "INT8", scale=scale) for name, scale in ((x, 0.05), (z, 0.03))]
    operators: list[TfliteOperator] = []

    def numbers(*values: int, rows: int = 1) -> str:
        name = f"constant {len(tensors)}"
        array = np.array(values, np.int32)
        tensors.append(TfliteTensor(name, array.reshape(rows, -1).shape if rows > 1 else array.shape, "INT32", array))
        return name

    def add(kind: str, operands: Sequence[str], made: Sequence[int], scale: float, options: Options = ("", {})) -> None:
        name = f"{kind.lower()} {len(tensors)}"
        operators.append(TfliteOperator(kind, operands, [name], options))
        tensors.append(TfliteTensor(name, made, "INT8", scale=scale))

    add("ADD", [x, z], shape, 0.07, ("AddOptions", {"FusedActivationFunction": 1}))
    add("SUB", [x, z], shape, 0.06, ("SubOptions", {}))
    add("MUL", [x, z], shape, 0.02, ("MulOptions", {"FusedActivationFunction": 3}))
    add("MAXIMUM", [x, x], shape, 0.05)
    add("TANH", [x], shape, 1 / 128)
    add("RELU", [x], shape, 0.05)
    add("LEAKY_RELU", [x], shape, 0.04, ("LeakyReluOptions", {"Alpha": 0.2}))
    add("HARD_SWISH", [x], shape, 0.03)
    add("MEAN", [x, numbers(1, 2)], (1, 4), 0.03, ("ReducerOptions", {"KeepDims": False}))
    pool = {"Padding": 0, "StrideH": 2, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 2}
    add("AVERAGE_POOL_2D", [x], (1, 3, 8, 4), 0.05, ("Pool2DOptions", pool))
    add("MAX_POOL_2D", [x], (1, 3, 8, 4), 0.05, ("Pool2DOptions", pool))
    add("PAD", [x, numbers(0, 0, 1, 0, 0, 2, 0, 0, rows=4)], (1, 7, 10, 4), 0.05)
    ranges = [numbers(0, 1, -1, 0), numbers(1, 6, -9, 4), numbers(1, 2, -2, 3)]
    masks = {"BeginMask": 1, "EndMask": 9, "ShrinkAxisMask": 0}
    add("STRIDED_SLICE", [x, *ranges], (1, 3, 4, 2), 0.05, ("StridedSliceOptions", masks))
    add("TRANSPOSE", [x, numbers(0, 3, 1, 2)], (1, 4, 6, 8), 0.05)
    return network(tensors, operators, [x, z], [name for operator in operators for name in map(str, operator.outputs)])
