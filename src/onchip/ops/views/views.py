"""Operators that take elements of their input at a regular stride, with zeros around them: Slice, Pad, Resize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onchip.ir.operator import VIEWS, Operator
from onchip.ir.region import Range, Region
from onchip.ir.window import Shape, integers

RESIZES: Final = frozenset({"Resize", "Upsample"})


@dataclass(frozen=True, slots=True)
class Pace:
    """The stride along one dimension: element p is the input's element p * step + first, or zero outside the input.

    If the input's elements are repeated, each `repeat` times in a row, it is the element p // repeat.
    """

    first: int
    step: int = 1
    repeat: int = 1

    def seen(self, wanted: Range) -> Range:
        """Return the range of input positions that a range of outputs needs; it may exceed the input."""
        start, stop = wanted
        first, last = (one * self.step + self.first for one in (start, stop - 1))
        return first // self.repeat, last // self.repeat + 1


def paces_of(operator: Operator, source: Shape, written: Shape) -> tuple[Pace, ...] | None:
    """Return the pace of each dimension; None for another kind, or if the attributes do not determine it."""
    if operator.kind == "Pad":
        return _padded(operator, source, written)
    if operator.kind in RESIZES:
        return _repeated(operator, source, written)
    return _sliced(operator, source, written) if operator.kind == "Slice" else None


def seen_region(paces: Sequence[Pace], wanted: Region, source: Shape) -> Region:
    """Return the region of the input that a region of the output needs, clipped to the input."""
    spans = (pace.seen(each) for pace, each in zip(paces, wanted, strict=True))
    return tuple((max(start, 0), min(stop, size)) for (start, stop), size in zip(spans, source, strict=True))


def _repeated(operator: Operator, source: Shape, written: Shape) -> tuple[Pace, ...] | None:
    """Return the paces of a nearest-neighbour resize by whole factors; None otherwise."""
    is_grown = len(source) == len(written) and all(
        size and after % size == 0 for size, after in zip(source, written, strict=False)
    )
    if not is_grown or not takes_the_nearest(operator):
        return None
    return tuple(Pace(0, repeat=after // size) for size, after in zip(source, written, strict=True))


def takes_the_nearest(operator: Operator) -> bool:
    """Return True if a resize by whole factors copies each input element to the outputs in its part of the axis."""
    attributes = operator.attributes
    if operator.kind == "Upsample":
        return attributes.get("mode", "nearest") == "nearest"
    rounding = attributes.get("nearest_mode", "round_prefer_floor")
    match attributes.get("coordinate_transformation_mode", "half_pixel"):
        case "half_pixel":
            is_own = rounding in ("round_prefer_floor", "round_prefer_ceil")
        case "asymmetric":
            is_own = rounding == "floor"
        case _:
            is_own = False
    return is_own and attributes.get("mode") == "nearest" and VIEWS.isdisjoint(attributes)


def _padded(operator: Operator, source: Shape, written: Shape) -> tuple[Pace, ...] | None:
    rank = len(source)
    pads = operator.attributes.get("pads")
    before = integers(operator, "pads", (0,) * (2 * rank))[:rank]
    is_zero = not operator.attributes.get("value") and operator.attributes.get("mode", "constant") == "constant"
    if not isinstance(pads, list) or len(pads) != 2 * rank or len(written) != rank or not is_zero:
        return None
    return tuple(Pace(-pad) for pad in before)


def _sliced(operator: Operator, source: Shape, written: Shape) -> tuple[Pace, ...] | None:
    listed = operator.attributes.get("starts")
    if not isinstance(listed, list) or len(source) != len(written):
        return None
    count = len(listed)
    axes = integers(operator, "axes", tuple(range(count)))
    starts, steps = integers(operator, "starts", (0,) * count), integers(operator, "steps", (1,) * count)
    paces = [Pace(0)] * len(source)
    for axis, start, step in zip(axes, starts, steps, strict=True):
        if step < 1:
            return None
        size = source[axis]
        paces[axis] = Pace(min(max(start + size if start < 0 else start, 0), size), step)
    lasts = (pace.first + (count - 1) * pace.step for pace, count in zip(paces, written, strict=True))
    return tuple(paces) if all(last < size for last, size in zip(lasts, source, strict=True)) else None
