"""Kinds that work along one axis: recurrent layers, running sums and maxima of a row, windows of a signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from onchip.ir.tensor import Role
from onchip.ir.window import integer, integers
from onchip.ops.derive.geometry import Geometry, Span, TileAxis
from onchip.ops.pointwise.placed_kinds import across, placed
from onchip.ops.pointwise.step_kinds import in_groups
from onchip.ops.registry.entry import AffineDimension, OperatorEntry, along, lone_loops, spread, unknown
from onchip.ops.registry.outline import Outline, Shape, whole

_BATCH, _DIRECTION = 0, 1
"""Axes of a recurrent layer: samples and directions are independent; steps and state elements are not."""


def _recurrent(outline: Outline) -> Geometry | None:
    """Return the geometry of steps, directions, batch and state; None for ONNX's layout 1, which has another order."""
    source, *others = outline.shapes()
    writes = [outline.shape(name) for name in outline.operator.outputs]
    if len(source) != 3 or integer(outline.operator, "layout", 0) or any(len(one) not in (3, 4) for one in writes):
        return None
    directions, batch, kept = writes[0][-3:]
    if batch != source[1] or any(one[-3:-1] != (directions, batch) for one in writes):
        return None
    outline.axes = [TileAxis(batch), TileAxis(directions)]
    state = (directions, batch, kept)
    read_otherwise = [
        _state(shape) if shape == state and name in outline.operator.inputs and batch % kept else _by_direction(shape)
        for name, shape in zip(outline.read_names[1:], others, strict=True)
    ]
    written = [(*whole([one[:-3]])[0], *_state((directions, batch, one[-1]))) for one in writes]
    return outline.finish([(Span(source[0]), Span(batch, _BATCH), Span(source[2])), *read_otherwise], written)


def _state(shape: Shape) -> tuple[Span, ...]:
    return Span(shape[0], _DIRECTION), Span(shape[1], _BATCH), Span(shape[2])


def _by_direction(shape: Shape) -> tuple[Span, ...]:
    """Return the spans of weights, with a matrix per direction, or of sequence lengths, which are read whole."""
    if len(shape) < 2:
        return whole([shape])[0]
    return Span(shape[0], _DIRECTION), *map(Span, shape[1:])


def _along_one_axis(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a kind that works on independent rows, such as TopK."""
    source = outline.shapes()[0]
    writes = [outline.shape(name) for name in outline.operator.outputs]
    axis = _axis(outline, len(source))
    if axis is None or any(len(one) != len(source) for one in writes):
        return None
    if any(one[:axis] + one[axis + 1 :] != source[:axis] + source[axis + 1 :] for one in writes):
        return None
    return across(outline, axis, writes, [source])


def _axis(outline: Outline, rank: int) -> int | None:
    """Return the axis from an attribute that is a number or a list of one; the last one, as for TopK, by default."""
    axis = outline.operator.attributes.get("axis", -1)
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    return axis % rank if isinstance(axis, int) and -rank <= axis < rank else None


def _windowed_transform(outline: Outline) -> OperatorEntry | None:
    """Return the entry of an STFT: frame n reads `frame_length` elements from n steps on, for all frequencies."""
    (signal, *others), write = outline.shapes(), along(outline.written)
    (step,), (length,) = (integers(outline.operator, name, (0,)) for name in ("frame_step", "frame_length"))
    length = length or max((shape[0] for shape in others if len(shape) == 1), default=0)
    if len(signal) < 2 or len(write) != 4 or min(step, length) < 1 or signal[0] != write[0].size:
        return None
    if (signal[1] - length) // step + 1 != write[1].size:
        return None
    frames = AffineDimension(signal[1], {"P1": step, "R": 1})
    return placed(outline, (write[0], frames, *unknown(signal[2:])), loops={"R": length})


def _picked_one_by_one(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a GatherElements: an index replaces an element's position along the axis only."""
    if len(outline.read_names) != 2 or any(
        outline.graph.tensor[one].role is Role.PARAMETER for one in outline.read_names
    ):
        return None
    (source, indices), write = outline.shapes(), along(outline.written)
    axis, rank = integer(outline.operator, "axis", 0), len(write)
    if indices != outline.written or len(source) != rank or not -rank <= axis < rank:
        return None
    picked = (AffineDimension(size, {} if at == axis % rank else {f"P{at}": 1}) for at, size in enumerate(source))
    operands = {0: write, 1: tuple(picked), 2: write}
    return OperatorEntry(lone_loops(operands), operands)


def _channels_warped(outline: Outline) -> OperatorEntry | None:
    """Return the entry of MediaPipe's bilinear transform (NHWC): pixels may move anywhere, channels do not."""
    source, write = outline.shapes()[0], along(outline.written)
    if len(source) != 4 or len(write) != 4 or (source[0], source[3]) != (write[0].size, write[3].size):
        return None
    return placed(outline, (write[0], *unknown(source[1:3]), write[3]))


def _attention(outline: Outline) -> Geometry | None:
    """Return the geometry of attention: a query meets all keys and values of its head, shared by query heads.

    Any further operand is a mask, with a row per query.
    """
    shapes, written = outline.shapes(), outline.written
    is_known = len(outline.operator.outputs) == 1 and len(outline.operator.inputs) >= 3 and len(shapes) in (3, 4)
    if not is_known or any(len(shape) != 4 for shape in (*shapes, written)):
        return None
    queries, keys, values = shapes[:3]
    heads, shared = written[1], keys[1]
    if queries[:3] != written[:3] or keys[:3] != values[:3] or (keys[0], keys[3]) != (queries[0], queries[3]):
        return None
    if values[3] != written[3] or heads % shared:
        return None
    write, loops = in_groups(written, shared)
    of_keys = (write[0], AffineDimension(shared, {"P1": 1}), AffineDimension(keys[2], {}))
    scores = (*write[:3], of_keys[2])
    masks = {at: mask for at, shape in enumerate(shapes[3:], 4) if (mask := spread(scores, shape)) is not None}
    if len(masks) + 3 < len(shapes):
        return None
    reads = {1: (*write[:3], AffineDimension(queries[3], {})), 2: (*of_keys, AffineDimension(keys[3], {}))}
    operands = {0: write, **reads, 3: (*of_keys, write[3]), **masks}
    return outline.cut(OperatorEntry(lone_loops({0: write}) | loops, operands), [3])


SEQUENCES: Final[Mapping[str, Callable[[Outline], Geometry | OperatorEntry | None]]] = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("TopK", "CumSum", "Hardmax", "LpNormalization"), _along_one_axis),
    "STFT": _windowed_transform,
    "Attention": _attention,
    "GatherElements": _picked_one_by_one,
    "custom.TransformTensorBilinear": _channels_warped,
}
"""Functions by kind that return an entry or a geometry, or None if shapes or attributes do not determine it."""
