"""A transposed convolution as one loop nest over the pixels of its input."""

from __future__ import annotations

from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ops.derive.fusable import FeatureMap
from onchip.ops.derive.layers_of import shapes_of
from onchip.ops.windows.sliding_windows import NoLayerError, transposed_convolution


def nest_of_transposed(graph: Graph, operator: Operator, part: Layer, maps: tuple[FeatureMap, FeatureMap]) -> Layer:
    """Return the nest of stride 1, with the outputs of one input pixel as channels; `maps` are input and output.

    `part` is the nest of some of these outputs. Along an axis, the outputs from s * q on need the inputs from q +
    ceil((pad - kernel + 1) / s) on. Raises NoLayerError if the operator has no rows and columns, if its output is not a
    multiple of its input in size, or if it crops more than its kernel.
    """
    source, high = maps
    shapes = shapes_of(graph, operator)
    if len(shapes[0]) != 4:
        raise NoLayerError("it is no map of rows and columns")
    entry = transposed_convolution(operator, shapes)
    down, across = (entry.span(one, None) for one in entry.operands[1][2:])
    if (high.rows, high.columns) != (source.rows * down.per, source.columns * across.per):
        raise NoLayerError(f"its output is not {down.per} x {across.per} times as large as its input")
    if max(down.offset, across.offset) > 0:
        raise NoLayerError("it cuts off more than its kernel")
    before, behind = (-down.offset, -across.offset), (down.extent - 1 + down.offset, across.extent - 1 + across.offset)
    return replace(
        part,
        k=part.k * down.per * across.per,
        p=source.rows,
        q=source.columns,
        r=down.extent,
        s=across.extent,
        padding=(*before, *behind),
    )
