"""Operators that move no values, or show part of a tensor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, TypeAlias

from onchip.ir.graph import Graph
from onchip.ir.operator import (
    KEY_SLICE,
    NOTHING_STATED,
    SEEN_ORDERS,
    SEEN_PARAMETER_SHAPES,
    SEEN_PARTS,
    SEEN_SHAPES,
    VIEWS,
    WRITTEN_ORDERS,
    Operator,
)
from onchip.ir.tensor import Role
from onchip.ir.tile import JoinedPart, Range, Region
from onchip.ir.window import Shape, integer, integers, shapes_as_read
from onchip.ops.slicing import Span, spans_as_stored

RESIZES: Final = frozenset({"Resize", "Upsample"})
_IMAGE_RANK: Final = 4


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


SAME_ELEMENTS: Final = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
"""Kinds that write the elements that they read, in their order."""


def spans_read(operator: Operator, source: Shape, written: Shape) -> tuple[Span, ...] | None:
    """Return the span of each dimension of the input that ranges of the output's dimensions (the axes) need.

    All is needed of a dimension, other than the last, that is no dimension of the output. Returns None unless the
    operator is a Transpose, leaves a slice of the keys of a softmax, or hands on its input in its shape.
    """
    if not (VIEWS - {SEEN_SHAPES, SEEN_PARAMETER_SHAPES}).isdisjoint(operator.attributes):
        return None
    if operator.kind in SAME_ELEMENTS and source == written:
        return spans_in(source, written)
    if operator.kind == "Slice" and KEY_SLICE in operator.attributes:
        paces = _sliced(operator, source, written)
        is_range = paces is not None and all(pace.step == 1 for pace in paces)
        sizes = enumerate(zip(source, written, strict=False))
        return tuple(Span(size, at if size == left else None) for at, (size, left) in sizes) if is_range else None
    if operator.kind != "Transpose":
        return None
    (seen,) = shapes_as_read(operator, [source])[:1]
    order = integers(operator, "perm", tuple(range(len(seen)))[::-1])
    if sorted(order) != list(range(len(seen))) or tuple(seen[at] for at in order) != written:
        return None
    return _in_whole_dimensions(spans_as_stored([Span(size, order.index(at)) for at, size in enumerate(seen)], source))


def spans_in(stored: Shape, seen: Shape) -> tuple[Span, ...]:
    """Return the spans, as `spans_read` does, of a tensor that is read in another shape."""
    return _in_whole_dimensions(spans_as_stored([Span(size, axis) for axis, size in enumerate(seen)], stored))


def _in_whole_dimensions(spans: Sequence[Span]) -> tuple[Span, ...]:
    *outer, last = spans
    return (*(one if one == Span(one.size, one.axis) else Span(one.size) for one in outer), last)


def region_read(spans: Sequence[Span], written: Shape, region: Region) -> Region:
    """Return the region of an input that a region of the output needs."""
    return tuple(
        (0, span.size) if span.axis is None else span.range(*region[span.axis], written[span.axis]) for span in spans
    )


JoinedMaps: TypeAlias = Mapping[str, tuple[JoinedPart, ...]]
"""Map from a concatenation to the maps that it joins, in the order of their channels."""
_CHANNELS: Final = 1
_RANKS: Final = (2, 4)


def views_that_join(graph: Graph) -> frozenset[str]:
    """Return the concatenations whose parts a schedule may read directly (docs/schedule.md, 2).

    They join computed maps along the channels, and no operator reads a part of one twice.
    """
    views = may_be_views(graph)
    while True:
        joined = joined_maps(graph, views)
        twice = next((operator for operator in graph.operators if _sees_twice(operator, joined)), None)
        if twice is None:
            return views
        views -= {graph.producer[name].name for name in twice.inputs if name in joined}


def may_be_views(graph: Graph) -> frozenset[str]:
    """Return the concatenations that may be views, if no operator reads a part of one twice."""
    return frozenset(operator.name for operator in graph.operators if _joins_computed_maps(graph, operator))


def joined_maps(graph: Graph, views: Collection[str]) -> JoinedMaps:
    """Return the parts of each of these concatenations, with nested concatenations replaced by their parts."""
    found: dict[str, tuple[JoinedPart, ...]] = {}
    for operator in graph.operators:
        if operator.name in views:
            (whole,) = operator.outputs
            found[whole] = tuple(_parts(graph, whole, operator.inputs, found))
    return found


def seeing_parts(graph: Graph, joined: JoinedMaps) -> Graph:
    """Return the network without these concatenations; their readers have the parts as inputs."""
    operators = (one for one in graph.operators if one.outputs[0] not in joined)
    return replace(
        graph,
        tensors=tuple(one for one in graph.tensors if one.name not in joined),
        operators=tuple(replace(one, inputs=tuple(parts_of(joined, one.inputs))) for one in operators),
    )


def parts_of(joined: JoinedMaps, names: Iterable[str]) -> Iterator[str]:
    """Yield tensors, with each concatenation replaced by its parts."""
    for name in names:
        yield from (one.part for one in joined[name]) if name in joined else (name,)


def _parts(graph: Graph, whole: str, names: Iterable[str], known: JoinedMaps) -> Iterator[JoinedPart]:
    first = 0
    for name in names:
        inner = known.get(name) or (JoinedPart(name, name, 0),)
        yield from (JoinedPart(whole, one.part, first + one.first_channel) for one in inner)
        first += (graph.tensor[name].shape or (0, 0))[_CHANNELS]


def _sees_twice(operator: Operator, joined: JoinedMaps) -> bool:
    seen = list(parts_of(joined, dict.fromkeys(operator.inputs)))
    return len(seen) > len(set(seen))


def _joins_computed_maps(graph: Graph, operator: Operator) -> bool:
    is_plain = (
        operator.kind == "Concat"
        and len(operator.outputs) == 1
        and not operator.parameters
        and not operator.workspace_bytes
        and operator.tile is None
        and operator.stated == NOTHING_STATED
        and operator.attributes.keys() <= {"axis"}
        and len(operator.members) <= 1  # a fused member may compute something
        and len(set(operator.inputs)) == len(operator.inputs) > 0
    )
    if not is_plain:
        return False
    whole, parts = graph.tensor[operator.outputs[0]], [graph.tensor[name] for name in operator.inputs]
    shape = whole.shape or ()
    rank = len(shape)
    if rank not in _RANKS or integer(operator, "axis", rank) % rank != _CHANNELS or not graph.readers[whole.name]:
        return False
    if any(one.role is not Role.ACTIVATION or one.bits != whole.bits for one in (whole, *parts)):
        return False
    shapes = [one.shape or () for one in parts]
    alike = all(len(one) == rank and (one[:1], one[2:]) == (shape[:1], shape[2:]) for one in shapes)
    return alike and sum(one[_CHANNELS] for one in shapes) == shape[_CHANNELS]


def slices_of(graph: Graph, operator: Operator) -> tuple[Operator, ...]:
    """Return the Slices that write the outputs of a Split, in order; empty for other operators or unknown shapes."""
    if operator.kind != "Split" or len(operator.inputs) != 1 or not VIEWS.isdisjoint(operator.attributes):
        return ()
    source = graph.tensor[operator.inputs[0]].shape
    shapes = [shape for name in operator.outputs if (shape := graph.tensor[name].shape) is not None]
    if not source or len(shapes) != len(operator.outputs) or any(len(shape) != len(source) for shape in shapes):
        return ()
    axis = integer(operator, "axis", 0) % len(source)
    ends = list(accumulate(shape[axis] for shape in shapes))
    parts = [shape[:axis] + source[axis : axis + 1] + shape[axis + 1 :] for shape in shapes]
    if ends[-1] != source[axis] or any(part != source for part in parts):
        return ()
    return tuple(
        Operator(
            f"{operator.name} ({at})",
            "Slice",
            operator.inputs,
            (name,),
            (),
            {"starts": [end - shapes[at][axis]], "ends": [end], "axes": [axis]},
        )
        for at, (name, end) in enumerate(zip(operator.outputs, ends, strict=True))
    )


def moves_channels(graph: Graph, operator: Operator, written: Shape | None = None) -> bool:
    """Return True if a Transpose reorders the channels of an image, and keeps each pixel in place.

    It may read the channels as several dimensions. `written` is the shape of its output, by default the stored one.
    """
    if operator.kind != "Transpose" or len(operator.inputs) != 1 or len(operator.outputs) != 1:
        return False
    if not operator.attributes.keys().isdisjoint((SEEN_PARTS, SEEN_ORDERS, WRITTEN_ORDERS)):
        return False
    source = graph.tensor[operator.inputs[0]].shape or ()
    (seen,) = shapes_as_read(operator, [source])
    after = written or graph.tensor[operator.outputs[0]].shape or ()
    order = integers(operator, "perm", tuple(reversed(range(len(seen)))))
    is_image = len(source) == len(after) == _IMAGE_RANK
    return is_image and order[-2:] == (len(seen) - 2, len(seen) - 1) and source[-2:] == seen[-2:] == after[-2:]
