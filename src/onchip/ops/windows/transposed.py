"""A transposed convolution as one loop nest over the pixels of its input."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.window import integers
from onchip.ops.derive.fusable import FeatureMap
from onchip.ops.views.fusable_views import shape_of
from onchip.ops.windows.sliding_windows import NoLayerError, weight_place


def nest_of_transposed(graph: Graph, operator: Operator, part: Layer, maps: tuple[FeatureMap, FeatureMap]) -> Layer:
    """Of stride 1, with the outputs that lie over an input as channels; `maps` are its input and its output.

    `part` is the nest of some of these outputs. Along an axis, the outputs from s * q on see the inputs from
    q + ceil((pad - kernel + 1) / s) on. Raises NoLayerError where it has no rows and columns, where its output is not
    as many times as large as its input, or where it cuts off more than its kernel.
    """
    source, high = maps
    if len(shape_of(graph, operator.outputs[0])) != 4:
        raise NoLayerError("it is no map of rows and columns")
    stride, pads = integers(operator, "strides", (1, 1)), integers(operator, "pads", (0, 0, 0, 0))
    if (high.rows, high.columns) != (source.rows * stride[0], source.columns * stride[1]):
        raise NoLayerError(f"its output is not {stride[0]} x {stride[1]} times as large as its input")
    shapes = [shape_of(graph, name) for name in (operator.outputs[0], *operator.inputs, *operator.parameters)]
    kernel = integers(operator, "kernel_shape", shapes[weight_place(shapes)][2:])
    before = [(size - 1 - pad) // step for size, pad, step in zip(kernel, pads, stride, strict=False)]
    behind = [(step - 1 + pad) // step for pad, step in zip(pads, stride, strict=False)]
    if min(before) < 0:
        raise NoLayerError("it cuts off more than its kernel")
    return replace(
        part,
        k=part.k * prod(stride),
        p=source.rows,
        q=source.columns,
        r=before[0] + behind[0] + 1,
        s=before[1] + behind[1] + 1,
        padding=(before[0], before[1], behind[0], behind[1]),
    )
