"""Operators that compute each element or each row alone, and strided copies.

They have no loop nest. An element of the output depends on a range of each dimension of an operand, which follows from
the element's position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Final, TypeAlias

from onchip.ir.operator import OF_ONE_AXIS, Operator
from onchip.ir.window import Shape, integer, integers
from onchip.ops.slicing import AffineDimension, Geometry, OperatorEntry, Outline, along, lone_loops, unknown
from onchip.ops.views import moves_channels, paces_of

_MARGINS: Final = {"nearest": 1, "linear": 1, "cubic": 3}
"""Most elements by which a resize's source element may be off its position, under any rounding of coordinates."""
_REACH_OF_PADDING: Final = {"constant": 0, "edge": 1, "reflect": 2, "symmetric": 2}
"""Distance from its position at which an element of the padding is read, in lengths of the padding, by mode."""
_DEFAULT_AXES: Final = {"LayerNormalization": -1, "RMSNormalization": -1}
"""Default axis of kinds whose file may omit it; a softmax's default depends on the version of ONNX."""
_CHANNELS: Final = 1
_Dimensions = tuple[AffineDimension, ...]


def placed(
    outline: Outline,
    first: _Dimensions,
    write: _Dimensions | None = None,
    loops: Mapping[str, int] | None = None,
    uncut: Sequence[int] = (),
) -> OperatorEntry:
    """Return an entry whose first operand has the dimensions `first`; every slice reads the other operands whole.

    Without `write`, each dimension of the output has a loop; the loops of the dimensions `uncut` are never cut.
    """
    operands = {0: write or along(outline.written), 1: first}
    operands |= {at: unknown(shape) for at, shape in enumerate(outline.shapes()[1:], 2)}
    return OperatorEntry({**lone_loops(operands), **(loops or {})}, operands, uncut=frozenset(f"P{at}" for at in uncut))


def _rows(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a normalisation from `axis` on, whose normalised dimensions are never cut."""
    operator, rank = outline.operator, len(outline.written)
    axis = _place(operator, "axis", rank, _DEFAULT_AXES.get(operator.kind))
    if outline.shapes()[0] != outline.written or axis is None:
        return None
    stop = axis + 1 if operator.attributes.get(OF_ONE_AXIS) is True else rank
    return placed(outline, along(outline.written), uncut=range(axis, stop))


def _channels_normalised(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a normalisation over all pixels of a channel, or of a group of channels."""
    rank = len(outline.written)
    if outline.shapes()[0] != outline.written or rank < 3:
        return None
    is_by_channel = outline.operator.kind == "InstanceNormalization"
    return placed(outline, along(outline.written), uncut=range(_CHANNELS + is_by_channel, rank))


def _slice(outline: Outline) -> OperatorEntry | None:
    source = outline.shapes()[0]
    paces = paces_of(outline.operator, source, outline.written)
    if paces is None:
        return None
    each = enumerate(zip(source, paces, strict=True))
    return placed(outline, tuple(AffineDimension(size, {f"P{at}": pace.step}, pace.first) for at, (size, pace) in each))


def _pad(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a Pad: padding of n elements shows elements at most `reach` * n inside; else any element."""
    operator, source, written = outline.operator, outline.shapes()[0], outline.written
    rank, reach = len(source), _REACH_OF_PADDING.get(str(outline.operator.attributes.get("mode", "constant")))
    pads = integers(operator, "pads", (0,) * (2 * rank))
    if [size + pads[at] + pads[rank + at] for at, size in enumerate(source)] != list(written):
        return None
    read, loops = list[AffineDimension](), dict[str, int]()
    for at, (size, *ends) in enumerate(zip(source, pads[:rank], pads[rank:], strict=True)):
        before, behind = (0 if reach is None else reach * max(pad, 0) for pad in ends)
        is_known = ends == [0, 0] or (reach is not None and before + behind < size)
        loops[f"R{at}"] = 1 + before + behind
        read.append(AffineDimension(size, {f"P{at}": 1, f"R{at}": 1} if is_known else {}, -ends[0] - behind))
    return placed(outline, tuple(read), loops=loops)


def _resize(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a Resize by a whole factor up or down; dimensions with another factor are read whole."""
    operator, source, written = outline.operator, outline.shapes()[0], outline.written
    margin = _MARGINS.get(str(operator.attributes.get("mode", "nearest")))
    is_cropped = operator.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if margin is None or is_cropped or operator.attributes.get("antialias") or len(source) != len(written):
        return None
    write, read, loops = list[AffineDimension](), list[AffineDimension](), dict[str, int]()
    for at, (size, after) in enumerate(zip(source, written, strict=True)):
        pixels, inside, seen = f"P{at}", f"Q{at}", f"R{at}"
        up, down = (after // size, 1) if after % size == 0 else (1, size // after)
        is_known = size * up == after * down
        loops |= {pixels: after // up, inside: up, seen: down + 2 * margin}
        write.append(AffineDimension(after, {pixels: up, inside: 1} if up > 1 else {pixels: 1}))
        terms, offset = ({pixels: 1}, 0) if size == after else ({pixels: down, seen: 1}, -margin)
        read.append(AffineDimension(size, terms if is_known else {}, offset))
    return placed(outline, tuple(read), tuple(write), loops)


def _repeated(outline: Outline) -> OperatorEntry | None:
    """Return the entry of an Expand or Tile: dimensions of equal size correspond, others are read whole."""
    source, write = outline.shapes()[0], along(outline.written)
    missing = len(write) - len(source)
    if missing < 0:
        return _repeated_heads(outline) if outline.operator.kind == "Expand" else None
    met = zip(source, write[missing:], strict=True)
    return placed(outline, tuple(one if size == one.size else AffineDimension(size, {}) for size, one in met))


def _repeated_heads(outline: Outline) -> OperatorEntry | None:
    """Return the entry of an Expand of a dimension of one element that is written as a part of the one before it."""
    source, written = outline.shapes()[0], outline.written
    for at, size in enumerate(source[:-1]):
        is_alike = (*source[:at], *source[at + 2 :]) == (*written[:at], *written[at + 1 :])
        if is_alike and source[at + 1] == 1 and written[at] % size == 0:
            inner, outer = f"Q{at}", f"P{at}"
            each, write = written[at] // size, [*along(written)]
            read = (*write[:at], AffineDimension(size, {outer: 1}), AffineDimension(1, {}), *write[at + 1 :])
            write[at] = AffineDimension(written[at], {outer: each, inner: 1})
            return placed(outline, read, tuple(write), {outer: size, inner: each})
    return None


def _gather(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a Gather: the gathered dimension is read whole, and the indices' dimensions replace it.

    A table that is a parameter follows the indices.
    """
    shapes, written = outline.shapes(), outline.written
    fitting = [
        (data, indices, axis)
        for data, indices in ((1, 2), (2, 1))
        if len(shapes) > 1
        and (axis := _place(outline.operator, "axis", len(shapes[data - 1]), 0)) is not None
        and (*shapes[data - 1][:axis], *shapes[indices - 1], *shapes[data - 1][axis + 1 :]) == written
    ]
    if len(fitting) != 1:
        return None
    (data, indices, axis), write = fitting[0], along(written)
    size, rank = shapes[data - 1][axis], len(shapes[indices - 1])
    picked = (*write[:axis], AffineDimension(size, {}), *write[axis + rank :])
    others = {at: unknown(shape) for at, shape in enumerate(shapes[2:], 3)}
    operands = {0: write, data: picked, indices: write[axis : axis + rank], **others}
    return OperatorEntry(lone_loops(operands), operands)


def _blocks(outline: Outline) -> OperatorEntry | None:
    """Return the entry of DepthToSpace or SpaceToDepth, cut in rows and columns of blocks; all channels are read."""
    source, written = outline.shapes()[0], outline.written
    size = integer(outline.operator, "blocksize", 0)
    if size < 1 or len(source) != 4 or len(written) != 4:
        return None
    is_pixels = outline.operator.kind == "DepthToSpace"
    small, large = (source, written) if is_pixels else (written, source)
    blocks = tuple(AffineDimension(small[at], {f"P{at}": 1}) for at in (2, 3))
    pixels = tuple(AffineDimension(large[at], {f"P{at}": size, f"Q{at}": 1}) for at in (2, 3))
    batch, channels = along(written[:2])
    first = AffineDimension(source[0], {"P0": 1}), AffineDimension(source[1], {})
    loops = {"P2": small[2], "P3": small[3], "Q2": size, "Q3": size}
    read, write = (blocks, pixels) if is_pixels else (pixels, blocks)
    return placed(outline, (*first, *read), (batch, channels, *write), loops)


def _transpose(outline: Outline) -> OperatorEntry | None:
    source, write = outline.shapes()[0], along(outline.written)
    order = integers(outline.operator, "perm", tuple(range(len(source)))[::-1])
    if tuple(source[index] for index in order) != outline.written:
        if not moves_channels(outline.graph, outline.operator):
            return None
        channels = len(outline.written) - 2
        return placed(outline, (*unknown(source[:-2]), *write[-2:]), uncut=range(channels))
    return placed(outline, tuple(write[order.index(at)] for at in range(len(source))))


def _concat(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a concatenation, which can be cut anywhere; constants may be among its inputs."""
    seen, count, written = outline.shapes(), len(outline.operator.inputs), outline.written
    if (axis := _joined_axis(outline, written)) is None:
        return None
    if not _make_up(written, seen[:count], axis):
        return across(outline, axis, [written], seen) if _make_up(written, seen, axis) else None
    write, starts = along(written), accumulate((part[axis] for part in seen), initial=0)
    operands = {0: write}
    for place, (shape, start) in enumerate(zip(seen, starts, strict=False), 1):
        part = AffineDimension(shape[axis], {f"P{axis}": 1}, -start) if place <= count else None
        operands[place] = unknown(shape) if part is None else (*write[:axis], part, *write[axis + 1 :])
    return OperatorEntry(lone_loops(operands), operands)


def _split(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a Split, cut along the dimensions that it does not split."""
    source, parts = outline.shapes()[0], [outline.shape(name) for name in outline.operator.outputs]
    axis = _joined_axis(outline, source)
    return None if axis is None or not _make_up(source, parts, axis) else across(outline, axis, parts, [source])


def across(outline: Outline, axis: int, writes: Sequence[Shape], reads: Sequence[Shape]) -> OperatorEntry:
    """Return an entry whose operands have all of an axis in every slice; other dimensions correspond."""
    operands = {at: along(shape) for at, shape in enumerate(reads, 1)} | {
        -at: along(one) for at, one in enumerate(writes)
    }
    operands |= {at: unknown(shape) for at, shape in enumerate(outline.shapes()[len(reads) :], len(reads) + 1)}
    return OperatorEntry(lone_loops(operands), operands, uncut=frozenset({f"P{axis}"}))


def _joined_axis(outline: Outline, joined: Shape) -> int | None:
    return integer(outline.operator, "axis", 0) % len(joined) if joined else None


def _make_up(joined: Shape, parts: Sequence[Shape], axis: int) -> bool:
    """Return True if the parts, concatenated along the axis, have the size of the whole."""
    if {len(part) for part in parts} != {len(joined)}:
        return False
    alike = {(*part[:axis], *part[axis + 1 :]) for part in parts} == {(*joined[:axis], *joined[axis + 1 :])}
    return alike and sum(part[axis] for part in parts) == joined[axis]


def _place(operator: Operator, name: str, rank: int, default: int | None = None) -> int | None:
    """Return the axis that an attribute names, from 0 on; the default, or None, without the attribute."""
    axis = operator.attributes.get(name, default)
    return axis % rank if isinstance(axis, int) and rank and -rank <= axis < rank else None


PLACED: Final[Mapping[str, Callable[[Outline], OperatorEntry | None]]] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"), _rows),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization"), _channels_normalised),
    "Slice": _slice,
    "Pad": _pad,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Expand", "Tile"), _repeated),
    "Gather": _gather,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
}
"""Entry functions by kind; they return None if shapes or attributes do not determine the entry."""
TRANSPOSED: Final[Mapping[str, Callable[[Outline], OperatorEntry | None]]] = {"Transpose": _transpose}
JOINED: Final[Mapping[str, Callable[[Outline], OperatorEntry | None]]] = {
    **dict.fromkeys(("Concat", "CONCATENATION"), _concat),
    "Split": _split,
}
"""Entry functions of kinds that join or split operands; a CONCATENATION of TFLite reads transposed views."""


Dimensions: TypeAlias = tuple[AffineDimension, ...]


def in_groups(shape: Shape, groups: int) -> tuple[Dimensions, dict[str, int]]:
    """Return dimensions with the second one split into groups along loop P1, and the loops of that dimension."""
    batch, heads, *others = along(shape)
    each = heads.size // groups
    return (batch, AffineDimension(heads.size, {"P1": each, "Q1": 1}), *others), {"P1": groups, "Q1": each}


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
