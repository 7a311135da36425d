"""Operators that spread or pick pixels at a steady pace, in integers: ConvTranspose, Slice, Pad."""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

import numpy as np

from onchip.ir.graph import Graph
from onchip.ir.operator import VIEWS, Operator
from onchip.ir.region import Range, whole_region
from onchip.ir.window import Shape, Window, integer, integers
from onchip.ops.views.views import paces_of
from onchip.simulate.call import Call
from onchip.simulate.modular import limbs, masked, product_of_limbs
from onchip.simulate.parts import Integers

_Taken: TypeAlias = tuple[Range, slice] | None
"""Along one axis: the input's pixels that meet a tap, and where in the region their products belong."""


def keeps_a_pace(operator: Operator, graph: Graph) -> bool:
    """Whether `paced` computes the operator."""
    if not operator.inputs or len(operator.outputs) > 1 or not VIEWS.isdisjoint(operator.attributes):
        return False
    source, written = (graph.tensor[name].shape or () for name in (operator.inputs[0], operator.outputs[0]))
    if operator.kind != "ConvTranspose":
        return paces_of(operator, source, written) is not None
    if len(operator.inputs) != 1 or not operator.parameters:  # another input stands between the map and the weight
        return False
    weight = graph.tensor[operator.parameters[0]].shape or ()
    groups = integer(operator, "group", 1)
    return (
        len(source) == len(weight) == len(written) > 2
        and weight[0] == source[1]
        and weight[1] * groups == written[1]
        and source[0] == written[0]
        and source[1] % groups == 0
    )


def paced(call: Call) -> Integers:
    """The region's values, before any fused activation."""
    values = _transposed(call) if call.operator.kind == "ConvTranspose" else _viewed(call)
    return masked(values, call.bits)


def _viewed(call: Call) -> Integers:
    source = call.part(0)
    paces = paces_of(call.operator, source.shape, call.written) or ()
    seen = [pace.seen(each) for pace, each in zip(paces, call.region, strict=True)]
    window = source.window(seen)
    for axis, (pace, (start, stop), (first, _)) in enumerate(zip(paces, call.region, seen, strict=True)):
        places = (np.arange(start, stop) * pace.step + pace.first) // pace.repeat - first
        window = np.take(window, places, axis=axis)
    return window


def _transposed(call: Call) -> Integers:
    """Output pixel i * stride - pad + k * dilation adds the product of input pixel i and tap k."""
    source, weight = call.part(0), call.part(1)
    batch, channels, *pixels = call.region
    groups = integer(call.operator, "group", 1)
    depth, columns = source.shape[1] // groups, weight.shape[1]
    first, last = channels[0] // columns, (channels[1] - 1) // columns + 1
    read, taps_of = (first * depth, last * depth), whole_region(weight.shape[2:])
    windows = _windows(call.operator, weight.shape[2:])
    columns_read = (0, columns) if groups > 1 else channels
    wide = columns_read[1] - columns_read[0]
    kernel = weight.window((read, columns_read, *taps_of)).reshape(last - first, depth, wide, *weight.shape[2:])
    by_tap = np.ascontiguousarray(np.moveaxis(kernel, (0, 2, 1), (-3, -2, -1)))
    kernel_limbs = limbs(by_tap, weight.bits)
    sizes = [stop - start for start, stop in pixels]
    total = np.zeros((batch[1] - batch[0], last - first, wide, *sizes), np.uint64)
    for taps in product(*map(range, weight.shape[2:])):
        taken = [_taken(*each) for each in zip(windows, taps, pixels, source.shape[2:], strict=True)]
        met = [one for one in taken if one is not None]
        if len(met) < len(taken):
            continue
        image = source.window((batch, read, *(seen for seen, _ in met)))
        image_limbs = limbs(image.reshape(image.shape[0], last - first, depth, -1), source.bits)
        found = product_of_limbs([each[taps] for each in kernel_limbs], image_limbs)
        total[(slice(None),) * 3 + tuple(place for _, place in met)] += found.reshape(
            *found.shape[:3], *image.shape[2:]
        )
    values = total.reshape(total.shape[0], -1, *sizes)
    skipped = channels[0] - first * columns if groups > 1 else 0
    return call.with_further_operands(values[:, skipped : skipped + channels[1] - channels[0]], 2)


def _windows(operator: Operator, kernel: Shape) -> tuple[Window, ...]:
    """Sizes matter only where padding is to be found out, which a transposed convolution's is not."""
    strides = integers(operator, "strides", (1,) * len(kernel))
    dilations = integers(operator, "dilations", (1,) * len(kernel))
    pads = integers(operator, "pads", (0,) * (2 * len(kernel)))
    return tuple(Window(*each) for each in zip(kernel, strides, dilations, pads, strict=False))


def _taken(window: Window, tap: int, region: Range, size: int) -> _Taken:
    start, stop = region
    offset = window.pad - tap * window.dilation
    first = max(-(-(start + offset) // window.stride), 0)
    last = min((stop - 1 + offset) // window.stride, size - 1)
    if first > last:
        return None
    place = first * window.stride - offset - start
    return (first, last + 1), slice(place, last * window.stride - offset - start + 1, window.stride)
