"""Entries of contractions over named axes, element-wise operators and reductions, and the loop nest of an entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.window import integer
from onchip.ops.pointwise.partial_sums import COMPARED, MULTIPLIED, SUMMED
from onchip.ops.registry.entry import AffineDimension, OperatorEntry, along, lone_loops, per_channel, spread, unknown
from onchip.ops.windows.sliding_windows import NoLayerError, Shape

ELEMENT_BY_ELEMENT: Final = frozenset(
    {"Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg"}
    | {"Reciprocal", "Relu", "Selu", "Sigmoid", "Silu", "Softplus", "Sqrt", "Swish", "Tanh"}
    | {"Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum"}
    | {"QuantizeLinear", "DequantizeLinear", "PRelu", "BatchNormalization"}
)
REDUCTIONS: Final = frozenset(
    {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"}
    | {"ReduceLogSum"}
)
_OF_TWO: Final = frozenset({"Add", "Div", "Mul", "Pow", "PRelu", "Sub"})
"""Kinds with two operands; any further operand belongs to an activation fused into them."""


@dataclass(frozen=True, slots=True)
class MetAxis:
    """An axis of a product, and whether the first operand, the second operand and the output have it."""

    size: int
    in_first: bool
    in_second: bool
    in_output: bool


def contraction(axes: Iterable[MetAxis]) -> Layer:
    """Return the loop nest: axes of all three are G, summed axes C, axes of the first operand N, of the second K.

    Raises NoLayerError for a summed axis of only one operand.
    """
    n = k = c = g = 1
    for axis in axes:
        match axis.in_first, axis.in_second, axis.in_output:
            case True, True, True:
                g *= axis.size
            case True, True, False:
                c *= axis.size
            case True, False, True:
                n *= axis.size
            case False, True, True:
                k *= axis.size
            case _ if axis.size > 1:
                raise NoLayerError("it adds up an axis of one operand alone")
    return Layer(n=n, k=k, c=c, g=g)


def nests_of(entry: OperatorEntry) -> Mapping[str, Layer]:
    """Return the loop nests of an entry; raises NoLayerError if it has none.

    For the sum of a single factor, the loops of the output are groups.
    """
    if entry.stated:
        return entry.stated
    if not entry.factors:
        raise NoLayerError(entry.why)
    having = [{loop for one in entry.operands[place] for loop in one.terms} for place in (*entry.factors, 0)]
    if len(entry.factors) == 1:
        kept = prod(size for loop, size in entry.loops.items() if loop in having[1])
        return {"": Layer(g=kept, c=prod(entry.loops.values()) // kept, has_weight=False)}
    axes = (MetAxis(size, *(loop in loops for loops in having)) for loop, size in entry.loops.items())
    return {"": contraction(axes)}


def _spread(first: Shape, second: Shape) -> list[MetAxis]:
    """Return the axes of two shapes under ONNX broadcasting; raises NoLayerError if they are incompatible."""
    axes = []
    for one, other in zip_longest(reversed(first), reversed(second), fillvalue=1):
        if one != other and 1 not in (one, other):
            raise NoLayerError("its operands do not spread over each other")
        if max(one, other) > 1:
            axes.append(MetAxis(max(one, other), one > 1, other > 1, in_output=True))
    return axes


def elementwise(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of an element-wise kind.

    Operands are broadcast as in ONNX; the scales of a quantisation are along the channels. Behind views, shapes give
    only the extents of the nest, as in `_met_elements`.
    """
    write = along(shapes[0])
    is_scaled = operator.kind in ("QuantizeLinear", "DequantizeLinear") and integer(operator, "axis", 1) == 1
    lies = per_channel if is_scaled else spread
    reads = {place: lies(write, shape) or unknown(shape) for place, shape in enumerate(shapes[1:], 1)}
    return _with_met_elements(operator, shapes, {0: write, **reads})


def batch_normalization(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a normalisation by training statistics; its nest is the product with the scales.

    An operator fused into it may write the same map with more or fewer dimensions of size 1.
    """
    output, source, *parameters = shapes
    write, places = along(output), _places_but_for_ones(source, output)
    if places is None or len(source) < 2 or any(shape not in ((source[1],), (1,), ()) for shape in parameters):
        return _with_met_elements(operator, shapes, {})
    read = tuple(AffineDimension(1, {}) if at is None else write[at] for at in places)
    lies = {at: (read[1],) if shape == (source[1],) else unknown(shape) for at, shape in enumerate(parameters, 2)}
    return _with_met_elements(operator, shapes, {0: write, 1: read, **lies})


def _places_but_for_ones(source: Shape, written: Shape) -> list[int | None] | None:
    """Map each source dimension to an output dimension, or None if its size is 1; None if other dimensions differ."""
    if source == written:
        return [*range(len(written))]
    longer = [at for at, size in enumerate(written) if size > 1]
    if [size for size in source if size > 1] != [written[at] for at in longer]:
        return None
    left = iter(longer)
    return [next(left) if size > 1 else None for size in source]


def _with_met_elements(
    operator: Operator, shapes: Sequence[Shape], operands: Mapping[int, tuple[AffineDimension, ...]]
) -> OperatorEntry:
    loops = lone_loops(operands)
    if operator.kind not in ELEMENT_BY_ELEMENT:
        return OperatorEntry(loops, operands)
    try:
        places = _met_places(operator, shapes)
        layer = _met_elements(shapes[0], [shapes[place] for place in places])
    except NoLayerError as error:
        return OperatorEntry(loops, operands, why=str(error))
    return OperatorEntry(loops, operands, tuple(places[: 1 + layer.has_weight]), stated={"": layer})


def _met_places(operator: Operator, shapes: Sequence[Shape]) -> list[int]:
    """Return the positions of the operands that meet element by element, the largest first; the output is position 0.

    Single-element operands next to two others are constants, such as the scales of quantised operators. For a
    normalisation by training statistics the scale is met, since the other parameters are folded into it. Raises
    NoLayerError if there are no operands, as for random numbers.
    """
    if len(shapes) < (3 if operator.kind == "BatchNormalization" else 2):
        raise NoLayerError("it reads less than its kind does")
    places = list(range(1, 3 if operator.kind == "BatchNormalization" else len(shapes)))
    several = [place for place in places if prod(shapes[place]) > 1]
    if operator.kind in _OF_TWO and len(several) > 2:
        places = several[:2]
    first, *others = sorted(places, key=lambda place: -prod(shapes[place]))
    if len(others) > 1:
        others = [place for place in others if prod(shapes[place]) > 1]
    return [first, *others]


def _met_elements(output: Shape, operands: Sequence[Shape]) -> Layer:
    """Return the loop nest of an element-wise operator: all loops are groups, so that no operand is reused.

    Each element of a smaller operand meets one element in each of N rows, wherever these are; a single element is a
    constant. If both operands are broadcast, each element of one meets those along the other's axes. Raises
    NoLayerError for other shapes.
    """
    first, *others = operands
    if len(others) > 1:
        raise NoLayerError("its operands are not one or two of the output's size")
    if prod(first) != prod(output):
        layer = contraction(_spread(first, others[0] if others else ()))
        if layer.macs != prod(output):
            raise NoLayerError("its operands are not one or two of the output's size")
        return layer
    if others and prod(others[0]) == prod(output):
        return Layer(g=prod(output))
    if not others or prod(others[0]) == 1:
        return _of_one_operand(output)
    if prod(output) % prod(others[0]):
        raise NoLayerError("its second operand does not spread over the output")
    return Layer(n=prod(output) // prod(others[0]), g=prod(others[0]))


def _of_one_operand(shape: Shape) -> Layer:
    """Return the nest with channels as groups and, in more than two dimensions, the last two as height and width."""
    batch, channels, *pixels = (*shape, 1, 1)[: max(len(shape), 2)]
    return Layer(n=batch, g=channels, p=prod(pixels[:-1]), q=pixels[-1] if pixels else 1, has_weight=False)


def reduction(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a reduction: loops G are kept, loops C are reduced; slices may cut the longest of these.

    Raises NoLayerError if the sizes are not those of a reduction.
    """
    output, source = shapes[:2]
    if prod(source) % prod(output):
        raise NoLayerError("its output does not divide its input")
    kept, factors = kept_dimensions(operator, source, output), (1,) if operator.kind in REDUCTIONS else ()
    if kept is None:
        layer = Layer(g=prod(output), c=prod(source) // prod(output), has_weight=False)
        return OperatorEntry(factors=factors, stated={"": layer})
    write, reads, longest = along(output, "G"), along(source, "C"), longest_reduced(source, kept)
    read = tuple(write[kept[at]] if at in kept else one for at, one in enumerate(reads))
    operands = {0: write, 1: read, **{at: unknown(shape) for at, shape in enumerate(shapes[2:], 2)}}
    in_parts = longest is not None and operator.kind in SUMMED | COMPARED | MULTIPLIED
    return OperatorEntry(lone_loops(operands), operands, factors, f"C{longest}" if in_parts else "")


def kept_dimensions(operator: Operator, source: Shape, written: Shape) -> dict[int, int] | None:
    """Map the input dimensions that a reduction keeps to output dimensions; None if the attributes do not give them."""
    if len(source) == len(written):
        is_known = all(size in (of, 1) for size, of in zip(written, source, strict=True))
        return {at: at for at, size in enumerate(source) if size == written[at]} if is_known else None
    axes = operator.attributes.get("axes", operator.attributes.get("axis"))
    listed = axes if isinstance(axes, list) else [axes]
    reduced = {one % len(source) for one in listed if isinstance(one, int)} if source else set[int]()
    places = [at for at in range(len(source)) if at not in reduced]
    is_known = [source[at] for at in places] == list(written)
    return {at: axis for axis, at in enumerate(places)} if is_known else None


def longest_reduced(source: Shape, kept: Mapping[int, int]) -> int | None:
    """Return the longest reduced dimension, along which a reduction may be split; None if it reduces none."""
    return max((at for at in range(len(source)) if at not in kept), key=lambda at: source[at], default=None)


def einsum(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of an Einsum, with a loop per letter; it has a nest if it has two factors, or sums up one.

    Raises NoLayerError if its equation does not name the axes of its operands.
    """
    equation = operator.attributes.get("equation")
    left, arrow, written = (equation if isinstance(equation, str) else ".").replace(" ", "").partition("->")
    if "." in left + written:
        raise NoLayerError("its equation does not name all axes")
    terms, sizes = _sized_terms(left.split(","), written if arrow else None, shapes)
    named = (written, *terms) if arrow else ("", *terms)
    operands = {at: tuple(AffineDimension(sizes[one], {one: 1}) for one in term) for at, term in enumerate(named)}
    why = "" if arrow else "its equation does not name all axes"
    if len(terms) > 2 or any(len(set(term)) < len(term) for term in terms):
        why = why or "it is no product of two operands"
    elif len(terms) == 1 and prod(shapes[0]) == prod(shapes[1]):
        why = why or "it moves elements and multiplies none"
    return OperatorEntry(sizes, operands, () if why else tuple(range(1, len(named))), why=why)


def _sized_terms(
    terms: Sequence[str], written: str | None, shapes: Sequence[Shape]
) -> tuple[Sequence[str], Mapping[str, int]]:
    """Return the terms in operand order, and the size of each axis; raises NoLayerError if no order fits.

    Parameters follow inputs, so the operands may be listed in another order than the terms.
    """
    output, *operands = shapes
    for listed in (terms, terms[::-1]):
        if [*map(len, listed)] == [*map(len, operands)]:
            axes = [pair for each in zip(listed, operands, strict=True) for pair in zip(*each, strict=True)]
            sizes = dict(axes)
            is_one_size = all(sizes[axis] == size for axis, size in axes)
            fits = written is None or tuple(sizes.get(axis) for axis in written) == output
            if is_one_size and fits:
                return listed, sizes
    raise NoLayerError("its operands are views of other shapes")
