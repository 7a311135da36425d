"""The entries of all operator kinds, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import RIGHT, UPPER_BOUND, WEIGHT_FACTOR, Operator
from onchip.ir.tensor import Tensor
from onchip.ir.window import Shape
from onchip.ops.contractions import (
    ELEMENT_BY_ELEMENT,
    GEMMS,
    PACKED_PRODUCT,
    PRODUCTS,
    REDUCTIONS,
    batch_normalization,
    einsum,
    elementwise,
    gemm,
    product,
    product_of_packed_weights,
    products_of_heads,
    reduction,
    rows_of_units,
)
from onchip.ops.pointwise import JOINED, PLACED, STRIDED, TRANSPOSED
from onchip.ops.sequences import SEQUENCES
from onchip.ops.slicing import Geometry, OperatorEntry, Outline, per_channel, spread, unknown
from onchip.ops.windows import WINDOWS, NoLayerError, transposed_with_bias, window_of_channels

ELEMENTWISE: Final = frozenset(
    {"Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "HardSwish", "Silu", "Swish", "Mish", "Tanh", "Gelu"}
    | {"Softplus", "Identity", "Neg", "Abs", "Exp", "Log", "Sqrt", "Erf", "Reciprocal", "Celu", "Softsign", "Cast"}
    | {"Ceil", "Cos", "Floor", "IsInf", "IsNaN", "Not", "Round", "Sign", "Sin", "ThresholdedRelu"}
    | {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Sum", "Max", "Min", "Mean", "Clip", "PRelu", "Where"}
    | {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor"}
    | {"QuantizeLinear", "DequantizeLinear"}
)
REDUCING: Final = REDUCTIONS | {"ReduceLogSumExp", "ArgMax", "ArgMin"}
ENTRIES: Final[Mapping[str, Callable[[Operator, Sequence[Shape]], OperatorEntry]]] = {
    **WINDOWS,
    **dict.fromkeys(PRODUCTS, product),
    **dict.fromkeys(GEMMS, gemm),
    "FULLY_CONNECTED": rows_of_units,
    PACKED_PRODUCT: product_of_packed_weights,
    "HeadProducts": products_of_heads,
    "Einsum": einsum,
    "LRN": window_of_channels,
    **dict.fromkeys(ELEMENTWISE | ELEMENT_BY_ELEMENT, elementwise),
    **dict.fromkeys(REDUCING, reduction),
    "BatchNormalization": batch_normalization,
}
"""Entry functions by kind, of an operator and the shapes of its output, inputs and parameters."""


def geometry_of(operator: Operator, graph: Graph, *, is_model: bool) -> Geometry | None:
    """Return the operator's geometry; None if its kind or shapes (scalars) prevent a split, or it is a tile."""
    tensors = [graph.tensor[name] for name in (*operator.inputs, *operator.parameters, *operator.outputs)]
    if operator.tile is not None or not operator.reads or any(not _can_be_cut(tensor) for tensor in tensors):
        return None
    if has_bounded_operand(operator, graph):
        return None
    describe = next((kinds[operator.kind] for kinds in _ROOMS if operator.kind in kinds), None)
    outline = Outline(operator, graph, is_model)
    geometry = None if describe is None else describe(outline)
    if isinstance(geometry, OperatorEntry):
        geometry = outline.cut(geometry)
    return geometry if geometry is not None and geometry.axes else None


def has_bounded_operand(operator: Operator, graph: Graph) -> bool:
    """Return True if an operand may be smaller at run time than its upper bound, which shifts its elements."""
    writers = (graph.producer.get(name) for name in operator.inputs)
    return any(UPPER_BOUND in one.attributes for one in (operator, *writers) if one is not None)


def _can_be_cut(tensor: Tensor) -> bool:
    return tensor.shape is not None and tensor.bits is not None and tensor.bits % 8 == 0 and tensor.part_of is None


def _windows(outline: Outline) -> Geometry | None:
    """Return the geometry of a windowed kind: scales and biases after the weight are per channel.

    A pool of a model may have further outputs. Transposed convolutions are cut along C, or with undetermined padding,
    only if they come from a model.
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
    """Return the geometry of a Gemm, from the stored shapes if possible, else from the viewed shapes.

    Partial views are described by the viewed shapes only.
    """
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
    """Return the geometry of a MatMul; scales and zero points before its second operand must be single elements.

    Two square matrices, one of them a parameter, are cut along batches only, unless the operator states which factor
    the parameter is.
    """
    operator, shapes = outline.operator, [outline.written, *outline.shapes()]
    try:
        entry = product(operator, shapes)
    except NoLayerError:
        return None
    place, is_left_first = max(entry.operands), any("N" in one.terms for one in entry.operands[1])
    if not is_left_first or prod(map(prod, shapes[2:place])) > 1:
        return None
    states_factor = operator.attributes.get(WEIGHT_FACTOR) == RIGHT
    if operator.parameters and shapes[1][-2:] == shapes[place][-2:] and not states_factor:
        entry = replace(entry, uncut=frozenset("NK"), summed="")
    many = [index for index, size in enumerate(shapes[0][:-1]) if size > 1]
    write, last = entry.operands[0], max(entry.factors)
    others = {at: unknown(shape) for at, shape in enumerate(shapes) if at not in entry.operands}
    if not entry.uncut:
        others |= {at: spread(write, shape) or unknown(shape) for at, shape in enumerate(shapes) if at > last}
    return outline.cut(replace(entry, operands={**entry.operands, **others}), many[:-2])


def _stated(outline: Outline) -> OperatorEntry | None:
    """Return the entry that also gives the loop nests, or None without one."""
    try:
        return ENTRIES[outline.operator.kind](outline.operator, [outline.written, *outline.shapes()])
    except NoLayerError:
        return None


_KINDS: Final[Mapping[str, Callable[[Outline], Geometry | OperatorEntry | None]]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "custom.Convolution2DTransposeBias"), _windows),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _windows),
    "Gemm": _gemm,
    "MatMul": _matmul,
    **dict.fromkeys(ELEMENTWISE | REDUCING | {"BatchNormalization", "LRN"}, _stated),
}
_ROOMS: Final = (_KINDS, JOINED, PLACED, TRANSPOSED, SEQUENCES, STRIDED)
