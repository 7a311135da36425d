"""Convolutions, fully connected layers and pools: channels last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from onchip.backends.c.project.calls import Argument, KernelCall, Record, Table, TensorOperand, table
from onchip.backends.c.tflite.node import LiteNode
from onchip.backends.c.tflite.quantisation import factors

_SAME = 0
_BIASES = {"float32": "float32", "int8": "int32", "int16": "int64"}
_SUFFIXES = {"float32": "f32", "int8": "s8", "int16": "s16"}


def convolution(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a convolution, whose weights are output channels, rows, columns, input channels."""
    outputs, rows, columns, inputs = node.shape(1)
    groups = node.shape(0)[3] // inputs
    steps = (outputs // groups * rows * columns * inputs, rows * columns * inputs, 1, columns * inputs, inputs)
    window = _window(node, (groups, inputs, outputs // groups), (rows, columns), steps)
    yield _convolution_call(node, "convolution", window, (0, 1, 2))


def depthwise(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a convolution of each channel alone, whose weights are 1, rows, columns, output channels."""
    _, rows, columns, outputs = node.shape(1)
    groups = node.shape(0)[3]
    steps = (outputs // groups, 1, 0, columns * outputs, outputs)
    window = _window(node, (groups, 1, outputs // groups), (rows, columns), steps)
    yield _convolution_call(node, "convolution", window, (0, 1, 2))


def transposed_convolution(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a transposed convolution, which is told its output's shape first."""
    outputs, rows, columns, inputs = node.shape(1)
    steps = (0, rows * columns * inputs, 1, columns * inputs, inputs)
    made = node.written_shape()
    axes = [
        _axis(
            (node.shape(2)[at], made[at], kernel, stride, 1),
            _pad(node, -(-made[at] // stride), kernel, stride, made[at]),
        )
        for at, kernel, stride in ((1, rows, node.option("stride_h", 1)), (2, columns, node.option("stride_w", 1)))
    ]
    window = _window_record(node.shape(2), made, (1, inputs, outputs), axes, steps)
    yield _convolution_call(node, "transposed_convolution", window, (2, 1, 3))


def fully_connected(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a product with weights that are outputs, inputs: a convolution of maps of one element."""
    outputs, inputs = node.shape(1)
    if node.option("weights_format"):
        node.refuse("with shuffled weights")
    batch = prod(node.shape(0)) // inputs
    one = _axis((1, 1, 1, 1, 1), 0)
    shapes = ((batch, 1, 1, inputs), (batch, 1, 1, outputs))
    window = _window_record(*shapes, (1, inputs, outputs), [one, one], (0, inputs, 1, 0, 0))
    yield _convolution_call(node, "convolution", window, (0, 1, 2))


def _convolution_call(node: LiteNode, name: str, window: Record, places: tuple[int, int, int]) -> KernelCall:
    """The call with the input, the weight and the bias at these places."""
    element = node.element(places[0])
    if element not in _BIASES:
        node.refuse(f"of {element}")
    function = f"{name}_{_SUFFIXES[element]}"
    bias: TensorOperand | Table | None = None
    if node.has(places[2]):
        bias = _bias(node, places[2], _BIASES[element])
    if element == "float32":
        operands: tuple[Argument, ...] = (node.read(places[0], element), node.read(places[1], element), bias)
        return KernelCall(function, (window, *operands, node.written(element), *node.ends()))
    operands = (node.read(places[0], element), node.read(places[1], "int8"), bias, node.written(element))
    return KernelCall(function, (window, _requantisation(node, places), *operands))


def _bias(node: LiteNode, place: int, expected: str) -> TensorOperand | Table:
    """The bias, a constant one as wide as the kernel's sums."""
    found = node.read(place, node.element(place))
    if isinstance(found, Table) and node.element(place) in ("int16", "int32", "int64") and expected != "float32":
        return table(found.name, found.values, expected)
    return node.read(place, expected)


def _requantisation(node: LiteNode, places: tuple[int, int, int]) -> Record:
    read, weight, written = node.quantisation(places[0]), node.quantisation(places[1]), node.written_quantisation()
    if len(weight.scales) == 1 and node.kind == "FULLY_CONNECTED":
        joint = float(np.float32(read.scale) * np.float32(weight.scale))
        real = [joint / written.scale]
    else:
        real = [read.scale * one / written.scale for one in weight.scales]
    multipliers, shifts = factors(real)
    lowest, highest = node.ends()
    return Record(
        "requantisation",
        (
            ("input_zero", read.zero),
            ("weight_zero", weight.zero),
            ("output_zero", written.zero),
            ("lowest", lowest),
            ("highest", highest),
            ("every_channel", int(len(real) > 1)),
            ("multiplier", table(f"{node.operator} multiplier", multipliers, "int32")),
            ("shift", table(f"{node.operator} shift", shifts, "int32")),
        ),
    )


def pool(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a mean or a maximum over a window."""
    suffix = node.suffix()
    channels = node.shape(0)[3]
    kernel = (node.option("filter_height", 1), node.option("filter_width", 1))
    window = _window(node, (channels, 1, 1), kernel, (0, 0, 0, 0, 0))
    operands = (node.read(0, node.element()), node.written(node.element()), *node.ends())
    if node.kind == "MAX_POOL_2D":
        yield KernelCall(f"max_pool_{suffix}", (window, *operands))
    else:
        if suffix == "s8" and node.quantisation(0) != node.written_quantisation():
            node.refuse("between two scales")
        beside = ((0, 0, 0, 0),) if suffix == "f32" else ()
        yield KernelCall(f"average_pool_{suffix}", (window, *beside, *operands))


def _window(node: LiteNode, channels: tuple[int, int, int], kernel: tuple[int, int], weight: Sequence[int]) -> Record:
    shape, made = node.shape(0), node.written_shape()
    axes = []
    for at, letter in ((1, "h"), (2, "w")):
        stride, dilation = node.option(f"stride_{letter}", 1), max(node.option(f"dilation_{letter}_factor", 1), 1)
        reach = (kernel[at - 1] - 1) * dilation + 1
        pad = _pad(node, made[at], reach, stride, shape[at])
        axes.append(_axis((shape[at], made[at], kernel[at - 1], stride, dilation), pad))
    return _window_record(shape, made, channels, axes, weight)


def _pad(node: LiteNode, windows: int, reach: int, stride: int, size: int) -> int:
    """How many elements before an axis of `size` its first window begins."""
    return max(0, (windows - 1) * stride + reach - size) // 2 if node.option("padding") == _SAME else 0


def _axis(sizes: tuple[int, int, int, int, int], pad: int) -> Record:
    names = ("input", "output", "kernel", "stride", "dilation")
    return Record("axis", (*zip(names, sizes, strict=True), ("pad", pad)))


def _window_record(
    shape: Sequence[int],
    made: Sequence[int],
    channels: tuple[int, int, int],
    axes: Sequence[Record],
    weight: Sequence[int],
) -> Record:
    return Record(
        "window",
        (
            ("batch", shape[0]),
            *zip(("groups", "inputs", "outputs"), channels, strict=True),
            *zip(("rows", "columns"), axes, strict=True),
            ("input", _maps(shape)),
            ("output", _maps(made)),
            ("weight", Record("weight_steps", tuple(zip(_WEIGHT_AXES, weight, strict=True)))),
        ),
    )


_WEIGHT_AXES = ("group", "output", "input", "row", "column")


def _maps(shape: Sequence[int]) -> Record:
    _, rows, columns, channels = shape
    steps = (("batch", rows * columns * channels), ("channel", 1), ("row", columns * channels), ("column", channels))
    return Record("map_steps", steps)
