"""Kinds whose elements come from other places: rows that are normalised, reductions, slices, pads, resized maps.

An element of the output depends on a range of each dimension of an operand, which follows from the element's place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from onchip.ir.operator import OF_ONE_AXIS, Operator
from onchip.ir.window import integer, integers
from onchip.ops.derive.geometry import Geometry, Span
from onchip.ops.registry.outline import Outline, Shape, whole

_MARGINS: Final = {"nearest": 1, "linear": 1, "cubic": 3}
"""By how many elements the source of a resized one may lie beside its place, however coordinates are rounded."""
_REACH_OF_PADDING: Final = {"constant": 0, "edge": 1, "reflect": 2, "symmetric": 2}
"""By mode, how far from its place an element of the padding is read, in lengths of the padding."""
_DEFAULT_AXES: Final = {"LayerNormalization": -1, "RMSNormalization": -1}
"""Where a file may leave it out; that of a softmax differs by ONNX's version."""
_CHANNELS: Final = 1


def _beside(outline: Outline, first: tuple[Span, ...]) -> Geometry | None:
    """The first operand lies along the output, all others are read whole by every tile."""
    if len(outline.operator.outputs) > 1 or not outline.axes:
        return None
    return outline.finish([first, *whole(outline.shapes()[1:])])


def _rows(outline: Outline) -> Geometry | None:
    """What is normalised begins with `axis` and is never cut; what stands before it is."""
    source, rank = outline.shapes()[0], len(outline.written)
    axis = _place(outline.operator, "axis", rank, _DEFAULT_AXES.get(outline.operator.kind))
    if source != outline.written or axis is None:
        return None
    outline.cut_along_output()
    return _uncut_from(outline, axis, axis + 1 if outline.operator.attributes.get(OF_ONE_AXIS) is True else None)


def _uncut_from(outline: Outline, axis: int, stop: int | None = None) -> Geometry | None:
    """Element by element along the axes before, and behind `stop`; those between are in every tile as a whole."""
    shape = outline.written
    cut = [at for at in range(len(shape)) if at < axis or (stop is not None and at >= stop)]
    along = tuple(Span(size, at if at in cut else None) for at, size in enumerate(shape))
    if len(outline.operator.outputs) > 1:
        return None
    outline.leave_whole([at for at in range(len(shape)) if at not in cut])
    return outline.finish([along, *whole(outline.shapes()[1:])], [along])


def _channels_normalised(outline: Outline) -> Geometry | None:
    """All pixels of a channel belong together; every channel, or group of them, is one by itself."""
    source = outline.shapes()[0]
    if source != outline.written or len(source) < 3:
        return None
    outline.cut_along_output()
    is_by_channel = outline.operator.kind == "InstanceNormalization"
    return _uncut_from(outline, _CHANNELS + 1 if is_by_channel else _CHANNELS)


def slice_of(operator: Operator, source: Shape, written: Shape) -> tuple[list[int], list[int]] | None:
    """Return along each axis of `source` the first element that a Slice leaves, and how far the next one is.

    None where its attributes do not say that, or say something else than its output.
    """
    starts = operator.attributes.get("starts")
    if not isinstance(starts, list) or len(source) != len(written):
        return None
    firsts, steps = [0] * len(source), [1] * len(source)
    axes = integers(operator, "axes", tuple(range(len(starts))))
    each = zip(
        axes, integers(operator, "starts", (0,) * len(axes)), integers(operator, "steps", (1,) * len(axes)), strict=True
    )
    for axis, start, step in each:
        at = axis % len(source)
        firsts[at], steps[at] = min(max(start + source[at] if start < 0 else start, 0), source[at]), step
    lasts = [first + (size - 1) * step for first, size, step in zip(firsts, written, steps, strict=True)]
    if min(steps, default=1) < 1 or any(last >= size for last, size in zip(lasts, source, strict=True)):
        return None
    return firsts, steps


def _slice(outline: Outline) -> Geometry | None:
    source = outline.shapes()[0]
    left = slice_of(outline.operator, source, outline.written)
    if left is None:
        return None
    firsts, steps = left
    outline.cut_along_output()
    spans = zip(source, steps, firsts, strict=True)
    return _beside(
        outline, tuple(Span(size, at, step=step, offset=first) for at, (size, step, first) in enumerate(spans))
    )


def _pad(outline: Outline) -> Geometry | None:
    """Constants around; what repeats its edge, or is mirrored there, reads so much more beside."""
    operator, source, written = outline.operator, outline.shapes()[0], outline.written
    rank = len(source)
    pads = integers(operator, "pads", (0,) * (2 * rank))
    if len(written) != rank:
        return None
    grown = [size + pads[at] + pads[rank + at] for at, size in enumerate(source)]
    if grown != list(written):
        return None
    outline.cut_along_output()
    reach = _REACH_OF_PADDING.get(str(operator.attributes.get("mode", "constant")))
    each = zip(source, pads[:rank], pads[rank:], strict=True)
    return _beside(outline, tuple(_padded(size, at, pads, reach) for at, (size, *pads) in enumerate(each)))


def _padded(size: int, axis: int, pads: Sequence[int], reach: int | None) -> Span:
    """Padding of n elements shows what lies at most `reach` times n farther in; without a reach, anything."""
    if pads == [0, 0]:
        return Span(size, axis)
    before, behind = (0 if reach is None else reach * max(pad, 0) for pad in pads)
    is_known = reach is not None and before + behind < size
    return Span(size, axis, offset=-pads[0] - behind, extent=1 + before + behind) if is_known else Span(size)


def _resize(outline: Outline) -> Geometry | None:
    operator, source, written = outline.operator, outline.shapes()[0], outline.written
    margin = _MARGINS.get(str(operator.attributes.get("mode", "nearest")))
    is_cropped = operator.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if margin is None or is_cropped or operator.attributes.get("antialias") or len(source) != len(written):
        return None
    outline.cut_along_output()
    return _beside(outline, tuple(_resized(size, written[at], at, margin) for at, size in enumerate(source)))


def _resized(size: int, written: int, axis: int, margin: int) -> Span:
    """By a whole factor up or down; by another, all of it is read."""
    if size == written:
        return Span(size, axis)
    if written % size == 0:
        return Span(size, axis, per=written // size, offset=-margin, extent=2 * margin + 1)
    if size % written == 0:
        factor = size // written
        return Span(size, axis, step=factor, offset=-margin, extent=factor + 2 * margin)
    return Span(size)


def _repeated(outline: Outline) -> Geometry | None:
    """Along a dimension that keeps its size each element is the one at its place; of others all may be read."""
    source, written = outline.shapes()[0], outline.written
    missing = len(written) - len(source)
    if missing < 0:
        return None
    outline.cut_along_output()
    spans = (Span(size, at + missing if size == written[at + missing] else None) for at, size in enumerate(source))
    return _beside(outline, tuple(spans))


def _gather(outline: Outline) -> Geometry | None:
    """The dimension that is picked from is read whole; the indices lie along the dimensions in its place."""
    shapes, written, operator = outline.shapes(), outline.written, outline.operator
    if len(shapes) < 2 or len(operator.outputs) > 1:
        return None
    first, second, *others = shapes
    fitting = [
        (is_second, axis)
        for is_second, data, indices in ((False, first, second), (True, second, first))
        if (axis := _place(operator, "axis", len(data), 0)) is not None
        and (*data[:axis], *indices, *data[axis + 1 :]) == written
    ]
    if len(fitting) != 1:  # a table that is a parameter stands behind the indices
        return None
    (is_second, axis), rank = fitting[0], len(first if fitting[0][0] else second)
    data = second if is_second else first
    outline.cut_along_output()
    places = [at if at < axis else at + rank - 1 for at in range(len(data))]
    picked = tuple(Span(size, None if at == axis else places[at]) for at, size in enumerate(data))
    named = tuple(Span(size, axis + at) for at, size in enumerate(first if is_second else second))
    return outline.finish([*((named, picked) if is_second else (picked, named)), *whole(others)])


def _blocks(outline: Outline) -> Geometry | None:
    """Pixels to channels or back: rows and columns of blocks; all channels of a pixel are read."""
    source, written = outline.shapes()[0], outline.written
    size = integer(outline.operator, "blocksize", 0)
    if size < 1 or len(source) != 4 or len(written) != 4:
        return None
    outline.cut_along_output()
    if outline.operator.kind == "DepthToSpace":
        pixels = [Span(source[at], at, per=size) for at in (2, 3)]
    else:
        pixels = [Span(source[at], at, step=size, extent=size) for at in (2, 3)]
    return _beside(outline, (Span(source[0], 0), Span(source[1]), *pixels))


def _place(operator: Operator, name: str, rank: int, default: int | None = None) -> int | None:
    """An axis that an attribute names, from 0 on; the default, or None, where there is no attribute."""
    axis = operator.attributes.get(name, default)
    return axis % rank if isinstance(axis, int) and rank and -rank <= axis < rank else None


PLACED: Final[Mapping[str, Callable[[Outline], Geometry | None]]] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"), _rows),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization"), _channels_normalised),
    "Slice": _slice,
    "Pad": _pad,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Expand", "Tile"), _repeated),
    "Gather": _gather,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
}
"""By kind its geometry, None where its shapes or attributes say too little."""
