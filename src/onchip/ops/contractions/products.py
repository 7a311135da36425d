"""Matrix products as loop nests: N the rows, C what is added up, K the columns, G products side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import prod
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.window import integer
from onchip.ops.contractions.contractions import MetAxis, contraction
from onchip.ops.registry.entry import AffineDimension, OperatorEntry
from onchip.ops.windows.sliding_windows import NoLayerError, Shape

PRODUCTS: Final = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul", "BATCH_MATMUL"})
PACKED_PRODUCT: Final = "com.microsoft::MatMulNBits"
"""The kind whose weights, of a few bits each, lie in blocks: its loop nest has more elements than their tensor."""


def rows_of_weights(shapes: Sequence[Shape], stated: Sequence[Shape] = ()) -> Mapping[str, Layer]:
    """Return the nest of a Gemm: the weight is its second factor or, if that is the input, its first one.

    The input may be larger than what the product reads of it. Raises NoLayerError if shapes do not fit, or the first
    operand is not one of the `stated` factors, or these are several matrices.
    """
    if stated and (max(map(len, stated)) > 2 or prod(shapes[1]) not in map(prod, stated)):
        raise NoLayerError("its first operand is no factor of one product")
    output, source, *_ = shapes
    weight = shapes[matrix_place(shapes)]
    if not output:
        raise NoLayerError("its weight is no matrix")
    rows, columns = prod(output[:-1]), output[-1]
    if rows * prod(weight) != columns * prod(source) and columns * prod(weight) == rows * prod(source):
        return {"": Layer(n=columns, k=rows, c=prod(weight) // rows)}
    if prod(weight) % columns:
        raise NoLayerError("its weight is no matrix")
    layer = Layer(n=rows, k=columns, c=prod(weight) // columns)
    if layer.n * layer.c > prod(source):
        raise NoLayerError("its operands do not fit its output")
    return {"": layer}


def product(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a MatMul or of TFLite's, whose attributes say which factors are transposed.

    Parameters stand behind inputs, so the second operand may be the left factor. Raises NoLayerError.
    """
    places, is_turned = (1, second_place(shapes)), [bool(integer(operator, name, 0)) for name in ("adj_x", "adj_y")]
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
    return OperatorEntry(loops, {0: write, places[0]: first, places[1]: second}, "C")


def _factor(loops: Mapping[str, int], batch: Sequence[int], inner: str) -> tuple[AffineDimension, ...]:
    """Matrices along two loops; a batch is along the loops that count from its last dimension."""
    outer = ((f"B{at}", size) for at, size in reversed([*enumerate(reversed(batch))]))
    spread = [AffineDimension(size, {loop: 1} if size == loops[loop] else {}) for loop, size in outer]
    return (*spread, *(AffineDimension(loops[loop], {loop: 1}) for loop in inner))


def nest_of_product(entry: OperatorEntry) -> Mapping[str, Layer]:
    """Return the nest of a MatMul: matrices that a batch shares are weights, a batch of both is groups.

    Of a second operand that alone is a batch, the columns are the rows that meet the first one's weights.
    """
    _, first, second = sorted(entry.operands)
    batches = [prod(one.size for one in entry.operands[place][:-2]) for place in (first, second)]
    places = (second, first, 0) if batches[0] == 1 != batches[1] else (first, second, 0)
    having = [{loop for one in entry.operands[place] for loop in one.terms} for place in places]
    axes = (MetAxis(size, *(loop in loops for loops in having)) for loop, size in entry.loops.items())
    return {"": contraction(axes)}


def rows_of_units(shapes: Sequence[Shape]) -> Mapping[str, Layer]:
    """Return the nest of a FULLY_CONNECTED, whose weight has a row of features for each unit. Raises NoLayerError."""
    output, source, *_ = shapes
    units, features = shapes[matrix_place(shapes)][-2:]
    rows, rest = divmod(prod(output), units)
    if rest or rows * features != prod(source):
        raise NoLayerError("its operands do not fit its output")
    return {"": Layer(n=rows, k=units, c=features)}


def _turned(shape: Shape, is_turned: bool) -> Shape:
    return (*shape[:-2], *shape[:-3:-1]) if is_turned else shape


def is_product(output: Shape, left: Shape, right: Shape) -> bool:
    """True if the matrices `left` times the matrices `right` have as many elements as the output."""
    rows, columns = left[-2:-1] or (1,), right[-1:] if len(right) > 1 else (1,)
    depth = right[-2] if len(right) > 1 else right[-1]
    batch = (max(sizes) for sizes in zip_longest(reversed(left[:-2]), reversed(right[:-2]), fillvalue=1))
    return left[-1] == depth and prod(rows) * prod(columns) * prod(batch) == prod(output)


def product_of_packed_weights(operator: Operator, shapes: Sequence[Shape]) -> Mapping[str, Layer]:
    """A MatMulNBits: the weights' sizes are its attributes, as they lie in blocks. Raises NoLayerError."""
    depth, columns = (integer(operator, name, 0) for name in ("K", "N"))
    rows, left = divmod(prod(shapes[1]), max(depth, 1))
    if min(depth, columns, rows) < 1 or left or rows * columns != prod(shapes[0]):
        raise NoLayerError("its operands do not fit its output")
    return {"": Layer(n=rows, c=depth, k=columns)}


def matrix_place(shapes: Sequence[Shape]) -> int:
    """Where a Gemm's weight stands: after the input the first of two dimensions or more. Raises NoLayerError."""
    for place, shape in enumerate(shapes[2:], 2):
        if len(shape) >= 2:
            return place
    raise NoLayerError("its weight is no matrix")


def second_place(shapes: Sequence[Shape]) -> int:
    """Where a MatMul's second operand stands, scales and zero points passed over. Raises NoLayerError."""
    first = shapes[1]
    for place, shape in enumerate(shapes[2:], 2):
        if first and (len(shape) > 1 or (shape and shape[0] == first[-1])):
            return place
    raise NoLayerError("its operands are no matrices")


def is_first_shared(shapes: Sequence[Shape]) -> bool:
    """Whether a MatMul's second operand alone is a batch of matrices, so that the first one is the weight."""
    first, second = shapes[1], shapes[second_place(shapes)]
    return prod(second[:-2]) != 1 == prod(first[:-2])


def products_of_heads(operator: Operator) -> Mapping[str, Layer]:
    """As its attributes say: `batch` products of `rows` x `depth` times `depth` x `columns`. Raises NoLayerError."""
    sizes = [operator.attributes.get(name) for name in ("rows", "columns", "depth", "batch")]
    whole = [size for size in sizes if isinstance(size, int) and size > 0]
    if len(whole) < len(sizes):
        raise NoLayerError("nothing says how large its products are")
    rows, columns, depth, batch = whole
    return {"": Layer(n=rows, k=columns, c=depth, g=batch)}


def _above_one(batch: Sequence[int]) -> list[int]:
    return [size for size in batch if size > 1]


def _pairs(batch: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """Return the sizes of two batches that meet, from their last dimension on."""
    return [*zip_longest(reversed(batch), reversed(other), fillvalue=1)]
