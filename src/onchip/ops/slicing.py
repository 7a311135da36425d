"""Describe an operator kind: its entry, its axes, and the parts of its operands that a slice of it reads and writes.

A tile is a range for each axis.

A view has a tensor's elements in their order, in dimensions of other sizes. Both shapes are divided into runs of
dimensions with equally many elements. The part of a run that a range of an axis needs follows from its outermost
dimensions.

Padding of a part is the neutral element: zero for a sum, the least number for a maximum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import SEEN_ORDERS, WRITTEN_ORDERS, Operator
from onchip.ir.tensor import Role
from onchip.ir.tile import Range, Region
from onchip.ir.window import Shape, parts_read, shapes_as_read


@dataclass(frozen=True, slots=True)
class TileAxis:
    """A dimension of the output, or a reduced dimension, that may be cut.

    An axis that `is_last_resort` is cut only if no split along the others fits.
    """

    size: int
    is_reduction: bool = False
    is_last_resort: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A dimension of an operand: all of it (`axis` None), or the part that follows from a range of an axis.

    A range [start, stop) needs [start // per * step + offset, (stop - 1) // per * step + offset + extent): for a
    convolution's rows `step` is its stride, `extent` the kernel's reach, `offset` the negated padding before; for the
    input channels of a group, `per` is its number of output channels.
    """

    size: int
    axis: int | None = None
    per: int = 1
    step: int = 1
    offset: int = 0
    extent: int = 1

    def range(self, start: int, stop: int, axis_size: int) -> Range:
        """Return the range of the dimension that a tile's range needs; empty if start == stop.

        Elements between two tiles' needs belong to the earlier tile, and elements after the last tile's needs to the
        last, so that an operator's tiles together read everything that the operator reads.
        """
        first = start // self.per * self.step + self.offset
        reach = (stop - 1) // self.per * self.step + self.offset + self.extent
        following = self.size if stop == axis_size else stop // self.per * self.step + self.offset
        low = min(max(first, 0), self.size)
        return low, max(low, min(max(reach, following), self.size))


@dataclass(frozen=True, slots=True)
class OperandAccess:
    """A tensor that the operator reads or writes, and the dependence of each of its dimensions on the axes."""

    tensor: str
    operand: Operand
    element_bytes: int
    spans: tuple[Span, ...]

    @property
    def size_bytes(self) -> int:
        """Return the size in bytes of the whole tensor, not of a tile."""
        return self.element_bytes * prod(span.size for span in self.spans)

    def region(self, tile: Sequence[Range], axes: Sequence[TileAxis]) -> Region | None:
        """Return the region that the tile needs, or None if it is empty."""
        ranges = tuple(
            (0, span.size) if span.axis is None else span.range(*tile[span.axis], axes[span.axis].size)
            for span in self.spans
        )
        return ranges if all(start < stop for start, stop in ranges) else None

    def dimension_of_positions(self, axis: int, axis_size: int) -> int | None:
        """Return the dimension whose elements are the positions of the axis; None without one, or if more follow it."""
        found = [at for at, span in enumerate(self.spans) if span.axis == axis]
        return found[0] if len(found) == 1 and self.spans[found[0]] == Span(axis_size, axis) else None


@dataclass(frozen=True, slots=True)
class Geometry:
    """An operator's axes and accesses; the regions of each write partition its tensor, and no access is repeated."""

    axes: tuple[TileAxis, ...]
    reads: tuple[OperandAccess, ...]
    writes: tuple[OperandAccess, ...]

    @property
    def reduction(self) -> int | None:
        """Return the index of the reduced axis, or None without one."""
        return next((index for index, axis in enumerate(self.axes) if axis.is_reduction), None)


@dataclass(frozen=True, slots=True)
class AffineDimension:
    """A dimension of an operand: each iteration meets the element `offset` + the sum of loop index * coefficient.

    `terms` maps loops to coefficients, the outermost loop first. Elements outside [0, size) are padding. Without terms,
    an iteration may meet any element.
    """

    size: int
    terms: Mapping[str, int]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """An operator's loops with their extents, and the dimensions of each operand by its position.

    The first output has position 0, further outputs -1, -2, ...; inputs, then parameters, have 1, 2, ... Loops have the
    names of a Layer's loops, and numbers if there are several of one kind (P2, R2). `factors` are the positions of the
    input and of the weight of the loop nest, empty if the kind has no nest. `summed` is the reduction loop that slices
    may cut, or empty; no slice cuts the loops `uncut`. If shapes give only the extents of a nest, and not which
    elements meet, the nests are `stated`. `why` is the reason why shapes give no nest, if the kind has nests.
    """

    loops: Mapping[str, int] = field(default_factory=dict)
    operands: Mapping[int, tuple[AffineDimension, ...]] = field(default_factory=dict)
    factors: tuple[int, ...] = ()
    summed: str = ""
    uncut: frozenset[str] = frozenset()
    stated: Mapping[str, Layer] = field(default_factory=dict)
    why: str = ""

    def fits(self, shapes: Mapping[int, Shape]) -> bool:
        """Return True if the operands have the sizes that attributes and the other operands imply."""
        return 0 in self.operands and all(
            tuple(one.size for one in each) == shapes.get(place) for place, each in self.operands.items()
        )

    def span(self, dimension: AffineDimension, summed: int | None) -> Span:
        """Return the part of a dimension that ranges of the axes need; axes are the output's dimensions, and `summed`.

        For an output o = s * i + j + offset, with j from 0 to `excess`, the loop index i lies between o // s +
        ceil((-offset - excess) / s) and o // s + (s - 1 - offset) // s.
        """
        for axis, written in enumerate(self.operands[0]):
            if not self.uncut.isdisjoint(written.terms):
                continue
            if written.terms and (written.terms, written.offset) == (dimension.terms, dimension.offset):
                return Span(dimension.size, axis)
            outer = next(iter(written.terms), "")
            if outer in dimension.terms:
                per, step = written.terms[outer], dimension.terms[outer]
                first = -((written.offset + self._excess(written, outer)) // per)
                last = (per - 1 - written.offset) // per
                extent = 1 + step * (last - first) + self._excess(dimension, outer)
                return Span(dimension.size, axis, per, step, dimension.offset + step * first, extent)
        if summed is None or self.summed not in dimension.terms:
            return Span(dimension.size)
        times, extent = dimension.terms[self.summed], 1 + self._excess(dimension, self.summed)
        return Span(dimension.size, summed, step=times, extent=extent)

    def _excess(self, dimension: AffineDimension, outer: str) -> int:
        """Return the distance from the first to the last element of the loops inside `outer`."""
        return sum((self.loops[loop] - 1) * times for loop, times in dimension.terms.items() if loop != outer)


def along(shape: Shape, loop: str = "P") -> tuple[AffineDimension, ...]:
    """Return the dimensions of an operand that has a numbered loop for each."""
    return tuple(AffineDimension(size, {f"{loop}{at}": 1}) for at, size in enumerate(shape))


def lone_loops(operands: Mapping[int, tuple[AffineDimension, ...]]) -> dict[str, int]:
    """Return each loop that alone makes up a dimension of the output, or else of another operand, with its size."""
    loops: dict[str, int] = {}
    for place in sorted(operands):
        for one in operands[place]:
            loops |= {loop: one.size for loop in one.terms if len(one.terms) == 1 and loop not in loops}
    return loops


def spread(written: Sequence[AffineDimension], shape: Shape) -> tuple[AffineDimension, ...] | None:
    """Return the dimensions of an operand broadcast over `written` as in ONNX; None if the shapes do not match."""
    missing = len(written) - len(shape)
    if missing < 0 or any(size not in (1, one.size) for size, one in zip(shape, written[missing:], strict=True)):
        return None
    met = zip(shape, written[missing:], strict=True)
    return tuple(one if size == one.size else AffineDimension(1, {}) for size, one in met)


def per_channel(written: Sequence[AffineDimension], shape: Shape) -> tuple[AffineDimension, ...] | None:
    """Return the dimensions of an operand with one element per channel, or of a broadcast one; None otherwise."""
    return (written[1],) if len(written) > 1 and shape == (written[1].size,) else spread(written, shape)


def unknown(shape: Shape) -> tuple[AffineDimension, ...]:
    """Return the dimensions of an operand whose elements any iteration may read, such as a table."""
    return tuple(AffineDimension(size, {}) for size in shape)


def spans_as_stored(
    spans: Sequence[Span], stored: Sequence[int], order: Sequence[int] | None = None
) -> tuple[Span, ...]:
    """Return the least span of each dimension of `stored` that ranges of the axes need; `spans` are of the view.

    `order` lists the stored dimensions by descending stride; by default they are in that order already. A dimension is
    needed whole if the axes do not determine its part, or if the sizes disagree.
    """
    places = range(len(stored)) if order is None else order
    shape = [stored[place] for place in places]
    seen = [span.size for span in spans]
    found = [Span(size) for size in shape]
    if seen == shape:
        found = list(spans)
    elif prod(seen) == prod(shape):
        for ours, theirs in _runs(seen, shape):
            flat = _flattened(spans[ours[0]], prod(seen[at] for at in ours[1:]))
            found[theirs[0]] = _in_rows(flat, prod(shape[at] for at in theirs[1:]))
    by_place = dict(zip(places, found, strict=True))
    return tuple(by_place[place] for place in range(len(stored)))


def spans_of_part(spans: Sequence[Span], stored: Sequence[int], part: Sequence[int]) -> tuple[Span, ...]:
    """Return the spans as `spans_as_stored` does, for a view of a part of the elements, possibly repeated.

    `part` is the first element and the strides. The map's elements form dimensions according to the strides, and the
    view has a range of each. All elements are needed if they do not.
    """
    first, *strides = part
    if len(strides) != len(spans) or min(part) < 0:
        return tuple(map(Span, stored))
    moving = sorted((at for at, span in enumerate(spans) if strides[at] and span.size > 1), key=lambda at: -strides[at])
    found, above = list[Span](), prod(stored)
    for at in moving:
        size, excess = divmod(above, strides[at])
        place = first // strides[at] % max(size, 1)
        if excess or place + spans[at].size > size:
            return tuple(map(Span, stored))
        found.append(_further_on(spans[at], size, place))
        above = strides[at]
    return spans_as_stored([*found, Span(above)], stored)


def _further_on(span: Span, size: int, place: int) -> Span:
    """Return the span in a dimension of `size` elements; the view has a range from `place` on."""
    return Span(size) if span.axis is None else replace(span, size=size, offset=span.offset + place)


def _runs(seen: Sequence[int], stored: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the shortest runs of dimensions of both shapes with equally many elements, without dimensions of size 1."""
    left = [at for at, size in enumerate(seen) if size > 1]
    right = [at for at, size in enumerate(stored) if size > 1]
    while left:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        while (excess := prod(seen[at] for at in ours) - prod(stored[at] for at in theirs)) != 0:
            if excess < 0:
                ours.append(left.pop(0))
            else:
                theirs.append(right.pop(0))
        yield ours, theirs


def _flattened(span: Span, inner: int) -> Span:
    """Return the span of a dimension each of whose elements becomes `inner` elements."""
    return replace(
        span, size=span.size * inner, step=span.step * inner, offset=span.offset * inner, extent=span.extent * inner
    )


def _in_rows(span: Span, inner: int) -> Span:
    """Return the span of a dimension whose elements are grouped `inner` at a time: all groups with a needed element.

    A range begins at a multiple of `step`, whose remainder within a row is at most `rest`.
    """
    size = span.size // inner
    if span.axis is None or inner == 1:
        return replace(span, size=size)
    if span.step % inner == 0:
        per, step, rest = span.per, span.step // inner, 0
    elif inner % span.step == 0:
        per, step, rest = span.per * (inner // span.step), 1, inner - span.step
    else:
        return Span(size)
    offset = span.offset // inner
    reach = -(-(rest + span.offset + span.extent) // inner)
    return Span(size, span.axis, per=per, step=step, offset=offset, extent=reach - offset)


AFFINE: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Sums of products, to which a bias may be added once."""
SUMMED: Final = frozenset({"ReduceSum", "ReduceMean", "ReduceL1", "ReduceSumSquare", "GlobalAveragePool"})
COMPARED: Final = frozenset({"ReduceMax", "ReduceMin"})
MULTIPLIED: Final = frozenset({"ReduceProd"})
REDUCTIONS: Final = (SUMMED | COMPARED | MULTIPLIED) - {"GlobalAveragePool"}
_LEAST_BITS: Final = 32
_MOST_INPUTS: Final = 3


def has_partial_results(operator: Operator, graph: Graph) -> bool:
    """Return True if a model's operator may be computed in parts: its sum is its result, and is wide enough."""
    written = graph.tensor[operator.outputs[0]]
    is_last = len(operator.members) < 2 and not operator.attributes.get("fused_activation")
    is_wide = (written.bits or 0) >= _LEAST_BITS
    is_known = operator.kind in AFFINE | SUMMED | COMPARED | MULTIPLIED and len(operator.outputs) == 1
    return is_known and is_last and is_wide and len(operator.inputs) <= _MOST_INPUTS


@dataclass
class Outline:
    """A builder of an operator's geometry; axes are the first output's dimensions, and further ones added to them."""

    operator: Operator
    graph: Graph
    is_model: bool
    axes: list[TileAxis] = field(default_factory=list)

    @property
    def read_names(self) -> tuple[str, ...]:
        """Return the names of inputs, then parameters, with repetitions."""
        return (*self.operator.inputs, *self.operator.parameters)

    def shape(self, name: str) -> Shape:
        """Return the shape of a tensor, by its name."""
        return self.graph.tensor[name].shape or ()

    def stored_shapes(self) -> list[Shape]:
        """Return the stored shapes of all inputs and parameters."""
        return [self.shape(name) for name in self.read_names]

    def shapes(self) -> list[Shape]:
        """Return the shapes in which the operator reads inputs and parameters, which may be views."""
        return shapes_as_read(self.operator, self.stored_shapes())

    @property
    def parts(self) -> list[Shape]:
        """Return, for each input, the first element and the strides of its partial view; empty if it is read whole."""
        return parts_read(self.operator)

    @property
    def has_views(self) -> bool:
        """Return True if an operand is read in another shape, or in another order of axes, than it is stored in."""
        return self.shapes() != self.stored_shapes() or SEEN_ORDERS in self.operator.attributes

    @property
    def written(self) -> Shape:
        """Return the shape of the first output, with axes in the operator's order."""
        stored = self.shape(self.operator.outputs[0])
        order = self._order(WRITTEN_ORDERS, 0, len(stored))
        return stored if order is None else tuple(stored[place] for place in order)

    def reduce(self, size: int) -> int | None:
        """Add an axis of partial sums and return its index; None if partial results do not add up.

        A model's nodes round each partial sum, so its axis is cut only if no split along the others fits. Reductions
        through views are split only for a model's reductions, which read views directly, and for steps.
        """
        orders, kind = {SEEN_ORDERS, WRITTEN_ORDERS}, self.operator.kind
        is_reduction = self.is_model and kind in REDUCTIONS and orders.isdisjoint(self.operator.attributes)
        adds_up = not self.is_model or has_partial_results(self.operator, self.graph)
        if size < 2 or not adds_up or (self.has_views and not is_reduction):
            return None
        self.axes.append(TileAxis(size, is_reduction=True, is_last_resort=self.is_model))
        return len(self.axes) - 1

    def cut(
        self, entry: OperatorEntry, last_resorts: Sequence[int] = (), shapes: Sequence[Shape] | None = None
    ) -> Geometry | None:
        """Return the geometry of an entry; None if operands have other sizes, or an output is not described.

        A model's node reads an undescribed operand whole; other operators then have no geometry. `shapes` are those of
        the inputs and parameters, as viewed by default.
        """
        reads = self.shapes() if shapes is None else shapes
        others = {-at: self.shape(name) for at, name in enumerate(self.operator.outputs) if at}
        sizes = {**others, 0: self.written, **dict(enumerate(reads, 1))}
        if not entry.fits(sizes) or not entry.operands.keys() >= others.keys():
            return None
        uncut = [at for at, one in enumerate(entry.operands[0]) if not entry.uncut.isdisjoint(one.terms)]
        self.axes = [
            TileAxis(1 if at in uncut else size, is_last_resort=at in last_resorts)
            for at, size in enumerate(self.written)
        ]
        summed = self.reduce(entry.loops[entry.summed]) if entry.summed else None
        spans = {at: tuple(entry.span(one, summed) for one in each) for at, each in entry.operands.items()}
        spans[0] = tuple(Span(size, None if at in uncut else at) for at, size in enumerate(self.written))
        known = [spans.get(place, whole([shape])[0] if self.is_model else None) for place, shape in enumerate(reads, 1)]
        if None in known:
            return None
        return self.finish([each or () for each in known], [spans[-at] for at in range(len(others) + 1)])

    def finish(self, reads: Sequence[Sequence[Span]], writes: Sequence[Sequence[Span]]) -> Geometry:
        """Return the geometry; `reads` are spans of the shapes that the operator reads, or of the stored ones."""
        stored = (self.as_stored(place, spans) for place, spans in enumerate(reads))
        named = zip(self.read_names, stored, strict=True)
        written = [self._as_written(place, spans) for place, spans in enumerate(writes)]
        return Geometry(
            tuple(self.axes),
            tuple(dict.fromkeys(self._access(name, spans) for name, spans in named)),
            tuple(self._access(name, spans) for name, spans in zip(self.operator.outputs, written, strict=True)),
        )

    def as_stored(self, place: int, spans: Sequence[Span]) -> tuple[Span, ...]:
        """Return the stored spans of the operand at a position."""
        shape, parts = self.stored_shapes()[place], self.parts
        if place < len(parts) and parts[place]:
            return spans_of_part(spans, shape, parts[place])
        return spans_as_stored(spans, shape, self._order(SEEN_ORDERS, place, len(shape)))

    def _as_written(self, place: int, spans: Sequence[Span]) -> tuple[Span, ...]:
        """Return the stored spans of the output at a position."""
        shape = self.shape(self.operator.outputs[place])
        return spans_as_stored(spans, shape, self._order(WRITTEN_ORDERS, place, len(shape)))

    def _order(self, attribute: str, place: int, rank: int) -> list[int] | None:
        """Return the order of stored axes that an attribute lists for an operand, or None."""
        orders = self.operator.attributes.get(attribute)
        listed = orders[place] if isinstance(orders, list) and place < len(orders) else None
        order = [at for at in listed if isinstance(at, int)] if isinstance(listed, list) else []
        return order if sorted(order) == [*range(rank)] else None

    def _access(self, name: str, spans: Sequence[Span]) -> OperandAccess:
        tensor = self.graph.tensor[name]
        operand = Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT
        if name in self.operator.outputs:
            operand = Operand.OUTPUT
        return OperandAccess(name, operand, (tensor.bits or 0) // 8, tuple(spans))


def whole(shapes: Sequence[Shape]) -> list[tuple[Span, ...]]:
    """Return operands that every tile reads whole, such as scales."""
    return [tuple(map(Span, shape)) for shape in shapes]
