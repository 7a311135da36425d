"""Element-wise operators, softmax and means."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from typing import Final

from onchip.backends.c.onnx.normalisation import reduction_walks, slices
from onchip.backends.c.project.calls import Field, KernelCall, Record, Symbol, table
from onchip.backends.c.project.walks import broadcast_steps, copy_call, dense_steps, walk
from onchip.backends.c.tflite.node import INTEGER_ENDS, LiteNode
from onchip.backends.c.tflite.quantisation import FixedPoint, exponentials

_FLOAT, _BYTE = "float32", "int8"
_UNARY: Final = {
    "ABS": "ABS",
    "CEIL": "CEIL",
    "COS": "COS",
    "ELU": "ELU",
    "EXP": "EXP",
    "FLOOR": "FLOOR",
    "GELU": "GELU",
    "HARD_SWISH": "HARD_SWISH",
    "LEAKY_RELU": "LEAKY_RELU",
    "LOG": "LOG",
    "LOGISTIC": "SIGMOID",
    "NEG": "NEGATE",
    "RELU": "RELU",
    "ROUND": "ROUND",
    "RSQRT": "RSQRT",
    "SIN": "SIN",
    "SQRT": "SQRT",
    "SQUARE": "SQUARE",
    "TANH": "TANH",
}
_CLAMPS: Final = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
_BINARY: Final = {
    "ADD": "ADD",
    "DIV": "DIVIDE",
    "MAXIMUM": "MAXIMUM",
    "MINIMUM": "MINIMUM",
    "MUL": "MULTIPLY",
    "POW": "POWER",
    "PRELU": "PRELU",
    "SQUARED_DIFFERENCE": "SQUARED_DIFFERENCE",
    "SUB": "SUBTRACT",
}
_REDUCTIONS: Final = {
    "MEAN": "MEAN",
    "REDUCE_MAX": "MAXIMUM",
    "REDUCE_MIN": "MINIMUM",
    "SUM": "SUM",
}
UNARY_KINDS: Final = frozenset({*_UNARY, *_CLAMPS})
BINARY_KINDS: Final = frozenset(_BINARY)
REDUCTION_KINDS: Final = frozenset(_REDUCTIONS)
_FINER: Final = 20
"""By so many bits operands of a sum are finer than its integers."""


def unary(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of what becomes of each element alone: of bytes a table of what the runtime makes of each."""
    count = prod(node.shape(0))
    if node.suffix() == "s8":
        looked_up = table(f"{node.operator} {node.kind}", node.model.own.of_each_byte(node.stated), _BYTE)
        yield KernelCall("look_up_s8", (count, looked_up, node.read(0, _BYTE), node.written(_BYTE)))
        return
    operation, a, b = _UNARY.get(node.kind, "CLAMP"), 0.0, 0.0
    if node.kind in _CLAMPS:
        a, b = _CLAMPS[node.kind]
    elif node.kind in ("LEAKY_RELU", "ELU"):
        a = float(node.options.get("alpha", 0.0)) if node.kind == "LEAKY_RELU" else 1.0
    elif node.option("approximate"):
        operation = "GELU_TANH"
    yield KernelCall(
        "unary_f32", (Symbol(f"UNARY_{operation}"), count, a, b, node.read(0, _FLOAT), node.written(_FLOAT))
    )


def binary(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of two operands that meet, and of the activation that the operator applies."""
    shape = node.written_shape()
    over = walk(shape, dense_steps(shape), *(broadcast_steps(node.shape(at), shape) for at in (0, 1)))
    if node.suffix() == "s8":
        yield _binary_of_bytes(node, over)
        return
    operands = (node.read(0, _FLOAT), node.read(1, _FLOAT), node.written(_FLOAT))
    yield KernelCall("binary_f32", (Symbol(f"BINARY_{_BINARY[node.kind]}"), over, *operands))
    ends = node.ends()
    if ends != (-inf, inf):
        written = node.written(_FLOAT)
        yield KernelCall("unary_f32", (Symbol("UNARY_CLAMP"), prod(shape), *ends, written, written))


def _binary_of_bytes(node: LiteNode, over: Record) -> KernelCall:
    operands = (node.read(0, _BYTE), node.read(1, _BYTE), node.written(_BYTE))
    if node.kind in ("MAXIMUM", "MINIMUM"):
        return KernelCall("extreme_s8", (over, int(node.kind == "MAXIMUM"), *operands))
    left, right, written = node.quantisation(0), node.quantisation(1), node.written_quantisation()
    lowest, highest = (int(end) for end in node.ends())
    ends: tuple[tuple[str, Field], ...] = (("lowest", lowest), ("highest", highest))
    if node.kind == "MUL":
        output = FixedPoint.of(left.scale * right.scale / written.scale).rescaling(written.zero)
        zeros = (("left_zero", left.zero), ("right_zero", right.zero))
        fields: tuple[tuple[str, Field], ...] = (*zeros, ("output", output), *ends)
        return KernelCall("multiply_s8", (over, Record("product_rescaling", fields), *operands))
    if node.kind not in ("ADD", "SUB"):
        node.refuse("of int8")
    widest = 2 * max(left.scale, right.scale)
    rescaled = (
        ("left", FixedPoint.of(left.scale / widest).rescaling(left.zero)),
        ("right", FixedPoint.of(right.scale / widest).rescaling(right.zero)),
        ("output", FixedPoint.of(widest / ((1 << _FINER) * written.scale)).rescaling(written.zero)),
    )
    fields = (*rescaled, ("left_shift", _FINER), ("is_difference", int(node.kind == "SUB")), *ends)
    return KernelCall("add_s8", (over, Record("sum_rescaling", fields), *operands))


def softmax(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a softmax along the last axis."""
    shape, beta = node.shape(0), float(node.options.get("beta", 1.0))
    if node.suffix() == "f32":
        along = slices(shape, len(shape) - 1, len(shape))
        yield KernelCall("softmax_f32", (along, beta, node.read(0, _FLOAT), node.written(_FLOAT)))
        return
    written = node.written_quantisation()
    if written.zero != INTEGER_ENDS[_BYTE][0] or abs(written.scale - 1 / 256) > 1e-6:
        node.refuse("that writes another scale than 1/256 from -128 on")
    powers = table(f"{node.operator} exponentials", list(exponentials(beta, node.quantisation(0).scale)), "int32")
    rows = prod(shape[:-1])
    yield KernelCall("softmax_s8", (rows, shape[-1], powers, node.read(0, _BYTE), node.written(_BYTE)))


def reduction(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a mean, a sum or an extreme along some axes."""
    shape, suffix = node.shape(0), node.suffix()
    along = {axis % len(shape) for axis in node.numbers(1)}
    kept, reduced = reduction_walks(shape, along)
    if suffix == "f32":
        operation = Symbol(f"REDUCE_{_REDUCTIONS[node.kind]}")
        yield KernelCall("reduce_f32", (operation, kept, reduced, node.read(0, _FLOAT), node.written(_FLOAT)))
        return
    if node.kind != "MEAN":
        node.refuse("of int8")
    read, written = node.quantisation(0), node.written_quantisation()
    count = prod(shape[axis] for axis in along)
    factor = FixedPoint.of(read.scale / written.scale).over(count).rescaling(written.zero)
    arguments = (kept, reduced, count, read.zero, factor, node.read(0, _BYTE), node.written(_BYTE))
    yield KernelCall("mean_s8", arguments)


def quantised(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that makes integers of floats, or of integers of another scale."""
    count, written = prod(node.shape(0)), node.written_quantisation()
    if node.element() == _FLOAT:
        arguments = (count, written.scale, written.zero, node.read(0, _FLOAT), node.written(_BYTE))
        yield KernelCall("quantise_s8", arguments)
        return
    read = node.quantisation(0)
    factor = FixedPoint.of(read.scale / written.scale).rescaling(written.zero)
    yield KernelCall("requantise_s8", (count, read.zero, factor, node.read(0, _BYTE), node.written(_BYTE)))


def dequantised(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that makes floats of integers."""
    read = node.quantisation(0)
    arguments = (prod(node.shape(0)), read.scale, read.zero, node.read(0, _BYTE), node.written(_FLOAT))
    yield KernelCall("dequantise_s8", arguments)


def copied(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that copies what is seen in another shape."""
    size_bytes = prod(node.shape(0)) * node.element_bytes()
    yield copy_call(size_bytes, node.read_bytes(), node.written_bytes().tensor)
