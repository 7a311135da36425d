"""Copies of a map's elements at arbitrary strides: the kind `contiguous` of exported programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from onchip.ir.window import integer, integers
from onchip.ops.derive.geometry import Geometry
from onchip.ops.pointwise.placed_kinds import placed
from onchip.ops.registry.entry import AffineDimension
from onchip.ops.registry.outline import Outline, Shape


def _strided(outline: Outline) -> Geometry | None:
    """Return the geometry: element (i, j, ...) is the stored element number offset + i * stride + j * stride ..."""
    source, written, operator = outline.shape(outline.read_names[0]), outline.written, outline.operator
    strides = integers(operator, "strides", (-1,) * len(written))
    if len(outline.read_names) > 1 or len(operator.outputs) > 1 or min(strides, default=0) < 0:
        return None
    offset, read = integer(operator, "offset", 0), list[AffineDimension]()
    along = [_dimension(stride, source) for stride in strides]
    if any(None is one and stride and size > 1 for one, stride, size in zip(along, strides, written, strict=True)):
        return None
    for at, size in enumerate(source):
        pace = prod(source[at + 1 :])
        first = offset // pace % size
        steps = {axis: stride // pace for axis, stride in enumerate(strides) if along[axis] == at and written[axis] > 1}
        if first + sum((written[axis] - 1) * step for axis, step in steps.items()) >= size:
            return None
        is_known = len(steps) == 1
        read.append(AffineDimension(size, {f"P{axis}": step for axis, step in steps.items() if is_known}, first))
    return outline.cut(placed(outline, tuple(read)), shapes=outline.stored_shapes())


def _dimension(stride: int, source: Shape) -> int | None:
    """Return the only dimension of the map along which a stride of that many elements moves, or None."""
    paces: Sequence[int] = [prod(source[at + 1 :]) for at in range(len(source))]
    fitting = [at for at, pace in enumerate(paces) if stride % pace == 0 and pace <= stride < pace * source[at]]
    return fitting[0] if fitting else None


STRIDED: Final[Mapping[str, Callable[[Outline], Geometry | None]]] = {"contiguous": _strided}
"""Geometry functions by kind; they return None if the attributes do not locate the elements."""
