"""Which kinds of operators can be split, and along which axes: their geometry, from shapes and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import UPPER_BOUND, Operator
from onchip.ir.tensor import Tensor
from onchip.ir.window import integer, integers
from onchip.ops.contractions.products import gemm, product
from onchip.ops.derive.geometry import Geometry, Span
from onchip.ops.pointwise.joined_kinds import JOINED
from onchip.ops.pointwise.placed_kinds import PLACED
from onchip.ops.pointwise.step_kinds import STEPS
from onchip.ops.pointwise.strided_copies import STRIDED
from onchip.ops.registry.entry import per_channel, spread, unknown
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
    last, as_model = max(entry.factors), outline.is_model or operator.kind != "ConvTranspose"
    if "U2" in entry.loops and not as_model:
        return None
    pixels = [at for at, one in enumerate(entry.operands[0]) if any(loop.startswith("P") for loop in one.terms)]
    operands, write = dict(entry.operands), entry.operands[0]
    for place, shape in enumerate(shapes[1:], 1):
        if place not in operands:
            lies = per_channel(write, shape) if 1 < last < place and pixels[0] > 1 else unknown(shape)
            operands |= {} if lies is None else {place: lies}
    if last == 1 and outline.is_model:
        operands |= dict.fromkeys(range(1 - len(operator.outputs), 0), write)
    return outline.cut(replace(entry, operands=operands, summed=entry.summed if as_model else ""), pixels[1:])


def _gemm(outline: Outline) -> Geometry | None:
    """Features that lie in several dimensions are known as they are stored, or else, and of parts, as they are seen."""
    shown = [outline.shapes()] if any(outline.parts) else [outline.stored_shapes(), outline.shapes()]
    for shapes in shown:
        try:
            entry = gemm(outline.operator, [outline.written, *shapes], is_model=outline.is_model)
        except NoLayerError:
            continue
        rows = [at for at, size in enumerate(outline.written[:-1]) if size > 1]
        if (found := outline.cut(entry, rows[1:], shapes)) is not None:
            return found
    return None


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
    if not is_left_first or prod(map(prod, shapes[2:place])) > 1:
        return None
    if operator.parameters and shapes[1][-2:] == shapes[place][-2:]:
        entry = replace(entry, uncut=frozenset("NK"), summed="")
    many = [index for index, size in enumerate(shapes[0][:-1]) if size > 1]
    write, last = entry.operands[0], max(entry.factors)
    others = {at: unknown(shape) for at, shape in enumerate(shapes) if at not in entry.operands}
    if not entry.uncut:
        others |= {at: spread(write, shape) or unknown(shape) for at, shape in enumerate(shapes) if at > last}
    return outline.cut(replace(entry, operands={**entry.operands, **others}), many[:-2])


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
