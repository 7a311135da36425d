"""A geometry in the making: axes along the first output, and how operands lie along them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from onchip.arch.memory import Operand
from onchip.facts.geometry import Geometry, OperandAccess, Span, TileAxis
from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES, Operator
from onchip.ir.tensor import Role

Shape = tuple[int, ...]


@dataclass
class Outline:
    """A geometry in the making; axes are the first output's dimensions, further ones are added."""

    operator: Operator
    graph: Graph
    is_model: bool
    axes: list[TileAxis] = field(default_factory=list)

    @property
    def read_names(self) -> tuple[str, ...]:
        """Inputs, then parameters, one as often as it is listed."""
        return (*self.operator.inputs, *self.operator.parameters)

    def shape(self, name: str) -> Shape:
        """Return the shape of a tensor, by its name."""
        return self.graph.tensor[name].shape or ()

    def shapes(self) -> list[Shape]:
        """Return the shapes of all that is read."""
        return [self.shape(name) for name in self.read_names]

    def seen_shapes(self) -> list[Shape]:
        """Return the shapes of all that is read as the operator sees them; inputs may be views of another shape."""
        seen, shapes = self.operator.attributes.get(SEEN_SHAPES), self.shapes()
        if not isinstance(seen, list) or len(seen) != len(self.operator.inputs):
            return shapes
        views = [tuple(size for size in one if isinstance(size, int)) for one in seen if isinstance(one, list)]
        return [*views, *shapes[len(seen) :]] if len(views) == len(seen) else shapes

    def stored(self, place: int, spans: tuple[Span, ...] | None) -> tuple[Span, ...] | None:
        """The spans of what is read, by its place, as it is stored; None where that is not what the operator sees.

        Of a view only dimensions of one element may have come or gone.
        """
        shape = self.shapes()[place]
        if spans is None or tuple(span.size for span in spans) == shape:
            return spans
        longer = iter([span for span in spans if span.size > 1])
        if [span.size for span in spans if span.size > 1] != [size for size in shape if size > 1]:
            return None
        return tuple(next(longer) if size > 1 else Span(1) for size in shape)

    @property
    def written(self) -> Shape:
        """The shape of the first output."""
        return self.shape(self.operator.outputs[0])

    def cut_along_output(self, last_resorts: Sequence[int] = ()) -> None:
        """Make every dimension of the first output an axis."""
        self.axes = [TileAxis(size, is_last_resort=index in last_resorts) for index, size in enumerate(self.written)]

    def leave_whole(self, dimensions: Sequence[int]) -> None:
        """Dimensions of the first output that every tile has whole."""
        for at in dimensions:
            self.axes[at] = TileAxis(1)

    def reduce(self, size: int) -> int | None:
        """The axis of a sum of parts; none where the values are a model's, whose nodes are run as they are."""
        if self.is_model or size < 2:
            return None
        self.axes.append(TileAxis(size, is_reduction=True))
        return len(self.axes) - 1

    def finish(self, reads: Sequence[Sequence[Span]], writes: Sequence[Sequence[Span]] | None = None) -> Geometry:
        """Return the geometry; without `writes` there is one output, along all axes."""
        named = zip(self.read_names, reads, strict=True)
        written = [self.along_output(self.written) or ()] if writes is None else writes
        return Geometry(
            tuple(self.axes),
            tuple(dict.fromkeys(self._access(name, spans) for name, spans in named)),
            tuple(self._access(name, spans) for name, spans in zip(self.operator.outputs, written, strict=True)),
        )

    def _access(self, name: str, spans: Sequence[Span]) -> OperandAccess:
        tensor = self.graph.tensor[name]
        operand = Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT
        if name in self.operator.outputs:
            operand = Operand.OUTPUT
        return OperandAccess(name, operand, (tensor.bits or 0) // 8, tuple(spans))

    def along_output(self, shape: Shape) -> tuple[Span, ...] | None:
        """Element by element, broadcast as ONNX does (aligned at the last dimension); None where it does not fit."""
        missing = len(self.written) - len(shape)
        if missing < 0:
            return None
        spans = []
        for index, size in enumerate(shape, start=missing):
            if size == self.written[index]:
                spans.append(Span(size, index))
            elif size == 1:
                spans.append(Span(1))
            else:
                return None
        return tuple(spans)

    def along_channels(self, shape: Shape) -> tuple[Span, ...] | None:
        """One element a channel, else element by element."""
        if len(self.written) > 1 and shape == (self.written[1],):
            return (Span(shape[0], 1),)
        return self.along_output(shape)

    def single_elements(self, shapes: Sequence[Shape]) -> list[tuple[Span, ...]] | None:
        """Constants of one element each, such as scales, which every tile reads; None where one is of more."""
        return [tuple(map(Span, shape)) for shape in shapes] if all(prod(shape) == 1 for shape in shapes) else None


def all_known(spans: Sequence[tuple[Span, ...] | None]) -> list[tuple[Span, ...]] | None:
    """Return the spans of all operands; None where those of one are not known."""
    known = [each for each in spans if each is not None]
    return known if len(known) == len(spans) else None
