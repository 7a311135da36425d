"""Matrix products as loop nests: N the rows, C the depth, K the columns, G the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, zip_longest
from math import prod
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.window import Product, integer, product_of, stated_factors
from onchip.ops.contractions.contractions import nests_of
from onchip.ops.registry.entry import AffineDimension, OperatorEntry, spread
from onchip.ops.windows.sliding_windows import NoLayerError, Shape

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
        raise NoLayerError("its operands do not fit each other")
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
