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
