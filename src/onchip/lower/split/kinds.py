"""Which kinds of operators can be split, and along which axes: their geometry, from shapes and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from onchip.arch.memory import Operand
from onchip.facts.geometry import Geometry, OperandAccess, Span, TileAxis
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import integer, integers, product_of, windows_of

Shape = tuple[int, ...]

UNARY = frozenset(
    {
        *("Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "HardSwish", "Silu", "Swish", "Mish", "Tanh"),
        *("Gelu", "Softplus", "Identity", "Neg", "Abs", "Exp", "Log", "Sqrt", "Erf", "Reciprocal", "Celu", "Softsign"),
    }
)
ELEMENTWISE = UNARY | {"Add", "Sub", "Mul", "Div", "Pow", "Sum", "Max", "Min", "Mean", "Clip", "PRelu"}
POOLS = frozenset({"MaxPool", "AveragePool"})
GLOBAL_POOLS = frozenset({"GlobalMaxPool", "GlobalAveragePool"})


def geometry_of(operator: Operator, graph: Graph, *, is_model: bool) -> Geometry | None:
    """The operator's axes; None where it cannot be split: its kind, its shapes, or it is a tile already."""
    tensors = [graph.tensor[name] for name in (*operator.inputs, *operator.parameters, *operator.outputs)]
    if operator.tile is not None or not operator.reads or any(not _can_be_cut(tensor) for tensor in tensors):
        return None
    outline = _Outline(operator, graph, is_model)
    kind = operator.kind
    if kind == "Conv":
        return _convolution(outline)
    if kind in POOLS:
        return _pool(outline)
    if kind in GLOBAL_POOLS:
        return _global_pool(outline)
    if kind == "Gemm":
        return _gemm(outline)
    if kind == "MatMul":
        return _matmul(outline)
    if kind in ELEMENTWISE:
        return _elementwise(outline)
    if kind == "BatchNormalization":
        return _batch_normalization(outline)
    if kind in ("Concat", "Split"):
        return _joined(outline)
    return _transpose(outline) if kind == "Transpose" else None


def _can_be_cut(tensor: Tensor) -> bool:
    return tensor.shape is not None and tensor.bits is not None and tensor.bits % 8 == 0 and tensor.part_of is None


@dataclass
class _Outline:
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
        return self.graph.tensor[name].shape or ()

    def shapes(self) -> list[Shape]:
        return [self.shape(name) for name in self.read_names]

    @property
    def written(self) -> Shape:
        return self.shape(self.operator.outputs[0])

    def cut_along_output(self, last_resorts: Sequence[int] = ()) -> None:
        self.axes = [TileAxis(size, is_last_resort=index in last_resorts) for index, size in enumerate(self.written)]

    def reduce(self, size: int) -> int | None:
        """The axis of a sum of parts; none where the values are a model's, whose nodes are run as they are."""
        if self.is_model or size < 2:
            return None
        self.axes.append(TileAxis(size, is_reduction=True))
        return len(self.axes) - 1

    def finish(self, reads: Sequence[Sequence[Span]], writes: Sequence[Sequence[Span]] | None = None) -> Geometry:
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


def _all_known(spans: Sequence[tuple[Span, ...] | None]) -> list[tuple[Span, ...]] | None:
    known = [each for each in spans if each is not None]
    return known if len(known) == len(spans) else None


def _columns(written: Shape) -> range:
    """The spatial dimensions after the rows."""
    return range(3, len(written))


def _convolution(outline: _Outline) -> Geometry | None:
    source, weight, *others = outline.shapes() if len(outline.read_names) > 1 else ((), ())
    written, groups = outline.written, integer(outline.operator, "group", 1)
    if len(outline.operator.outputs) > 1 or not len(source) == len(weight) == len(written) > 2:
        return None
    if source[0] != written[0] or weight[0] != written[1] or weight[1] * groups != source[1] or written[1] % groups:
        return None
    outline.cut_along_output(_columns(written))
    rest = _all_known([outline.along_channels(shape) for shape in others])
    if rest is None:
        return None
    summed = outline.reduce(source[1]) if groups == 1 else None
    depth, within = Span(source[1], summed), Span(weight[1], summed)
    if groups > 1:
        depth = Span(source[1], 1, per=written[1] // groups, step=weight[1], extent=weight[1])
    windows = windows_of(outline.operator, weight[2:], source[2:], written[2:])
    pixels = [
        Span(size, axis, step=window.stride, offset=-window.pad, extent=window.reach)
        for axis, (size, window) in enumerate(zip(source[2:], windows, strict=True), start=2)
    ]
    kernel = [Span(size) for size in weight[2:]]
    return outline.finish([(Span(source[0], 0), depth, *pixels), (Span(weight[0], 1), within, *kernel), *rest])


def _pool(outline: _Outline) -> Geometry | None:
    written, (source, *others) = outline.written, outline.shapes()
    kernel = integers(outline.operator, "kernel_shape", (0,) * (len(written) - 2))
    if others or len(outline.operator.outputs) > 1 or source[:2] != written[:2] or not all(kernel):
        return None
    if len(source) != len(written) or len(written) < 3:
        return None
    outline.cut_along_output(_columns(written))
    windows = windows_of(outline.operator, kernel, source[2:], written[2:])
    pixels = [
        Span(size, axis, step=window.stride, offset=-window.pad, extent=window.reach)
        for axis, (size, window) in enumerate(zip(source[2:], windows, strict=True), start=2)
    ]
    return outline.finish([(Span(source[0], 0), Span(source[1], 1), *pixels)])


def _global_pool(outline: _Outline) -> Geometry | None:
    written, (source, *others) = outline.written, outline.shapes()
    if others or len(source) != len(written) or source[:2] != written[:2] or prod(written[2:]) != 1:
        return None
    outline.cut_along_output()
    return outline.finish([(Span(source[0], 0), Span(source[1], 1), *map(Span, source[2:]))])


def _gemm(outline: _Outline) -> Geometry | None:
    source, weight, *others = outline.shapes() if len(outline.read_names) > 1 else ((), ())
    written = outline.written
    product = product_of(outline.operator, source, weight, written, is_model=outline.is_model)
    if product is None or len(outline.operator.outputs) > 1:
        return None
    rows = [index for index, size in enumerate(written[:-1]) if size > 1]
    outline.cut_along_output(rows[1:])
    rest = _all_known([outline.along_output(shape) for shape in others])
    if rest is None:
        return None
    unit, per_unit = product.unit, product.features_per_unit
    summed = outline.reduce(source[0] if product.is_source_transposed else source[unit])
    features = Span(weight[int(product.is_weight_transposed)], summed, step=per_unit, extent=per_unit)
    columns = Span(written[-1], len(written) - 1)
    if product.is_flat:
        cut = [
            Span(source[0], 0),
            *(Span(size, summed if at == unit else None) for at, size in enumerate(source) if at),
        ]
    else:
        cut = [*(Span(size, index) for index, size in enumerate(written[:-1])), Span(features.size, summed)]
    if product.is_source_transposed:
        cut.reverse()
    matrix = (columns, features) if product.is_weight_transposed else (features, columns)
    return outline.finish([cut, matrix, *rest])


def _matmul(outline: _Outline) -> Geometry | None:
    shapes, written = outline.shapes(), outline.written
    if len(shapes) != 2 or len(outline.operator.outputs) > 1:
        return None
    one, other = shapes
    if min(len(one), len(other), len(written)) < 2 or len(written) != max(len(one), len(other)):
        return None
    if (one[-2], other[-1], one[-1]) != (*written[-2:], other[-2]):
        return None
    many = [index for index, size in enumerate(written[:-1]) if size > 1]
    outline.cut_along_output(many[:-2])
    batches = [outline.along_output((*shape[:-2], 1, 1)) for shape in shapes]
    known = _all_known(batches)
    if known is None:
        return None
    if outline.operator.parameters and one[-2:] == other[-2:]:
        return _product_of_squares(outline, known)
    summed = outline.reduce(one[-1])
    rank = len(written)
    features = Span(one[-1], summed)
    return outline.finish(
        [
            (*known[0][:-2], Span(one[-2], rank - 2), features),
            (*known[1][:-2], features, Span(other[-1], rank - 1)),
        ]
    )


def _product_of_squares(outline: _Outline, batches: Sequence[tuple[Span, ...]]) -> Geometry:
    """Cut along batches alone: which of the two matrices stands on the left, the shapes do not say."""
    outline.axes[-2:] = [TileAxis(1), TileAxis(1)]
    square = tuple(map(Span, outline.written[-2:]))
    written = [Span(size, at) for at, size in enumerate(outline.written[:-2])]
    return outline.finish([(*batch[:-2], *square) for batch in batches], [(*written, *square)])


def _elementwise(outline: _Outline) -> Geometry | None:
    outline.cut_along_output()
    reads = _all_known([outline.along_output(shape) for shape in outline.shapes()])
    return None if reads is None or len(outline.operator.outputs) > 1 else outline.finish(reads)


def _batch_normalization(outline: _Outline) -> Geometry | None:
    source, *parameters = outline.shapes()
    if source != outline.written or len(source) < 2 or len(outline.operator.outputs) > 1:
        return None
    if any(shape != (source[1],) for shape in parameters):
        return None
    outline.cut_along_output()
    channels = [(Span(source[1], 1),) for _ in parameters]
    return outline.finish([tuple(Span(size, index) for index, size in enumerate(source)), *channels])


def _joined(outline: _Outline) -> Geometry | None:
    """Concat, cut anywhere; Split, cut along the dimensions that it does not split."""
    operator = outline.operator
    whole = outline.written if operator.kind == "Concat" else outline.shape(operator.inputs[0])
    names = operator.inputs if operator.kind == "Concat" else operator.outputs
    axis = integer(operator, "axis", 0) % len(whole) if whole else 0
    parts = [outline.shape(name) for name in names]
    alike = {(*part[:axis], *part[axis + 1 :]) for part in parts} == {(*whole[:axis], *whole[axis + 1 :])}
    if operator.parameters or not whole or not alike or {*map(len, parts)} != {len(whole)}:
        return None
    if sum(part[axis] for part in parts) != whole[axis]:
        return None
    if operator.kind == "Split":
        outline.axes = [TileAxis(1 if index == axis else size) for index, size in enumerate(whole)]
        spans = [tuple(Span(size, None if at == axis else at) for at, size in enumerate(part)) for part in parts]
        return outline.finish([tuple(Span(size, None if at == axis else at) for at, size in enumerate(whole))], spans)
    outline.cut_along_output()
    offset, reads = 0, []
    for part in parts:
        reads.append(tuple(Span(size, at, offset=-offset if at == axis else 0) for at, size in enumerate(part)))
        offset += part[axis]
    return outline.finish(reads)


def _transpose(outline: _Outline) -> Geometry | None:
    (source, *others), written = outline.shapes(), outline.written
    order = integers(outline.operator, "perm", tuple(range(len(source)))[::-1])
    if others or tuple(source[index] for index in order) != written:
        return None
    outline.cut_along_output()
    return outline.finish([tuple(Span(size, order.index(index)) for index, size in enumerate(source))])
