"""The sizes that ONNX's Slice leaves of each axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import onnx
from onnx import numpy_helper
from onnx.helper import get_attribute_value

from onchip.formats.onnx.constants import Constants

_OPERANDS: Final = ("starts", "ends", "axes", "steps")


@dataclass(frozen=True, slots=True)
class AxisRange:
    """A range of one axis: places from `start` until `end`, counted from the axis's end if negative."""

    axis: int
    start: int
    end: int
    step: int

    def length(self, size: int) -> int:
        """Return the number of elements that the range has of an axis of this size."""
        start, end = (place + size if place < 0 else place for place in (self.start, self.end))
        if not size:
            return 0
        if self.step > 0:
            start, end = min(max(start, 0), size), min(max(end, 0), size)
        else:
            start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
        return max(0, -((start - end) // self.step))

    def greatest_length(self, size: int) -> int:
        """Return the greatest length over all axes of at most this size.

        Between the sizes at which a place enters the axis, the length grows with the size or falls with it.
        """
        turns = (abs(self.start), abs(self.end), abs(self.end) - 1)
        return max(self.length(each) for each in (size, *turns) if 0 <= each <= size)


def ranges_of(node: onnx.NodeProto, rank: int, constants: Constants) -> list[AxisRange] | None:
    """Return the ranges of a Slice; None if they are not constants, or wrong."""
    given = _attributes(node) if len(node.input) == 1 else _values(node, constants)
    if given is None or "starts" not in given or "ends" not in given:
        return None
    starts, ends = given["starts"], given["ends"]
    axes, steps = given.get("axes", list(range(len(starts)))), given.get("steps", [1] * len(starts))
    if not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    if 0 in steps or any(not -rank <= axis < rank for axis in axes):
        return None
    return [AxisRange(axis % rank, *each) for axis, *each in zip(axes, starts, ends, steps, strict=True)]


def _attributes(node: onnx.NodeProto) -> Mapping[str, list[int]]:
    return {one.name: list(get_attribute_value(one)) for one in node.attribute if one.name in _OPERANDS}


def _values(node: onnx.NodeProto, constants: Constants) -> Mapping[str, list[int]] | None:
    found = {}
    for name, operand in zip(_OPERANDS, node.input[1:], strict=False):
        value = constants.value(operand) if operand else None
        if operand and value is None:
            return None
        if value is not None:
            found[name] = [int(number) for number in numpy_helper.to_array(value).reshape(-1)]
    return found
