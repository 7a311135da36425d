"""Kinds that join operands or take one apart, along one axis: Concat and Split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from onchip.ir.window import integer
from onchip.ops.derive.geometry import Geometry, Span, TileAxis
from onchip.ops.registry.outline import Outline, Shape, whole


def _concat(outline: Outline) -> Geometry | None:
    """Inputs one after the other, cut anywhere; constants may stand between them."""
    seen, count, written = outline.shapes(), len(outline.operator.inputs), outline.written
    if (axis := _axis(outline, written)) is None:
        return None
    if _make_up(written, seen[:count], axis):
        offsets = [sum(part[axis] for part in seen[:at]) for at in range(count)]
        reads = [_along(part, axis, -offset) for part, offset in zip(seen[:count], offsets, strict=True)]
        outline.cut_along_output()
        return outline.finish([*reads, *whole(seen[count:])])
    if not _make_up(written, seen, axis):
        return None
    outline.cut_along_output()
    outline.leave_whole([axis])
    return outline.finish([_across(part, axis) for part in seen], [_across(written, axis)])


def _split(outline: Outline) -> Geometry | None:
    """Cut along the dimensions that it does not split."""
    source, *others = outline.shapes()
    parts = [outline.shape(name) for name in outline.operator.outputs]
    axis = _axis(outline, source)
    if axis is None or not _make_up(source, parts, axis):
        return None
    outline.axes = [TileAxis(1 if index == axis else size) for index, size in enumerate(source)]
    return outline.finish([_across(source, axis), *whole(others)], [_across(part, axis) for part in parts])


def _axis(outline: Outline, joined: Shape) -> int | None:
    return integer(outline.operator, "axis", 0) % len(joined) if joined else None


def _make_up(joined: Shape, parts: Sequence[Shape], axis: int) -> bool:
    """Whether the parts, one after the other along the axis, are as large as what is joined."""
    if {len(part) for part in parts} != {len(joined)}:
        return False
    alike = {(*part[:axis], *part[axis + 1 :]) for part in parts} == {(*joined[:axis], *joined[axis + 1 :])}
    return alike and sum(part[axis] for part in parts) == joined[axis]


def _along(part: Shape, axis: int, offset: int) -> tuple[Span, ...]:
    return tuple(Span(size, at, offset=offset if at == axis else 0) for at, size in enumerate(part))


def _across(part: Shape, axis: int) -> tuple[Span, ...]:
    """All of the axis, in every tile."""
    return tuple(Span(size, None if at == axis else at) for at, size in enumerate(part))


JOINED: Final[Mapping[str, Callable[[Outline], Geometry | None]]] = {
    "Concat": _concat,
    "CONCATENATION": _concat,
    "Split": _split,
}
"""By kind its geometry; a CONCATENATION of TFLite goes through views that turn axes."""
