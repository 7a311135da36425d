"""Sums modulo 2^64 of the inputs of each element, from an operator's geometry alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onchip.ir.region import Range, Region
from onchip.ops.derive.geometry import Span
from onchip.simulate.parts import Integers, RegionValues

_ODD = np.uint64(0x9E37)


def ranges_of_axes(axes: int, regions: Sequence[Region], writes: Sequence[Sequence[Span]]) -> Region:
    """Return the range of each axis from the written regions; axes without a written dimension have one element."""
    ranges = {
        span.axis: each
        for region, spans in zip(regions, writes, strict=True)
        for each, span in zip(region, spans, strict=True)
        if span.axis is not None
    }
    return tuple(ranges.get(axis, (0, 1)) for axis in range(axes))


def spread(values: Integers, region: Region, spans: Sequence[Span]) -> Integers:
    """Return the values of axes as a tensor, repeated along its dimensions without an axis."""
    along = [span.axis for span in spans if span.axis is not None]
    others = tuple(axis for axis in range(values.ndim) if axis not in along)
    moved = values.squeeze(others).transpose([sorted(along).index(axis) for axis in along])
    sizes = iter(moved.shape)
    shaped = moved.reshape([1 if span.axis is None else next(sizes) for span in spans])
    return np.broadcast_to(shaped, [stop - start for start, stop in region]).copy()


def placed_sum(region: Region, operands: Sequence[tuple[RegionValues, Sequence[Span]]]) -> Integers:
    """Return for each element of the region a sum of its inputs in every operand, located by the spans.

    An element's sum does not depend on the region, because it uses only its own ranges.
    """
    total = np.zeros([stop - start for start, stop in region], np.uint64)
    for part, spans in operands:
        total = total * _ODD + _along_axes(_needed(region, part, spans), spans, len(region))
    return total


def _needed(region: Region, part: RegionValues, spans: Sequence[Span]) -> Integers:
    """Return per dimension the sum of the inputs of each position along its axis; one element without an axis."""
    ranges = [_ranges(span, region) for span in spans]
    lows = [min(low for low, _ in each) for each in ranges]
    values = part.window([(low, max(high for _, high in each)) for low, each in zip(lows, ranges, strict=True)])
    for dimension, (first, each) in enumerate(zip(lows, ranges, strict=True)):
        taken = [values.take(range(low - first, high - first), dimension) for low, high in each]
        sums = [one.sum(axis=dimension, keepdims=True, dtype=np.uint64) for one in taken]
        values = np.concatenate(sums, dimension)
    return values


def _ranges(span: Span, region: Region) -> list[Range]:
    if span.axis is None:
        return [(0, span.size)]
    firsts = (at // span.per * span.step + span.offset for at in range(*region[span.axis]))
    return [(first, first + span.extent) for first in firsts]


def _along_axes(values: Integers, spans: Sequence[Span], axes: int) -> Integers:
    """Return an operand with its dimensions in the order of the output's axes, without dimensions that have no axis."""
    place = {span.axis: at for at, span in enumerate(spans) if span.axis is not None}
    without = [at for at, span in enumerate(spans) if span.axis is None]
    moved = values.transpose([*(place[axis] for axis in sorted(place)), *without])
    return moved.reshape([values.shape[place[axis]] if axis in place else 1 for axis in range(axes)])
