"""Operators that sum products: matrix products, einsums, packed weights and attention.

Query heads that share keys and values are rows of one product, since their queries meet the same keys. With a KV cache
the queries also meet the keys and values of earlier tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, zip_longest
from math import prod
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import SEEN_SHAPES, Operator
from onchip.ir.window import Product, Shape, integer, product_of, stated_factors
from onchip.ops.slicing import (
    COMPARED,
    MULTIPLIED,
    SUMMED,
    AffineDimension,
    OperatorEntry,
    along,
    lone_loops,
    per_channel,
    spread,
    unknown,
)
from onchip.ops.windows import NoLayerError

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
    write, reads = along(output, "G"), along(source, "C")
    longest = max((at for at in range(len(source)) if at not in kept), key=lambda at: source[at], default=None)
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


FUSED_PRODUCT: Final = "com.microsoft::FusedMatMul"
PRODUCTS: Final = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul", "BATCH_MATMUL", FUSED_PRODUCT})
GEMMS: Final = frozenset({"Gemm", "com.microsoft::FusedGemm"})
MATRIX_KINDS: Final = PRODUCTS | GEMMS | {"FULLY_CONNECTED"}
PACKED_PRODUCT: Final = "com.microsoft::MatMulNBits"
"""The kind with block-quantised weights of a few bits: its loop nest has more weight elements than their tensor."""


def gemm(operator: Operator, shapes: Sequence[Shape], *, is_model: bool = True) -> OperatorEntry:
    """Return the entry of a Gemm: N rows, C features, K columns. Raises NoLayerError if the shapes are inconsistent.

    Of three operands, the matrix is the last one if it is a parameter that follows an addend, or if the other is a row.
    If neither operand is a matrix of the input's features as stored, the shapes give only the extents (`_sized_gemm`).
    """
    factors = stated_factors(operator)
    if factors and (max(map(len, factors)) > 2 or prod(shapes[1]) not in map(prod, factors)):
        return _product_and_addend(operator, factors, shapes)
    is_behind = len(shapes) > 3 and (len(shapes[2]) < 2 or (is_model and len(operator.inputs) == 2))
    for place in (2, 3) if is_behind else range(2, min(len(shapes), 3)):
        layout = product_of(operator, shapes[1], shapes[place], shapes[0], is_model=is_model)
        if layout is not None:
            return _gemm_as_laid_out(layout, shapes, place)
    return _sized_gemm(shapes)


def _product_and_addend(operator: Operator, factors: Sequence[Shape], shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of batched matrices, or of factors that an export lists with the addend in any order.

    Raises NoLayerError if the shapes do not identify the factors.
    """
    pairs = [*permutations(range(1, len(shapes)), 2)]
    exact = [pair for pair in pairs if [shapes[place] for place in pair] == [*factors]]
    fitting = exact or [pair for pair in pairs if [prod(shapes[place]) for place in pair] == [*map(prod, factors)]]
    if len(shapes) != 4 or len(fitting) != 1:
        raise NoLayerError("its first operand is no factor of one product")
    entry = product(operator, [shapes[0], *factors])
    first, second = (fitting[0][place - 1] for place in entry.factors)
    return OperatorEntry(factors=(first, second), stated=nests_of(entry))


def _gemm_as_laid_out(layout: Product, shapes: Sequence[Shape], place: int) -> OperatorEntry:
    """Return the entry with exact loops; a flat source has several feature dimensions.

    The first of these that is longer than 1 may be cut.
    """
    output, source, matrix = shapes[0], shapes[1], shapes[place]
    depths = source[1:] if layout.is_flat else (matrix[int(layout.is_weight_transposed)],)
    loops = {f"N{at}": size for at, size in enumerate(output[:-1])} | {"K": output[-1]}
    loops |= {f"C{at}": size for at, size in enumerate(depths, 1)}
    rows = tuple(AffineDimension(size, {f"N{at}": 1}) for at, size in enumerate(output[:-1]))
    columns = AffineDimension(output[-1], {"K": 1})
    read = (*rows, *(AffineDimension(size, {f"C{at}": 1}) for at, size in enumerate(depths, 1)))
    features = AffineDimension(prod(depths), {f"C{at}": prod(depths[at:]) for at in range(1, len(depths) + 1)})
    weight = (columns, features) if layout.is_weight_transposed else (features, columns)
    others = {at: spread((*rows, columns), shape) for at, shape in enumerate(shapes) if at not in (0, 1, place)}
    operands = {
        **{at: dimensions for at, dimensions in others.items() if dimensions is not None},
        0: (*rows, columns),
        1: read[::-1] if layout.is_source_transposed else read,
        place: weight,
    }
    return OperatorEntry(loops, operands, (1, place), f"C{layout.unit if layout.is_flat else 1}")


def _sized_gemm(shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry by sizes alone: the weight is the second factor or, if that is the input, the first one.

    The input may be larger than the part that the product reads. Raises NoLayerError if the shapes are inconsistent.
    """
    output, source, place = shapes[0], shapes[1], matrix_place(shapes)
    weight = shapes[place]
    if not output:
        raise NoLayerError("its weight is no matrix")
    rows, columns = prod(output[:-1]), output[-1]
    fits, is_left = (one * prod(weight) == other * prod(source) for one, other in ((rows, columns), (columns, rows)))
    if is_left and not fits and prod(weight) % rows == 0:
        return OperatorEntry(factors=(1, place), stated={"": Layer(n=columns, k=rows, c=prod(weight) // rows)})
    if prod(weight) % columns:
        raise NoLayerError("its weight is no matrix")
    layer = Layer(n=rows, k=columns, c=prod(weight) // columns)
    if layer.n * layer.c > prod(source):
        raise NoLayerError("its operands do not fit its output")
    return OperatorEntry(factors=(1, place), stated={"": layer})


def product(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a MatMul of ONNX, TFLite or onnxruntime, whose attributes give the transposed factors.

    A batch between the dimensions of a matrix is not supported. Parameters follow inputs, so the second operand may be
    the left factor. Raises NoLayerError if the shapes are inconsistent.
    """
    names = ("transA", "transB") if operator.kind == FUSED_PRODUCT else ("adj_x", "adj_y")
    if integer(operator, "transBatchA", 0) or integer(operator, "transBatchB", 0):
        raise NoLayerError("its batch lies inside its matrices")
    places, is_turned = (1, second_place(shapes)), [bool(integer(operator, name, 0)) for name in names]
    left, right = (_turned(shapes[place], turned) for place, turned in zip(places, is_turned, strict=True))
    if not is_product(shapes[0], left, right):
        factors = [_turned(shapes[place], turned) for place, turned in zip(places[::-1], is_turned, strict=True)]
        if is_product(shapes[0], *factors):
            (left, right), places = factors, places[::-1]
    *batch, rows, depth = left if len(left) > 1 else (1, *left)
    *other, same_depth, columns = right if len(right) > 1 else (*right, 1)
    if depth != same_depth:
        raise NoLayerError("its operand shapes are inconsistent")
    products = prod(shapes[0]) // (rows * columns)
    if prod(map(max, _pairs(batch, other))) != products == prod(batch) and _above_one(batch) == _above_one(other):
        batch, other = _above_one(batch), _above_one(other)
    if any(one != many and 1 not in (one, many) for one, many in _pairs(batch, other)):
        raise NoLayerError("its operands do not spread over each other")
    many = [*map(max, _pairs(batch, other))]
    loops = {"N": rows, "C": depth, "K": columns, **{f"B{at}": size for at, size in enumerate(many)}}
    first = _factor(loops, batch, "CN" if is_turned[0] else "NC")
    second = _factor(loops, other, "KC" if is_turned[1] else "CK")
    write = _factor(loops, many[::-1], "NK")
    return OperatorEntry(loops, {0: write, places[0]: first, places[1]: second}, _factors(shapes, max(places)), "C")


def _factor(loops: Mapping[str, int], batch: Sequence[int], inner: str) -> tuple[AffineDimension, ...]:
    """Return the dimensions of batched matrices along two loops; batch loops are numbered from the last dimension."""
    outer = ((f"B{at}", size) for at, size in reversed([*enumerate(reversed(batch))]))
    batches = [AffineDimension(size, {loop: 1} if size == loops[loop] else {}) for loop, size in outer]
    return (*batches, *(AffineDimension(loops[loop], {loop: 1}) for loop in inner))


def _factors(shapes: Sequence[Shape], second: int) -> tuple[int, int]:
    """Return input and weight: the second operand is the weight unless it alone is batched."""
    return (second, 1) if prod(shapes[second][:-2]) != 1 == prod(shapes[1][:-2]) else (1, second)


def rows_of_units(_operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a FULLY_CONNECTED, whose weight has a row of features per unit. Raises NoLayerError."""
    output, source, *_ = shapes
    place = matrix_place(shapes)
    units, features = shapes[place][-2:]
    rows, rest = divmod(prod(output), units)
    if rest or rows * features != prod(source):
        raise NoLayerError("its operands do not fit its output")
    return OperatorEntry(factors=(1, place), stated={"": Layer(n=rows, k=units, c=features)})


def _turned(shape: Shape, is_turned: bool) -> Shape:
    return (*shape[:-2], *shape[:-3:-1]) if is_turned else shape


def is_product(output: Shape, left: Shape, right: Shape) -> bool:
    """Return True if the matrices `left` times the matrices `right` have as many elements as the output."""
    rows, columns = left[-2:-1] or (1,), right[-1:] if len(right) > 1 else (1,)
    depth = right[-2] if len(right) > 1 else right[-1]
    batch = (max(sizes) for sizes in zip_longest(reversed(left[:-2]), reversed(right[:-2]), fillvalue=1))
    return left[-1] == depth and prod(rows) * prod(columns) * prod(batch) == prod(output)


def product_of_packed_weights(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a MatMulNBits, whose attributes give the sizes of its weights. Raises NoLayerError.

    The weights are packed in blocks, so no tensor of the network is a factor.
    """
    depth, columns = (integer(operator, name, 0) for name in ("K", "N"))
    rows, left = divmod(prod(shapes[1]), max(depth, 1))
    if min(depth, columns, rows) < 1 or left or rows * columns != prod(shapes[0]):
        raise NoLayerError("its operands do not fit its output")
    return OperatorEntry(stated={"": Layer(n=rows, c=depth, k=columns)})


def matrix_place(shapes: Sequence[Shape]) -> int:
    """Return the position of a Gemm's weight: the first operand after the input with two dimensions or more.

    Raises NoLayerError if there is none.
    """
    for place, shape in enumerate(shapes[2:], 2):
        if len(shape) >= 2:
            return place
    raise NoLayerError("its weight is no matrix")


def second_place(shapes: Sequence[Shape]) -> int:
    """Return the position of a MatMul's second operand, skipping scales and zero points; raises NoLayerError."""
    first = shapes[1]
    for place, shape in enumerate(shapes[2:], 2):
        if first and (len(shape) > 1 or (shape and shape[0] == first[-1])):
            return place
    raise NoLayerError("its operands are no matrices")


def products_of_heads(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of `batch` products of `rows` x `depth` times `depth` x `columns`, as attributes say.

    Raises NoLayerError if an attribute or an operand is missing.
    """
    sizes = [operator.attributes.get(name) for name in ("rows", "columns", "depth", "batch")]
    whole = [size for size in sizes if isinstance(size, int) and size > 0]
    if len(whole) < len(sizes):
        raise NoLayerError("nothing says how large its products are")
    if len(shapes) < 3:
        raise NoLayerError("it reads less than its kind does")
    rows, columns, depth, batch = whole
    return OperatorEntry(factors=(1, 2), stated={"": Layer(n=rows, k=columns, c=depth, g=batch)})


def _above_one(batch: Sequence[int]) -> list[int]:
    return [size for size in batch if size > 1]


def _pairs(batch: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """Return the sizes of two batches paired from their last dimension."""
    return [*zip_longest(reversed(batch), reversed(other), fillvalue=1)]


PROJECTED: Final = "com.microsoft::Attention"
"""The kind that computes queries, keys and values itself, with one matrix."""
ATTENTION: Final = frozenset(
    {"Attention", "com.microsoft::MultiHeadAttention", "com.microsoft::GroupQueryAttention", PROJECTED}
)
_QUERY_HEADS: Final = ("q_num_heads", "num_heads")
_KEY_HEADS: Final = ("kv_num_heads", "num_heads")


@dataclass(frozen=True, slots=True)
class AttentionHeads:
    """The shape of an attention: `batch` key heads in total, each shared by `group` query heads.

    `queries` and `keys` are the number of queries per query head and of keys per key head.
    """

    batch: int
    queries: int
    keys: int
    query_width: int
    value_width: int
    group: int = 1

    @property
    def scores(self) -> Layer:
        """Return the loop nest of queries times keys, a group for each head of keys."""
        return Layer(n=self.group * self.queries, k=self.keys, c=self.query_width, g=self.batch)

    @property
    def values(self) -> Layer:
        """Return the loop nest of scores times values, a group for each head of values."""
        return Layer(n=self.group * self.queries, k=self.value_width, c=self.keys, g=self.batch)


@dataclass(frozen=True, slots=True)
class _CutOperands:
    """The shapes of queries, keys and values with a head axis each, and the shapes of the other operands (`beside`)."""

    queries: Shape
    keys: Shape
    values: Shape
    beside: Sequence[Shape]

    @classmethod
    def of(cls, operator: Operator, shapes: Sequence[Shape]) -> _CutOperands:
        """Return the operands of an attention; raises NoLayerError if heads are unknown or shapes inconsistent."""
        listed = operator.attributes.get("input_shapes", operator.attributes.get(SEEN_SHAPES))
        sights = [_sizes(shape) for shape in listed] if isinstance(listed, list) else []
        operands = [*sights, *shapes[1 + len(sights) :]]
        if len(operands) < 3:
            raise NoLayerError("nothing says how its operands are cut into heads")
        queries = _cut(operands[0], _number(operator, _QUERY_HEADS))
        keys, values = (_cut(shape, _number(operator, _KEY_HEADS)) for shape in operands[1:3])
        if min(len(queries), len(keys), len(values)) < 3:
            raise NoLayerError("nothing says how its operands are cut into heads")
        if keys[:-1] != values[:-1] or queries[-1] != keys[-1]:
            raise NoLayerError("its queries, keys and values do not fit each other")
        if queries[:-3] != keys[:-3] or queries[-3] % keys[-3]:
            raise NoLayerError("its heads share keys or values unevenly")
        return cls(queries, keys, values, operands[3:])

    @property
    def cache_place(self) -> int | None:
        """Return the index in `beside` of the cached keys, directly before their values; None without a cache.

        The cache is the last adjacent pair of operands that have the heads and widths of keys and values.
        """
        (*heads, _, depth), width = self.keys, self.values[-1]
        for place, (keys, values) in reversed(list(enumerate(pairwise(self.beside)))):
            if len(keys) == 4 and ([*keys[:2]], keys[3]) == (heads, depth) and values == (*keys[:3], width):
                return place
        return None


def heads_of(operator: Operator, shapes: Sequence[Shape], present: Shape | None = None) -> AttentionHeads:
    """Return the heads of an attention; `shapes` are output, inputs and parameters, with queries, keys, values first.

    The export's `input_shapes` give the split of queries, keys and values into heads; otherwise the numbers of heads
    do. `present` is the shape of all keys, cached ones included, if the operator writes them. Raises NoLayerError if
    the split is unknown.
    """
    cut = _CutOperands.of(operator, shapes)
    (*heads, new, depth), place = cut.keys, cut.cache_place
    met = new if place is None else new + cut.beside[place][2]
    if present is not None and len(present) == 4 and ([*present[:2]], present[3]) == (heads, depth):
        met = present[2]
    group = cut.queries[-3] // cut.keys[-3]
    return AttentionHeads(prod(heads), cut.queries[-2], met, depth, cut.values[-1], group)


def cached_operands(operator: Operator, shapes: Sequence[Shape]) -> tuple[str, str] | None:
    """Return the names of the cached keys and values, or None without a cache; raises NoLayerError."""
    place = _CutOperands.of(operator, shapes).cache_place
    if place is None:
        return None
    names = (*operator.inputs, *operator.parameters)
    return names[3 + place], names[4 + place]


def present_keys(graph: Graph, operator: Operator) -> Shape | None:
    """Return the shape of the second output, all keys of an attention with a cache; None without that output."""
    return graph.tensor[operator.outputs[1]].shape if len(operator.outputs) > 1 else None


def attention(operator: Operator, shapes: Sequence[Shape], present: Shape | None = None) -> Mapping[str, Layer]:
    """Return two products per head, scores and their weighted sums of values; the softmax costs nothing.

    Raises NoLayerError if the split of the operands into heads is unknown.
    """
    if operator.kind == PROJECTED:
        return _with_projection(operator, shapes)
    heads = heads_of(operator, shapes, present)
    return {"scores": heads.scores, "values": heads.values}


def _with_projection(operator: Operator, shapes: Sequence[Shape]) -> Mapping[str, Layer]:
    """Return projection, scores and values: the input times one matrix gives queries, keys and values side by side."""
    output, source, *others = shapes
    heads = integer(operator, "num_heads", 0)
    weight = next((shape for shape in others if len(shape) == 2 and shape[0] == source[-1]), None)
    if len(source) != 3 or weight is None or heads < 1:
        raise NoLayerError("nothing says how its operands are cut into heads")
    batch, rows, features = source
    widths = operator.attributes.get("qkv_hidden_sizes")
    columns = _sizes(widths) or (weight[1] // 3,) * 3
    if len(columns) != 3 or sum(columns) != weight[1] or columns[0] != columns[1] or columns[2] != output[-1]:
        raise NoLayerError("its weights are not those of queries, keys and values")
    past = next((shape for shape in others if len(shape) == 5 and shape[:3] == (2, batch, heads)), None)
    keys = rows + (past[3] if past else 0)
    parts = AttentionHeads(batch * heads, rows, keys, columns[0] // heads, columns[2] // heads)
    projection = Layer(n=batch * rows, c=features, k=weight[1])
    return {"projection": projection, "scores": parts.scores, "values": parts.values}


def _cut(shape: Shape, heads: int | None) -> Shape:
    """Split rows of concatenated heads: batch, heads, rows, width."""
    if heads is None or len(shape) != 3:
        return shape
    batch, rows, width = shape
    if heads < 1 or width % heads:
        raise NoLayerError(f"its width {width} does not make {heads} heads")
    return batch, heads, rows, width // heads


def _number(operator: Operator, names: Sequence[str]) -> int | None:
    """Return the number of heads that the first attribute present gives, or None without such an attribute."""
    return next((integer(operator, name, 0) for name in names if name in operator.attributes), None)


def _sizes(shape: object) -> Shape:
    return tuple(size for size in shape if isinstance(size, int)) if isinstance(shape, list) else ()
