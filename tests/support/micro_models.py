"""Small int8 models that TFLite Micro's kernels support."""

from __future__ import annotations

from random import Random

import numpy as np

from support.tflite_models import Options, TfliteModel, TfliteOperator, TfliteTensor, network

_CONVOLUTION: Options = ("Conv2DOptions", {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1})
_POOLING: Options = ("Pool2DOptions", {"StrideW": 8, "StrideH": 8, "FilterWidth": 8, "FilterHeight": 8})


def int8(name: str, *shape: int) -> TfliteTensor:
    return TfliteTensor(name, shape, "INT8", scale=0.5)


def int8_constant(name: str, random: Random, *shape: int) -> TfliteTensor:
    values = np.random.default_rng(random.getrandbits(32)).integers(-127, 128, shape).astype(np.int8)
    return TfliteTensor(name, shape, "INT8", values, scale=0.01)


def branches(count: int = 4, channels: int = 16) -> TfliteModel:
    """Return branches that widen a map and pool it, in level order, so that all wide maps are live at once."""
    random = Random(1)
    tensors, operators = [int8("input", 1, 16, 16, 4)], []
    for branch in range(count):
        tensors += [
            int8_constant(f"weights{branch}", random, channels, 1, 1, 4),
            int8(f"wide{branch}", 1, 16, 16, channels),
            int8(f"small{branch}", 1, 2, 2, channels),
        ]
        operands = ["input", f"weights{branch}", ""]
        operators.append(TfliteOperator("CONV_2D", operands, [f"wide{branch}"], _CONVOLUTION))
    operators += [
        TfliteOperator("MAX_POOL_2D", [f"wide{branch}"], [f"small{branch}"], _POOLING) for branch in range(count)
    ]
    tensors.append(int8("output", 1, 2, 2, count * channels))
    together = [f"small{branch}" for branch in range(count)]
    operators.append(TfliteOperator("CONCATENATION", together, ["output"], ("ConcatenationOptions", {"Axis": 3})))
    return network(tensors, operators, ["input"], ["output"])


def random_model(random: Random, most_operators: int = 9) -> TfliteModel:
    """Return layers, sums, concatenations, means and views of rows, in an executable order."""
    tensors = [int8(f"input{at}", 1, 16 * random.randint(1, 12)) for at in range(random.randint(1, 2))]
    tensors.append(TfliteTensor("axis", [1], "INT32", np.array([1], np.int32)))
    rows = {tensor.name: tensor.shape[1] for tensor in tensors if tensor.data is None}
    inputs = list(rows)
    operators: list[TfliteOperator] = []
    for at in range(random.randint(2, most_operators)):
        name, source = f"t{at}", random.choice(list(rows))
        partner = random.choice([other for other in rows if rows[other] == rows[source]])
        length = rows[source]
        match random.choice(["layer", "layer", "sum", "concatenation", "mean", "view"]):
            case "layer":
                length = random.randint(1, 200)
                tensors.append(int8_constant(f"weights{at}", random, length, rows[source]))
                options: Options = ("FullyConnectedOptions", {"KeepNumDims": False})
                made = TfliteOperator("FULLY_CONNECTED", [source, f"weights{at}", ""], [name], options)
            case "sum":
                made = TfliteOperator("ADD", [source, partner], [name], ("AddOptions", {}))
            case "concatenation":
                length = 2 * length
                options = ("ConcatenationOptions", {"Axis": 1})
                made = TfliteOperator("CONCATENATION", [source, partner], [name], options)
            case "mean":
                length = 1
                made = TfliteOperator("MEAN", [source, "axis"], [name], ("ReducerOptions", {"KeepDims": True}))
            case _:
                made = TfliteOperator("RESHAPE", [source], [name])
        operators.append(made)
        tensors.append(int8(name, 1, length))
        rows[name] = length
    read = {name for operator in operators for name in operator.inputs}
    outputs = [operator.outputs[0] for operator in operators if operator.outputs[0] not in read]
    outputs += [name for name in (f"t{at}" for at in range(len(operators))) if name in read and random.random() < 0.1]
    return network(tensors, operators, inputs, [str(name) for name in outputs])


def random_maps(random: Random, size: int = 24, most_layers: int = 8) -> TfliteModel:
    """Return int8 layers over maps: convolutions, pools, sums and concatenations, then a mean and a classifier."""
    maps = Maps(random, size)
    for _ in range(random.randint(3, most_layers)):
        match random.choice(["point", "depthwise", "convolution", "pool", "padded", "residual", "dense", "act"]):
            case "point":
                maps.convolution(random.choice([4, 8, 16]), 1)
            case "depthwise":
                maps.depthwise(random.choice([1, 2]))
            case "convolution":
                maps.convolution(random.choice([4, 8]), 3, random.choice([1, 2]))
            case "pool":
                maps.pool(random.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
            case "padded":
                maps.padded_depthwise(2)
            case "residual":
                maps.residual()
            case "dense":
                maps.dense()
            case _:
                maps.add("RELU6", [maps.last], maps.shape)
    return maps.classified()


class Maps:
    """An int8 network grown layer by layer over square maps; `last` is its newest map."""

    def __init__(self, random: Random, size: int, channels: int = 3) -> None:
        self.random, self.last = random, "input"
        self.tensors = [int8("input", 1, size, size, channels)]
        self.operators: list[TfliteOperator] = []
        self.shapes: dict[str, tuple[int, ...]] = {"input": (1, size, size, channels)}

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shapes[self.last]

    def add(self, kind: str, operands: list[str], shape: tuple[int, ...], options: Options = ("", {})) -> str:
        self.last = f"t{len(self.operators)}"
        self.tensors.append(int8(self.last, *shape))
        self.shapes[self.last] = shape
        self.operators.append(TfliteOperator(kind, operands, [self.last], options))
        return self.last

    def weights(self, *shape: int) -> str:
        self.tensors.append(int8_constant(f"weights{len(self.tensors)}", self.random, *shape))
        return self.tensors[-1].name

    def bias(self, count: int) -> str:
        values = np.random.default_rng(self.random.getrandbits(32)).integers(-3000, 3000, count).astype(np.int32)
        self.tensors.append(TfliteTensor(f"bias{len(self.tensors)}", [count], "INT32", values, scale=0.005))
        return self.tensors[-1].name

    def numbers(self, values: list[int], *shape: int) -> str:
        array = np.array(values, np.int32).reshape(shape)
        self.tensors.append(TfliteTensor(f"numbers{len(self.tensors)}", shape, "INT32", array))
        return self.tensors[-1].name

    def convolution(self, channels: int, kernel: int, stride: int = 1) -> str:
        _, rows, columns, inputs = self.shape
        operands = [self.last, self.weights(channels, kernel, kernel, inputs), self.bias(channels)]
        made = (1, -(-rows // stride), -(-columns // stride), channels)
        return self.add("CONV_2D", operands, made, ("Conv2DOptions", _window(stride, padding=0)))

    def depthwise(self, stride: int) -> str:
        _, rows, columns, channels = self.shape
        operands = [self.last, self.weights(1, 3, 3, channels), self.bias(channels)]
        made = (1, -(-rows // stride), -(-columns // stride), channels)
        options = {**_window(stride, padding=0), "DepthMultiplier": 1}
        return self.add("DEPTHWISE_CONV_2D", operands, made, ("DepthwiseConv2DOptions", options))

    def padded_depthwise(self, stride: int) -> str:
        _, rows, columns, channels = self.shape
        around = self.numbers([0, 0, 0, 1, 0, 1, 0, 0], 4, 2)
        padded = self.add("PAD", [self.last, around], (1, rows + 1, columns + 1, channels))
        operands = [padded, self.weights(1, 3, 3, channels), self.bias(channels)]
        made = (1, (rows - 2) // stride + 1, (columns - 2) // stride + 1, channels)
        options = {**_window(stride, padding=1), "DepthMultiplier": 1}
        return self.add("DEPTHWISE_CONV_2D", operands, made, ("DepthwiseConv2DOptions", options))

    def pool(self, kind: str) -> str:
        _, rows, columns, channels = self.shape
        made = (1, -(-rows // 2), -(-columns // 2), channels)
        options = {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3}
        return self.add(kind, [self.last], made, ("Pool2DOptions", options))

    def residual(self) -> str:
        before, channels = self.last, self.shape[3]
        self.convolution(4 * channels, 1)
        self.depthwise(1)
        self.convolution(channels, 1)
        return self.add("ADD", [before, self.last], self.shape, ("AddOptions", {}))

    def dense(self) -> str:
        before, (_, rows, columns, channels) = self.last, self.shape
        self.convolution(4, 3)
        joined = (1, rows, columns, channels + 4)
        return self.add("CONCATENATION", [before, self.last], joined, ("ConcatenationOptions", {"Axis": 3}))

    def classified(self) -> TfliteModel:
        channels = self.shape[3]
        self.add("MEAN", [self.last, self.numbers([1, 2], 2)], (1, channels), ("ReducerOptions", {"KeepDims": False}))
        self.add("FULLY_CONNECTED", [self.last, self.weights(7, channels), self.bias(7)], (1, 7))
        return self.network()

    def network(self) -> TfliteModel:
        return network(self.tensors, self.operators, ["input"], [self.last])


def _window(stride: int, padding: int) -> dict[str, int]:
    steps = {"StrideW": stride, "StrideH": stride, "DilationWFactor": 1, "DilationHFactor": 1}
    return {"Padding": padding, **steps}
