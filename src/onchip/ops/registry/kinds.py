"""Which kinds of operators can be split, and along which axes: their geometry, from shapes and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import UPPER_BOUND, Operator
from onchip.ir.tensor import Tensor
from onchip.ir.window import integer, integers, product_of
from onchip.ops.contractions.products import product
from onchip.ops.derive.geometry import Geometry, Span
from onchip.ops.pointwise.joined_kinds import JOINED
from onchip.ops.pointwise.placed_kinds import PLACED
from onchip.ops.pointwise.step_kinds import STEPS
from onchip.ops.pointwise.strided_copies import STRIDED
from onchip.ops.registry.outline import Outline, Shape, whole
from onchip.ops.sequences.sequence_kinds import SEQUENCES
from onchip.ops.windows.sliding_windows import WINDOWS, NoLayerError, transposed_with_bias

UNARY = frozenset(
    {
        *("Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "HardSwish", "Silu", "Swish", "Mish", "Tanh"),
        *("Gelu", "Softplus", "Identity", "Neg", "Abs", "Exp", "Log", "Sqrt", "Erf", "Reciprocal", "Celu", "Softsign"),
        *("Cast", "Ceil", "Cos", "Floor", "IsInf", "IsNaN", "Not", "Round", "Sign", "Sin", "ThresholdedRelu"),
    }
)
ELEMENTWISE = (
    UNARY
    | {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Sum", "Max", "Min", "Mean", "Clip", "PRelu", "Where"}
    | {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor"}
    | {"QuantizeLinear", "DequantizeLinear"}
)
POOLS = frozenset({"MaxPool", "AveragePool"})
GLOBAL_POOLS = frozenset({"GlobalMaxPool", "GlobalAveragePool"})


def geometry_of(operator: Operator, graph: Graph, *, is_model: bool) -> Geometry | None:
    """The operator's axes; None where it cannot be split: its kind, its shapes (scalars), or it is a tile."""
    tensors = [graph.tensor[name] for name in (*operator.inputs, *operator.parameters, *operator.outputs)]
    if operator.tile is not None or not operator.reads or any(not _can_be_cut(tensor) for tensor in tensors):
        return None
    if has_bounded_operand(operator, graph):
        return None
    describe = next((kinds[operator.kind] for kinds in _ROOMS if operator.kind in kinds), None)
    geometry = None if describe is None else describe(Outline(operator, graph, is_model))
    return geometry if geometry is not None and geometry.axes else None


def has_bounded_operand(operator: Operator, graph: Graph) -> bool:
    """Whether what it reads or writes may turn out smaller when it runs: its elements lie otherwise then."""
    writers = (graph.producer.get(name) for name in operator.inputs)
    return any(UPPER_BOUND in one.attributes for one in (operator, *writers) if one is not None)


def _can_be_cut(tensor: Tensor) -> bool:
    return tensor.shape is not None and tensor.bits is not None and tensor.bits % 8 == 0 and tensor.part_of is None


def _windows(outline: Outline) -> Geometry | None:
    """Scales and biases behind the weight lie along the channels; a pool of a model may have further outputs.

    Transposed convolutions are cut along C, or where they leave padding open, only if they come from a model.
    """
    operator, shapes = outline.operator, [outline.written, *outline.shapes()]
    try:
        entry = WINDOWS.get(operator.kind, transposed_with_bias)(operator, shapes)
    except NoLayerError:
        return None
    last, as_model = max(entry.operands), outline.is_model or operator.kind != "ConvTranspose"
    is_one = len(operator.outputs) == 1 or (last == 1 and outline.is_model)
    if not entry.fits(shapes) or ("U2" in entry.loops and not as_model) or not is_one:
        return None
    pixels = [at for at, one in enumerate(entry.operands[0]) if any(loop.startswith("P") for loop in one.terms)]
    outline.cut_along_output(pixels[1:])
    summed = outline.reduce(entry.loops[entry.summed]) if entry.summed and as_model else None
    reads: list[tuple[Span, ...] | None] = [*whole(shapes[1:])]
    for place, shape in enumerate(shapes[1:], 1):
        if place in entry.operands:
            reads[place - 1] = tuple(entry.span(one, summed) for one in entry.operands[place])
        elif 1 < last < place and pixels[0] > 1:
            reads[place - 1] = outline.along_channels(shape)
    known = outline.beside(shapes[1:], reads)
    written = [outline.along_output(shapes[0]) or ()] * len(operator.outputs)
    return None if known is None else outline.finish(known, written)


def _gemm(outline: Outline) -> Geometry | None:
    """Features that lie in several dimensions are known as they are stored, or else, and of parts, as they are seen.

    Of three operands a constant matrix stands behind what is added where that is an input, or a row of parameters.
    """
    shown = [outline.shapes()] if any(outline.parts) else [outline.stored_shapes(), outline.shapes()]
    ways = [(shapes, 1) for shapes in shown if len(shapes) > 1]
    if len(shapes := outline.shapes()) > 2:
        is_behind = outline.is_model and len(outline.operator.inputs) == 2
        ways += [(shapes, 2)] if is_behind or len(shapes[1]) < 2 else []
    return next((found for shapes, place in ways if (found := _gemm_of(outline, shapes, place)) is not None), None)


def _gemm_of(outline: Outline, shapes: Sequence[Shape], place: int) -> Geometry | None:
    """With the matrix at that place."""
    source, weight, others = shapes[0], shapes[place], [*shapes[1:place], *shapes[place + 1 :]]
    written = outline.written
    product = product_of(outline.operator, source, weight, written, is_model=outline.is_model)
    if product is None or len(outline.operator.outputs) > 1:
        return None
    rows = [index for index, size in enumerate(written[:-1]) if size > 1]
    outline.cut_along_output(rows[1:])
    rest = outline.beside(others, [outline.along_output(shape) for shape in others])
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
    return outline.finish([cut, *rest[: place - 1], matrix, *rest[place - 1 :]])


def _matmul(outline: Outline) -> Geometry | None:
    """Scales and zero points of a quantised one may stand before its second operand: then each is a single element.

    Two square matrices, one of them a parameter, are cut along batches alone: the shapes do not say which is the left.
    """
    operator, shapes = outline.operator, [outline.written, *outline.shapes()]
    try:
        entry = product(operator, shapes)
    except NoLayerError:
        return None
    place, is_left_first = max(entry.operands), any("N" in one.terms for one in entry.operands[1])
    if not entry.fits(shapes) or not is_left_first or len(operator.outputs) > 1 or prod(map(prod, shapes[2:place])) > 1:
        return None
    is_square = bool(operator.parameters) and shapes[1][-2:] == shapes[place][-2:]
    many = [index for index, size in enumerate(shapes[0][:-1]) if size > 1]
    outline.cut_along_output(many[:-2])
    reads = whole(shapes)
    if is_square:
        outline.leave_whole((-2, -1))
    else:
        reads[place + 1 :] = map(outline.along_output_or_whole, shapes[place + 1 :])
    summed = None if is_square else outline.reduce(entry.loops["C"])
    for at, dimensions in entry.operands.items():
        cut = dimensions[:-2] if is_square else dimensions
        reads[at] = (*(entry.span(one, summed) for one in cut), *reads[at][len(cut) :])
    return outline.finish(reads[1:], reads[:1])


def _elementwise(outline: Outline) -> Geometry | None:
    outline.cut_along_output()
    is_scaled = outline.operator.kind in ("QuantizeLinear", "DequantizeLinear")
    along = outline.along_channels if is_scaled and integer(outline.operator, "axis", 1) == 1 else outline.along_output
    reads = [along(shape) or outline.along_output_or_whole(shape) for shape in outline.shapes()]
    return None if len(outline.operator.outputs) > 1 else outline.finish(reads)


def _batch_normalization(outline: Outline) -> Geometry | None:
    """What is fused behind it may write the same map with more dimensions of one element, or fewer."""
    source, *parameters = outline.shapes()
    places = _places_but_for_ones(source, outline.written)
    if places is None or len(source) < 2 or len(outline.operator.outputs) > 1:
        return None
    if any(shape not in ((source[1],), (1,), ()) for shape in parameters):
        return None
    outline.cut_along_output()
    channel = Span(source[1], places[1])
    channels = [(channel,) if shape == (source[1],) else tuple(map(Span, shape)) for shape in parameters]
    return outline.finish([tuple(Span(size, at) for size, at in zip(source, places, strict=True)), *channels])


def _places_but_for_ones(source: Shape, written: Shape) -> list[int | None] | None:
    """For each dimension of the source that of the output, None for one of one element; None if others differ."""
    if source == written:
        return [*range(len(written))]
    longer = [at for at, size in enumerate(written) if size > 1]
    if [size for size in source if size > 1] != [written[at] for at in longer]:
        return None
    left = iter(longer)
    return [next(left) if size > 1 else None for size in source]


def _transpose(outline: Outline) -> Geometry | None:
    (source, *others), written = outline.shapes(), outline.written
    order = integers(outline.operator, "perm", tuple(range(len(source)))[::-1])
    rest = whole(others)
    if tuple(source[index] for index in order) != written:
        return None
    outline.cut_along_output()
    return outline.finish([tuple(Span(size, order.index(index)) for index, size in enumerate(source)), *rest])


_KINDS: Final[Mapping[str, Callable[[Outline], Geometry | None]]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "custom.Convolution2DTransposeBias"), _windows),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "BatchNormalization": _batch_normalization,
    "Transpose": _transpose,
    **dict.fromkeys(POOLS | GLOBAL_POOLS, _windows),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
}
_ROOMS: Final = (_KINDS, JOINED, PLACED, SEQUENCES, STEPS, STRIDED)
