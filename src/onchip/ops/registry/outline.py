"""A builder of tile geometries: axes along the first output, and the operands' dependence on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_ORDERS, WRITTEN_ORDERS, Operator
from onchip.ir.tensor import Role
from onchip.ir.window import parts_read, shapes_as_read
from onchip.ops.derive.geometry import Geometry, OperandAccess, Span, TileAxis
from onchip.ops.pointwise.partial_sums import REDUCTIONS, SUMS_OF_STEPS, has_partial_results
from onchip.ops.registry.entry import OperatorEntry
from onchip.ops.views.view_spans import spans_as_stored, spans_of_part

Shape = tuple[int, ...]


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
        is_seen = is_reduction or kind in SUMS_OF_STEPS
        adds_up = not self.is_model or has_partial_results(self.operator, self.graph)
        if size < 2 or not adds_up or (self.has_views and not is_seen):
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
