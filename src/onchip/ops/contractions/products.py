"""Matrix products as loop nests: N the rows, C what is added up, K the columns, G products side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from math import prod
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.window import integer
from onchip.ops.contractions.contractions import contraction, spread
from onchip.ops.windows.sliding_windows import NoLayerError, Shape

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


def product(shapes: Sequence[Shape], is_turned: tuple[bool, bool] = (False, False)) -> Mapping[str, Layer]:
    """Return the nest of a MatMul: matrices that a batch shares are weights, a batch of both is groups.

    `is_turned` says which factor is transposed. Parameters stand behind inputs, so the second operand may be the left
    factor. Raises NoLayerError.
    """
    operands = shapes[1], shapes[second_place(shapes)]
    first, second = map(_turned, operands, is_turned)
    if not is_product(shapes[0], first, second):
        left, right = map(_turned, reversed(operands), is_turned)
        if is_product(shapes[0], left, right):
            return _weight_first(right, left)
    first = (1, *first) if len(first) == 1 else first
    second = (*second, 1) if len(second) == 1 else second
    *batch, rows, depth = first
    *other_batch, other_depth, columns = second
    if depth != other_depth:
        raise NoLayerError("its operands do not fit each other")
    if prod(other_batch) == 1:
        return {"": Layer(n=prod(batch) * rows, c=depth, k=columns)}
    if is_first_shared(shapes):  # the second operand's columns are the rows that meet the first one's weights
        return {"": Layer(n=prod(other_batch) * columns, c=depth, k=rows)}
    is_side_by_side = prod(shapes[0]) == prod(batch) * rows * columns
    if is_side_by_side and _without_ones(batch) == _without_ones(other_batch):
        return {"": Layer(n=rows, c=depth, k=columns, g=prod(batch))}
    shared = contraction(spread(tuple(batch), tuple(other_batch)))
    return {"": replace(shared, n=shared.n * rows, c=depth, k=shared.k * columns)}


def turned_factors(operator: Operator) -> tuple[bool, bool]:
    """Return which factors of a TFLite product are transposed."""
    return bool(integer(operator, "adj_x", 0)), bool(integer(operator, "adj_y", 0))


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


def _weight_first(source: Shape, weight: Shape) -> Mapping[str, Layer]:
    """Return the nest of `weight` times `source`: the columns of the input meet the rows of the weight."""
    source = (*source, 1) if len(source) == 1 else source
    weight = (1, *weight) if len(weight) == 1 else weight
    *batch, depth, columns = source
    *of_weights, rows, _ = weight
    if prod(of_weights) == 1:
        return {"": Layer(n=prod(batch) * columns, c=depth, k=rows)}
    if prod(batch) == 1:  # as in `is_first_shared`: the one matrix is the weight
        return {"": Layer(n=prod(of_weights) * rows, c=depth, k=columns)}
    shared = contraction(spread(tuple(batch), tuple(of_weights)))
    return {"": replace(shared, n=shared.n * columns, c=depth, k=shared.k * rows)}


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


def _without_ones(batch: Sequence[int]) -> list[int]:
    return [size for size in batch if size > 1]
