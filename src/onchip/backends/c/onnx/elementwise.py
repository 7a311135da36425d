"""Element-wise operators, and those that add up to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, prod
from typing import Final

from onchip.backends.c.onnx.node import FLOAT, NodeInC
from onchip.backends.c.project.calls import Argument, KernelCall, Symbol, TensorOperand, table
from onchip.backends.c.project.walks import broadcast_steps, copy_call, dense_steps, walk
from onchip.formats.onnx.graph import may_drop

_UNARY: Final = {
    "Abs": "ABS",
    "Atan": "ATAN",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Erf": "ERF",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "HardSwish": "HARD_SWISH",
    "Log": "LOG",
    "Mish": "MISH",
    "Neg": "NEGATE",
    "Reciprocal": "RECIPROCAL",
    "Relu": "RELU",
    "Round": "ROUND",
    "Sigmoid": "SIGMOID",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Softplus": "SOFTPLUS",
    "Softsign": "SOFTSIGN",
    "Sqrt": "SQRT",
    "Tanh": "TANH",
}
_WITH_NUMBERS: Final = {
    "Elu": ("ELU", (("alpha", 1.0),)),
    "HardSigmoid": ("HARD_SIGMOID", (("alpha", 0.2), ("beta", 0.5))),
    "LeakyRelu": ("LEAKY_RELU", (("alpha", 0.01),)),
    "Selu": ("SELU", (("alpha", 1.6732632423543772), ("gamma", 1.0507009873554805))),
}
_BINARY: Final = {
    "Add": "ADD",
    "Div": "DIVIDE",
    "Max": "MAXIMUM",
    "Mean": "ADD",
    "Min": "MINIMUM",
    "Mul": "MULTIPLY",
    "PRelu": "PRELU",
    "Pow": "POWER",
    "Sub": "SUBTRACT",
    "Sum": "ADD",
}
KINDS: Final = frozenset({*_UNARY, *_WITH_NUMBERS})
JOINING: Final = frozenset(_BINARY)


def unary(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of what becomes of each element alone."""
    if node.kind in _UNARY:
        yield unary_call(node, _UNARY[node.kind])
    else:
        operation, numbers = _WITH_NUMBERS[node.kind]
        yield unary_call(node, operation, *(node.real(name, default) for name, default in numbers))


def unary_call(node: NodeInC, operation: str, a: float = 0.0, b: float = 0.0) -> KernelCall:
    """Return the call of an operation with its two numbers."""
    count = prod(node.shape(0))
    return KernelCall("unary_f32", (Symbol(f"UNARY_{operation}"), count, a, b, node.read(0), node.written()))


def clip(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that keeps elements between two numbers, which must be constants."""
    ends = [node.real("min", -inf), node.real("max", inf)]
    for at in (1, 2):
        if node.has(at):
            ends[at - 1] = float(node.constant(at).reshape(-1)[0])
    yield unary_call(node, "CLAMP", *ends)


def gelu(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a Gelu, exact or by tanh."""
    yield unary_call(node, "GELU_TANH" if node.text("approximate", "none") == "tanh" else "GELU")


def binary(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the calls of two or more operands that meet, joined from the first on."""
    if node.whole("broadcast", 0):
        node.refuse("that broadcasts along an axis of its own")
    operation, shape, count = _BINARY[node.kind], node.written_shape(), len(node.node.input)
    if count == 1:
        yield copy_call(4 * prod(shape), node.read_bytes(0), node.written().tensor)
        return
    yield binary_call(operation, shape, (node.read(0), node.shape(0)), (node.read(1), node.shape(1)), node.written())
    so_far = (node.written(), shape)
    for at in range(2, count):
        if isinstance(node.read(at), TensorOperand) and node.read(at) == node.read(0):
            node.refuse("that joins one tensor again")
        yield binary_call(operation, shape, so_far, (node.read(at), node.shape(at)), node.written())
    if node.kind == "Mean":
        divisor = (table(f"{node.operator} count", [1 / count], FLOAT), (1,))
        yield binary_call("MULTIPLY", shape, so_far, divisor, node.written())


def binary_call(
    operation: str,
    shape: Sequence[int],
    left: tuple[Argument, Sequence[int]],
    right: tuple[Argument, Sequence[int]],
    written: TensorOperand,
) -> KernelCall:
    """Return the call of an operation on two operands, each with its shape, broadcast onto `shape`."""
    steps = (dense_steps(shape), broadcast_steps(left[1], shape), broadcast_steps(right[1], shape))
    over = walk(shape, *steps)
    return KernelCall("binary_f32", (Symbol(f"BINARY_{operation}"), over, left[0], right[0], written))


def dropout(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that hands on what it reads; raises GraphError where it drops, or says that it does not."""
    if may_drop(node.node, node.model.network.types.constants):
        node.refuse("that trains")
    if any(node.node.output[1:]):
        node.refuse("with more than one output")
    yield from copied(node)


def copied(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that hands on what it reads: an Identity, a Dropout, a Cast to the same type."""
    if node.element(0) != node.written_element():
        node.refuse(f"of {node.element(0)} to {node.written_element()}")
    yield copy_call(prod(node.shape(0)) * node.element_bytes(0), node.read_bytes(0), node.written_bytes().tensor)
