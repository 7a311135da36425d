"""ONNX models of many independent operators, each with separate inputs, with random sizes and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node

from support.onnx_networks import model, value

Numbers = npt.NDArray[Any]
Attribute = float | str | Sequence[int]


@dataclass
class SideBySide:
    """Independent operators, added one after another; each has an output of the network."""

    random: Random
    opset: int = 21
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    parameters: list[TensorProto] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def input(self, *shape: int) -> str:
        name = f"input{len(self.inputs)}"
        self.inputs.append(value(name, shape))
        return name

    def constant(self, array: Numbers) -> str:
        name = f"constant{len(self.parameters)}"
        self.parameters.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int, least: float = -1.0) -> str:
        numbers = np.random.default_rng(self.random.getrandbits(32))
        return self.constant(numbers.uniform(least, 1, shape).astype(np.float32))

    def integers(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def add(self, kind: str, operands: Sequence[str], outputs: int = 1, /, **attributes: Attribute) -> None:
        names = [f"{kind.lower()}{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(make_node(kind, operands, names, name=f"{kind}{len(self.nodes)}", **attributes))  # type: ignore[arg-type]
        self.outputs += names

    def network(self) -> onnx.ModelProto:
        return model(self.nodes, self.inputs, self.outputs, self.parameters, opset=self.opset)


def windows(random: Random) -> onnx.ModelProto:
    """Return convolutions with groups, transposed ones and pools, with strides, dilations and pads."""
    net = SideBySide(random)
    for _ in range(4):
        groups, inside, outside = random.choice((1, 1, 2, 3)), random.randint(1, 3), random.randint(1, 3)
        rows, columns = random.randint(1, 3), random.randint(1, 3)
        strides = [random.randint(1, 2), random.randint(1, 3)]
        window: dict[str, Attribute] = {
            "strides": strides,
            "dilations": [random.randint(1, 2), 1],
            "pads": [random.randint(0, 2) for _ in range(4)],
            "group": groups,
        }
        weight = net.weight(groups * outside, inside, rows, columns)
        bias = [net.weight(groups * outside)] if random.random() < 0.5 else []
        net.add("Conv", [net.input(random.randint(1, 2), groups * inside, 9, 8), weight, *bias], **window)
        window["output_padding"] = [random.randint(0, size - 1) for size in strides]
        window["pads"] = [random.randint(0, min(1, rows - 1, columns - 1)) for _ in range(4)]
        weight = net.weight(groups * inside, outside, rows, columns)
        net.add("ConvTranspose", [net.input(1, groups * inside, 5, 4), weight], **window)
        pads = [random.randint(0, 1), random.randint(0, 1), 0, 0]  # shapes differ if windows begin behind the map
        pool: dict[str, Attribute] = {
            "kernel_shape": [2, 3],
            "strides": [random.randint(1, 2), 2],
            "pads": pads,
            "ceil_mode": random.randint(0, 1),
        }
        net.add("MaxPool", [net.input(1, 3, 8, 9)], dilations=[1, random.randint(1, 2)], **pool)
        net.add("AveragePool", [net.input(2, 3, 8, 9)], count_include_pad=random.randint(0, 1), **pool)
    same = random.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    net.add("Conv", [net.input(1, 2, 10), net.weight(3, 2, 4)], auto_pad=same, strides=[3])
    net.add("MaxPool", [net.input(1, 2, 7, 6)], auto_pad=same, kernel_shape=[3, 2], strides=[2, 2])
    net.add("Conv", [net.input(1, 2, 10), net.weight(3, 2, 1)], auto_pad=same, strides=[5])
    net.add("AveragePool", [net.input(1, 2, 7, 10)], auto_pad=same, kernel_shape=[3, 1], strides=[2, 5])
    net.add("GlobalAveragePool", [net.input(2, 3, 5, 6)])
    net.add("GlobalMaxPool", [net.input(2, 3, 5)])
    return net.network()


def elementwise(random: Random) -> onnx.ModelProto:
    """Return element-wise operators, with and without broadcasting."""
    net = SideBySide(random)
    for kind in ("Abs", "Atan", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu"):
        net.add(kind, [net.input(2, random.randint(1, 40))])
    for kind in ("Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Tanh"):
        net.add(kind, [net.input(random.randint(1, 40), 3)])
    net.add("Softsign", [net.input(7)])
    net.add("Gelu", [net.input(30)], approximate=random.choice(("none", "tanh")))
    net.add("Clip", [net.input(30), net.constant(np.array(-0.25, np.float32)), net.constant(np.array(0.5, np.float32))])
    for kind in ("Sqrt", "Log"):
        net.add(kind, [net.weight(2, 5, least=0.1)])
    shapes = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((1, 3, 1), (2, 1, 4)), ((4,), (2, 3, 4)), ((2, 3, 4), (1,))]
    for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        left, right = random.choice(shapes)
        net.add(kind, [net.input(*left), net.weight(*right, least=0.5)])
    net.add("Pow", [net.weight(3, 4, least=0.1), net.input(4)])
    net.add("PRelu", [net.input(2, 3, 4), net.weight(3, 1)])
    net.add("Sum", [net.input(2, 3), net.input(2, 3), net.input(3)])
    net.add("Mean", [net.input(2, 3), net.input(2, 3), net.input(3)])
    return net.network()


def products_and_norms(random: Random) -> onnx.ModelProto:
    """Return matrix products, softmax, norms and reductions."""
    net = SideBySide(random)
    net.add("MatMul", [net.input(2, 3, 4, 5), net.input(3, 5, 6)])
    net.add("MatMul", [net.input(5), net.weight(5, 3)])
    net.add("MatMul", [net.input(4, 5), net.weight(5)])
    for at in range(2):
        left, right = [(4, 5), (5, 4)][at], [(5, 6), (6, 5)][random.randint(0, 1)]
        turns = {"transA": at, "transB": int(right[0] == 6)}
        numbers = {"alpha": random.choice((1.0, 0.5)), "beta": random.choice((1.0, 2.0))}
        net.add(
            "Gemm", [net.input(*left), net.weight(*right), net.weight(random.choice((1, 4)), 6)], **turns, **numbers
        )
    net.add("Gemm", [net.input(2, 3), net.weight(3, 4)])
    for kind in ("Softmax", "LogSoftmax"):
        net.add(kind, [net.input(2, 3, 4)], axis=random.randint(-3, 2))
    norm = [net.weight(3, least=0.1) for _ in range(4)]
    net.add("BatchNormalization", [net.input(2, 3, 4, 5), *norm], epsilon=1e-3)
    net.add("LayerNormalization", [net.input(2, 3, 4), net.weight(3, 4), net.weight(3, 4)], axis=1)
    net.add("LayerNormalization", [net.input(2, 3, 4), net.weight(4)])
    net.add("InstanceNormalization", [net.input(2, 3, 4, 5), net.weight(3), net.weight(3)])
    net.add("GroupNormalization", [net.input(2, 6, 4, 5), net.weight(6), net.weight(6)], num_groups=3)
    net.add("LRN", [net.input(1, 6, 3, 2)], size=random.choice((3, 5)), alpha=0.1, beta=0.5, bias=1.5)
    for kind in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSum"):
        axes = sorted(random.sample(range(4), random.randint(1, 4)))
        net.add(kind, [net.input(2, 3, 4, 5), net.integers(*axes)], keepdims=random.randint(0, 1))
    return net.network()


def movements(random: Random) -> onnx.ModelProto:
    """Return operators that move elements, and operators on maps of another size."""
    net = SideBySide(random)
    net.add("Transpose", [net.input(2, 3, 4, 5)], perm=random.sample(range(4), 4))
    axis = random.randint(-3, 2)
    parts = [[2, 3, 4] for _ in range(3)]
    for part in parts:
        part[axis] = random.randint(1, 3)
    net.add("Concat", [net.input(*part) for part in parts], axis=axis)
    net.add("Split", [net.input(2, 6, 4), net.integers(1, 3, 2)], 3, axis=1)
    net.add("Split", [net.input(2, 7)], 3, axis=1, num_outputs=3)
    step = random.choice((-2, -1, 1, 2))
    start, stop = (100, -100) if step < 0 else (1, 100)
    ranges = [net.integers(1, start), net.integers(3, stop), net.integers(0, -1), net.integers(1, step)]
    net.add("Slice", [net.input(4, 3, 7), *ranges])
    before = [random.randint(0, 2) for _ in range(6)]
    net.add("Pad", [net.input(2, 3, 4), net.integers(*before), net.constant(np.array(0.5, np.float32))])
    net.add("Pad", [net.input(2, 6), net.integers(-1, 2), net.constant(np.array(0, np.float32)), net.integers(1)])
    net.add("Expand", [net.input(3, 1), net.integers(2, 3, 4)])
    net.add("Tile", [net.input(2, 3), net.integers(2, 3)])
    net.add("DepthToSpace", [net.input(1, 8, 2, 3)], blocksize=2, mode=random.choice(("DCR", "CRD")))
    net.add("SpaceToDepth", [net.input(1, 2, 4, 6)], blocksize=2)
    net.add(
        "Gather", [net.input(3, 4, 5), net.constant(np.array([[0, -1], [2, 1]], np.int64))], axis=random.randint(0, 2)
    )
    net.add("Gather", [net.input(3, 4), net.constant(np.array([1, 0], np.int32))], axis=1)
    net.add("Identity", [net.input(3, 4)])
    for mode in ("nearest", "linear"):
        for way in ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"):
            sizes = net.integers(1, 2, random.randint(1, 9), random.randint(1, 9))
            rounding = random.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
            settings = {"mode": mode, "coordinate_transformation_mode": way, "nearest_mode": rounding}
            net.add("Resize", [net.input(1, 2, 4, 5), "", "", sizes], **settings)
    return net.network()


def fused_chain(random: Random) -> onnx.ModelProto:
    """Return convolutions followed by a norm and an activation, a skip connection and a product, which plans fuse."""
    net = SideBySide(random)
    x = net.input(1, 3, 16, 16)
    nodes = [
        make_node("Conv", [x, net.weight(8, 3, 3, 3)], ["a"], pads=[1] * 4),
        make_node("BatchNormalization", ["a", *(net.weight(8, least=0.2) for _ in range(4))], ["b"]),
        make_node("Relu", ["b"], ["c"]),
        make_node("Unsqueeze", [net.weight(8), net.integers(1, 2)], ["seen"]),
        make_node("Mul", ["c", "seen"], ["scaled"]),
        make_node("Conv", ["scaled", net.weight(8, 1, 3, 3)], ["d"], pads=[1] * 4, group=8),
        make_node("HardSwish", ["d"], ["e"]),
        make_node("Add", ["c", "e"], ["f"]),
        make_node("Concat", ["f", "c"], ["g"], axis=1),
        make_node("MaxPool", ["g"], ["h"], kernel_shape=[2, 2], strides=[2, 2]),
        make_node("Flatten", ["h"], ["i"]),
        make_node("Gemm", ["i", net.weight(10, 16 * 8 * 8), net.weight(10)], ["j"], transB=1),
        make_node("Softmax", ["j"], ["y"]),
    ]
    return model(nodes, net.inputs, ["y"], net.parameters)


def long_skip(random: Random) -> onnx.ModelProto:
    """Return a map that waits while wide maps are computed from it and narrowed again.

    It is spilled if capacity is small.
    """
    net = SideBySide(random)
    x = net.input(1, 3, 8, 8)
    nodes = [
        make_node("Conv", [x, net.weight(8, 3, 1, 1)], ["a"]),
        make_node("Conv", ["a", net.weight(24, 8, 1, 1)], ["b"]),
        make_node("Conv", ["b", net.weight(24, 24, 1, 1)], ["c"]),
        make_node("Conv", ["c", net.weight(8, 24, 1, 1)], ["d"]),
        make_node("Add", ["a", "d"], ["y"]),
    ]
    return model(nodes, net.inputs, ["y"], net.parameters)


__all__ = ["elementwise", "fused_chain", "long_skip", "movements", "products_and_norms", "windows"]
