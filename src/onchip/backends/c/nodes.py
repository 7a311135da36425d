"""Nodes of a model as kernels see them, and the kernel calls that ONNX and TFLite operators share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from onchip.backends.c.calls import (
    BYTES,
    ELEMENT_OF,
    Argument,
    KernelCall,
    Record,
    Symbol,
    Table,
    TensorOperand,
    broadcast_steps,
    copy_call,
    dense_steps,
    move_call,
    no_kernel,
    record,
    shifted,
    table,
    walk,
)
from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator

FLOAT: Final = "float32"
_GATHERS: Final = {"int64": "gather_i64", "int32": "gather_i32"}
Values = npt.NDArray[Any]
Key = TypeVar("Key")


class KernelNode(ABC):
    """A node of a model: inputs and outputs by index, element types by numpy's names.

    `operator` names the graph's operator that runs the node. Methods raise GraphError for operands without a kernel.
    """

    operator: str

    @property
    @abstractmethod
    def kind(self) -> str:
        """Return the kind of the node in its format."""

    @abstractmethod
    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input."""

    @abstractmethod
    def written_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an output."""

    @abstractmethod
    def element(self, index: int = 0) -> str:
        """Return the element type of an input."""

    @abstractmethod
    def written_element(self, index: int = 0) -> str:
        """Return the element type of an output."""

    @abstractmethod
    def constant(self, index: int) -> Values:
        """Return the value of an input; raises GraphError for a computed input."""

    @abstractmethod
    def operand(self, index: int, element: str) -> TensorOperand | Table:
        """Return an input as an argument with elements of a C type."""

    @abstractmethod
    def target(self, index: int) -> str:
        """Return the graph's tensor that has the bytes of an output."""

    def bytes_of(self, tensors: Mapping[Key, str], keys: Iterable[Key], name: str) -> str:
        """Return the graph's tensor of the first key that has one; raises GraphError without one."""
        for key in keys:
            if key in tensors:
                return tensors[key]
        raise GraphError("no tensor of the plan has its bytes", place=f"tensor {name!r}", expected="a plan of it")

    def element_bytes(self, index: int = 0) -> int:
        """Return the bytes of an element of an input."""
        return np.dtype(self.element(index)).itemsize

    def read(self, index: int, expected: str = FLOAT) -> TensorOperand | Table:
        """Return an input of elements of a type; raises GraphError for other elements."""
        if self.element(index) != expected:
            self.refuse(f"of {self.element(index)}")
        return self.operand(index, ELEMENT_OF[expected])

    def read_bytes(self, index: int = 0) -> TensorOperand | Table:
        """Return an input whose bytes are moved; raises GraphError for elements without a C type."""
        self.element(index)
        return self.operand(index, BYTES)

    def written(self, expected: str = FLOAT) -> TensorOperand:
        """Return the output, of elements of a type; raises GraphError for other elements."""
        if self.written_element() != expected:
            self.refuse(f"that writes {self.written_element()}")
        return TensorOperand(self.target(0), ELEMENT_OF[expected])

    def written_bytes(self, index: int = 0, shift_bytes: int = 0) -> TensorOperand:
        """Return an output to which bytes are moved, without its first `shift_bytes` bytes."""
        return TensorOperand(self.target(index), BYTES, shift_bytes)

    def numbers(self, index: int) -> tuple[int, ...]:
        """Return the value of an input as integers; raises GraphError for a computed input."""
        return tuple(int(one) for one in self.constant(index).reshape(-1))

    def refuse(self, why: str) -> NoReturn:
        """Raise GraphError for a node without a kernel."""
        raise no_kernel(self.operator, self.kind, why)


def calls_of_graph(
    graph: Graph, path: Path, calls_of: Callable[[Operator], Iterable[KernelCall]]
) -> dict[str, tuple[KernelCall, ...]]:
    """Return the calls of each operator of a graph that was read from `path`.

    Raises GraphError with operator and file if an operator has no kernel.
    """
    found = {}
    for operator in graph.operators:
        try:
            found[operator.name] = tuple(calls_of(operator))
        except GraphError as error:
            if error.place is None:
                error = GraphError(error.what, place=f"operator {operator.name!r}", expected=error.expected)
            raise error.in_file(str(path)) from None
    return found


def copied_output(operator: Operator, graph: Graph, constant: Callable[[str], Values]) -> KernelCall:
    """Return the copy of an input or a constant that a network output is."""
    size_bytes = graph.tensor[operator.outputs[0]].size_bytes
    if operator.inputs:
        return copy_call(size_bytes, TensorOperand(operator.inputs[0], BYTES), operator.outputs[0])
    name = operator.parameters[0]
    return copy_call(size_bytes, table(name, constant(name)), operator.outputs[0])


def copied(node: KernelNode) -> Iterator[KernelCall]:
    """Yield the call that copies the first input, whose elements the output shows in its own shape."""
    yield copy_call(prod(node.shape(0)) * node.element_bytes(0), node.read_bytes(0), node.written_bytes().tensor)


def unary_call(node: KernelNode, operation: str, a: float = 0.0, b: float = 0.0) -> KernelCall:
    """Return the call of an element-wise operation with its two numbers."""
    return KernelCall(
        "unary_f32", (Symbol(f"UNARY_{operation}"), prod(node.shape(0)), a, b, node.read(0), node.written())
    )


def binary_call(
    operation: str,
    shape: Sequence[int],
    left: tuple[Argument, Sequence[int]],
    right: tuple[Argument, Sequence[int]],
    written: TensorOperand,
) -> KernelCall:
    """Return the call of an operation on two operands, each with its shape, broadcast onto `shape`."""
    over = walk(shape, dense_steps(shape), broadcast_steps(left[1], shape), broadcast_steps(right[1], shape))
    return KernelCall("binary_f32", (Symbol(f"BINARY_{operation}"), over, left[0], right[0], written))


def whole_move(node: KernelNode, sizes: Sequence[int], steps: Sequence[int], first: int = 0) -> KernelCall:
    """Return the call that fills the output, of these sizes, with elements read by `steps` from `first` on."""
    size = node.element_bytes()
    source = shifted(node.read_bytes(), first, size)
    return move_call(sizes, (node.written_bytes(), dense_steps(sizes)), (source, steps), size)


def permuted(node: KernelNode, shape: Sequence[int], order: Sequence[int]) -> KernelCall:
    """Return the call that permutes the axes of the first input, seen in a shape."""
    steps = dense_steps(shape)
    return whole_move(node, [shape[at] for at in order], [steps[at] for at in order])


def concatenated(node: KernelNode, axis: int, parts: Sequence[Sequence[int]]) -> Iterator[KernelCall]:
    """Yield a call for each input that has elements; `parts` are the shapes in which the inputs are seen."""
    steps, start = dense_steps(node.written_shape()), 0
    for index, shape in enumerate(parts):
        if prod(shape):
            size = node.element_bytes(index)
            target = node.written_bytes(shift_bytes=start * steps[axis] * size)
            yield move_call(shape, (target, steps), (node.read_bytes(index), dense_steps(shape)), size)
        start += shape[axis]


def parts_of(
    node: KernelNode, source: int, axis: int, sizes: Sequence[int], outputs: Sequence[int]
) -> Iterator[KernelCall]:
    """Yield a call for each of these outputs; `sizes` cut the input `source` along an axis, one for each output."""
    shape, size = node.shape(source), node.element_bytes(source)
    steps, starts = dense_steps(shape), list(accumulate(sizes, initial=0))
    for index in outputs:
        part = (*shape[:axis], sizes[index], *shape[axis + 1 :])
        read = shifted(node.read_bytes(source), starts[index] * steps[axis], size)
        yield move_call(part, (node.written_bytes(index), dense_steps(part)), (read, steps), size)


def padded(node: KernelNode, before: Sequence[int], value: Values) -> Iterator[KernelCall]:
    """Yield the calls that fill the output with a value and move the input into it.

    `before` has the elements before the input along each axis; negative numbers cut the input.
    """
    shape, written, size = node.shape(0), node.written_shape(), node.element_bytes()
    element = table(f"{node.operator} pad", value.reshape(-1)[:1], node.element())
    yield KernelCall("fill", (prod(written), size, element, node.written_bytes()))
    sizes = [
        min(old, old + ahead, new, new - max(0, ahead)) for old, new, ahead in zip(shape, written, before, strict=True)
    ]
    if not all(one > 0 for one in sizes):
        return
    steps, source = dense_steps(written), dense_steps(shape)
    first = sum(max(0, one) * step for one, step in zip(before, steps, strict=True))
    cut = sum(max(0, -one) * step for one, step in zip(before, source, strict=True))
    target = node.written_bytes(shift_bytes=first * size)
    yield move_call(sizes, (target, steps), (shifted(node.read_bytes(), cut, size), source), size)


def broadcast(node: KernelNode) -> Iterator[KernelCall]:
    """Yield the call that repeats an array along its axes of one element."""
    written = node.written_shape()
    yield whole_move(node, written, broadcast_steps(node.shape(0), written))


def tiled(node: KernelNode) -> Iterator[KernelCall]:
    """Yield the call that repeats a whole array along its axes."""
    sizes: list[int] = []
    steps: list[int] = []
    for size, step, whole in zip(node.shape(0), dense_steps(node.shape(0)), node.written_shape(), strict=True):
        sizes += [whole // size, size]
        steps += [0, step]
    yield whole_move(node, sizes, steps)


def gathered(node: KernelNode, axis: int) -> KernelCall:
    """Return the call that gathers rows by the indices of the second input."""
    shape, kind = node.shape(0), node.element(1)
    if kind not in _GATHERS:
        node.refuse(f"by {kind}")
    row_bytes = prod(shape[axis + 1 :]) * node.element_bytes()
    sizes = (prod(shape[:axis]), shape[axis], row_bytes, prod(node.shape(1)))
    return KernelCall(_GATHERS[kind], (*sizes, node.read(1, kind), node.read_bytes(), node.written_bytes()))


def resampled(
    node: KernelNode,
    maps: int,
    channels: int,
    sizes: tuple[tuple[int, int], tuple[int, int]],
    sources: Iterable[tuple[Values, ...]],
) -> KernelCall:
    """Return the call that resizes maps of floats; `sizes` are rows and columns, each before and after.

    `sources` has for rows and for columns the two input elements of each output element, and the second one's weight.
    """
    tables: dict[str, Table] = {}
    for axis, (first, second, share) in zip(("row", "column"), sources, strict=True):
        tables[f"first_{axis}"] = table(f"{node.operator} first {axis}", first, "int32")
        tables[f"second_{axis}"] = table(f"{node.operator} second {axis}", second, "int32")
        tables[f"{axis}_share"] = table(f"{node.operator} {axis} share", share, FLOAT)
    (rows, new_rows), (columns, new_columns) = sizes
    resampling = record(
        "resampling",
        maps=maps,
        input_rows=rows,
        input_columns=columns,
        output_rows=new_rows,
        output_columns=new_columns,
        channels=channels,
        **tables,
    )
    return KernelCall("resample_f32", (resampling, node.read(0), node.written()))


def slices(shape: Sequence[int], start: int, stop: int) -> Record:
    """Return the slices of an array along the axes [start, stop), which a kernel normalises one by one."""
    return record("slices", outer=prod(shape[:start]), size=prod(shape[start:stop]), inner=prod(shape[stop:]))


def reduction_walks(shape: Sequence[int], along: set[int]) -> tuple[Record, Record]:
    """Return the walk over the output and the input, and the walk over the inputs of one output."""
    steps, inner = dense_steps(shape), sorted(along)
    kept = [at for at in range(len(shape)) if at not in along]
    sizes = [shape[at] for at in kept]
    outer = walk(sizes, dense_steps(sizes), [steps[at] for at in kept])
    return outer, walk([shape[at] for at in inner], [0] * len(inner), [steps[at] for at in inner])


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """A sliding window along one axis of a feature map, in elements."""

    input: int = 1
    output: int = 1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    pad_behind: int = 0

    def record(self) -> Record:
        """Return the struct of the kernels' header."""
        names = ("input", "output", "kernel", "stride", "dilation", "pad")
        return Record("axis", tuple((name, getattr(self, name)) for name in names))


def window(
    batch: int,
    channels: tuple[int, int, int],
    axes: Sequence[WindowAxis],
    maps: tuple[Record, Record],
    weight: dict[str, int],
) -> Record:
    """Return the struct of a convolution or a pool.

    `channels` are groups, inputs and outputs of a group; `axes` rows and columns; `maps` the steps of input and output.
    """
    groups, inputs, outputs = channels
    rows, columns = axes
    return record(
        "window",
        batch=batch,
        groups=groups,
        inputs=inputs,
        outputs=outputs,
        rows=rows.record(),
        columns=columns.record(),
        input=maps[0],
        output=maps[1],
        weight=Record("weight_steps", tuple(weight.items())),
    )
