"""Products of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from onchip.backends.c.onnx.elementwise import binary_call
from onchip.backends.c.onnx.node import FLOAT, NodeInC
from onchip.backends.c.project.calls import KernelCall, Record, table
from onchip.backends.c.project.walks import broadcast_steps, dense_steps, walk


def matrix_product(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a product of matrices, which are many where operands have more axes; a vector is one too."""
    left, right = node.shape(0), node.shape(1)
    left = left if len(left) > 1 else (1, *left)
    right = right if len(right) > 1 else (*right, 1)
    batch = _broadcast(left[:-2], right[:-2])
    rows, inner, columns = left[-2], left[-1], right[-1]
    steps = (
        [step * rows * columns for step in dense_steps(batch)],
        [step * rows * inner for step in broadcast_steps(left[:-2], batch)],
        [step * inner * columns for step in broadcast_steps(right[:-2], batch)],
    )
    product = _product(walk(batch, *steps), (rows, inner, columns), (inner, 1), (columns, 1))
    yield KernelCall("product_f32", (product, node.read(0), node.read(1), node.written()))


def gemm(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the calls of alpha times a product, and beta times a third operand added to it."""
    rows, columns = node.written_shape()
    turns = node.whole("transA", 0), node.whole("transB", 0)
    inner = node.shape(0)[0 if turns[0] else 1]
    left = (1, rows) if turns[0] else (inner, 1)
    right = (1, inner) if turns[1] else (columns, 1)
    product = _product(walk(()), (rows, inner, columns), left, right)
    yield KernelCall("product_f32", (product, node.read(0), node.read(1), node.written()))
    so_far = (node.written(), (rows, columns))
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    if alpha != 1:
        factor = (table(f"{node.operator} alpha", [alpha], FLOAT), (1,))
        yield binary_call("MULTIPLY", (rows, columns), so_far, factor, node.written())
    if not node.has(2) or beta == 0:
        return
    added = node.read(2)
    if beta != 1:
        added = table(f"{node.operator} beta", node.constant(2) * beta, FLOAT)
    yield binary_call("ADD", (rows, columns), so_far, (added, node.shape(2)), node.written())


def _product(batch: Record, sizes: tuple[int, int, int], left: tuple[int, int], right: tuple[int, int]) -> Record:
    names = ("rows", "inner", "columns", "left_row", "left_inner", "right_inner", "right_column")
    return Record("product", (("batch", batch), *zip(names, (*sizes, *left, *right), strict=True)))


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    return tuple(max(pair) if prod(pair) else 0 for pair in pairs)
