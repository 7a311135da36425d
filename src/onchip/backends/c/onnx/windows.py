"""Convolutions and pools: channels first, one or two axes of space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from onchip.backends.c.onnx.node import NodeInC
from onchip.backends.c.project.calls import KernelCall, Record
from onchip.formats.onnx.specification import same_pads

EVERYTHING = (-inf, inf)


@dataclass(frozen=True, slots=True)
class _Axis:
    """A window along one axis of space."""

    input: int
    output: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    pad_behind: int

    def record(self) -> Record:
        names = ("input", "output", "kernel", "stride", "dilation", "pad")
        return Record("axis", tuple((name, getattr(self, name)) for name in names))


def convolution(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a convolution."""
    rows, columns = _axes(node, node.shape(1)[2:])
    groups = node.whole("group", 1)
    outputs, inputs = node.shape(1)[0] // groups, node.shape(1)[1]
    area = rows.kernel * columns.kernel
    weight = {"group": outputs * inputs * area, "output": inputs * area, "input": area, "row": columns.kernel}
    window = _window(node, (groups, inputs, outputs), (rows, columns), weight)
    bias = node.read_if_there(2)
    yield KernelCall("convolution_f32", (window, node.read(0), node.read(1), bias, node.written(), *EVERYTHING))


def transposed_convolution(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a transposed convolution; its pads are cut off the output."""
    if node.text("auto_pad", "NOTSET") != "NOTSET" or node.wholes("output_shape", ()):
        node.refuse("with pads that follow from its output")
    rows, columns = _axes(node, node.shape(1)[2:])
    groups = node.whole("group", 1)
    inputs, outputs = node.shape(1)[0] // groups, node.shape(1)[1]
    area = rows.kernel * columns.kernel
    weight = {"group": inputs * outputs * area, "output": area, "input": outputs * area, "row": columns.kernel}
    window = _window(node, (groups, inputs, outputs), (rows, columns), weight)
    bias = node.read_if_there(2)
    arguments = (window, node.read(0), node.read(1), bias, node.written(), *EVERYTHING)
    yield KernelCall("transposed_convolution_f32", arguments)


def max_pool(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a maximum over a window; raises GraphError where its place is wanted too."""
    if len(node.node.output) > 1 and node.node.output[1]:
        node.refuse("with indices")
    axes = _axes(node, node.wholes("kernel_shape", ()))
    yield KernelCall("max_pool_f32", (_pool_window(node, axes), node.read(0), node.written(), *EVERYTHING))


def average_pool(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a mean over a window, of which pads count only if that is said."""
    axes = _axes(node, node.wholes("kernel_shape", ()))
    counts_pads = bool(node.whole("count_include_pad", 0))
    beside = tuple(pad if counts_pads else 0 for one in axes for pad in (one.pad, one.pad_behind))
    window = _pool_window(node, axes)
    yield KernelCall("average_pool_f32", (window, beside, node.read(0), node.written(), *EVERYTHING))


def _axes(node: NodeInC, kernel: Sequence[int]) -> tuple[_Axis, _Axis]:
    """The rows' and the columns'; one row where there is one axis of space alone."""
    space, made = node.shape(0)[2:], node.written_shape()[2:]
    if len(space) not in (1, 2):
        node.refuse(f"of {len(space)} axes of space")
    strides = node.wholes("strides", [1] * len(space))
    dilations = node.wholes("dilations", [1] * len(space))
    found = [_Axis(1, 1, 1, 1, 1, 0, 0)] * (2 - len(space))
    for at, size in enumerate(space):
        before, behind = _pads(
            node, at, _Axis(size, made[at], kernel[at], strides[at], dilations[at], 0, 0), len(space)
        )
        found.append(_Axis(size, made[at], kernel[at], strides[at], dilations[at], before, behind))
    return found[0], found[1]


def _pads(node: NodeInC, at: int, axis: _Axis, axes: int) -> tuple[int, int]:
    """Return the pads before and behind one axis of the input."""
    padding, is_convolution = node.text("auto_pad", "NOTSET"), "Pool" not in node.kind
    if padding == "VALID":
        return 0, 0
    if padding in ("SAME_UPPER", "SAME_LOWER"):
        taps = (axis.kernel - 1) * axis.dilation + 1 if is_convolution else axis.kernel
        return same_pads(axis.input, axis.stride, taps, padding, is_convolution=is_convolution)
    pads = node.wholes("pads", [0] * 2 * axes)
    return pads[at], pads[axes + at]


def _pool_window(node: NodeInC, axes: tuple[_Axis, _Axis]) -> Record:
    return _window(node, (node.shape(0)[1], 1, 1), axes, {})


def _window(node: NodeInC, channels: tuple[int, int, int], axes: tuple[_Axis, _Axis], weight: dict[str, int]) -> Record:
    rows, columns = axes
    groups, inputs, outputs = channels
    batch = node.shape(0)[0]
    return Record(
        "window",
        (
            ("batch", batch),
            ("groups", groups),
            ("inputs", inputs),
            ("outputs", outputs),
            ("rows", rows.record()),
            ("columns", columns.record()),
            ("input", _maps(groups * inputs, rows.input, columns.input)),
            ("output", _maps(groups * outputs, rows.output, columns.output)),
            ("weight", Record("weight_steps", (*weight.items(), ("column", 1)))),
        ),
    )


def _maps(channels: int, rows: int, columns: int) -> Record:
    steps = {"batch": channels * rows * columns, "channel": rows * columns, "row": columns, "column": 1}
    return Record("map_steps", tuple(steps.items()))


def global_pool(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a mean or a maximum over each whole map."""
    batch, channels, *space = node.shape(0)
    size = 1
    for one in space:
        size *= one
    row, whole = _Axis(1, 1, 1, 1, 1, 0, 0), _Axis(size, 1, size, 1, 1, 0, 0)
    fields = (
        ("batch", batch),
        ("groups", channels),
        ("inputs", 1),
        ("outputs", 1),
        ("rows", row.record()),
        ("columns", whole.record()),
        ("input", _maps(channels, 1, size)),
        ("output", _maps(channels, 1, 1)),
    )
    window = Record("window", fields)
    if node.kind == "GlobalMaxPool":
        yield KernelCall("max_pool_f32", (window, node.read(0), node.written(), *EVERYTHING))
    else:
        yield KernelCall("average_pool_f32", (window, (0, 0, 0, 0), node.read(0), node.written(), *EVERYTHING))
