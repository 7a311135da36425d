"""Nodes of a model as kernels see them, and the kernel calls that ONNX and TFLite operators share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar

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


@dataclass(frozen=True)
class KernelNode(ABC, Generic[Key]):
    """A node of a model: inputs and outputs by index, element types by numpy's names.

    `operator` names the graph's operator that runs the node, and `tensors` maps the model's tensors to the graph's
    tensors with their bytes. Methods raise GraphError for operands without a kernel.
    """

    operator: str
    kind: str
    inputs: Sequence[Key]
    outputs: Sequence[Key]
    tensors: Mapping[Key, str]

    @abstractmethod
    def name_of(self, tensor: Key) -> str:
        """Return the name of a tensor in the model; empty for an absent one."""

    @abstractmethod
    def base_of(self, tensor: Key) -> Key:
        """Return the tensor whose bytes a tensor shows."""

    @abstractmethod
    def shape_of(self, tensor: Key) -> tuple[int, ...]:
        """Return the shape of a tensor as the node sees it."""

    @abstractmethod
    def element_of(self, tensor: Key) -> str:
        """Return the element type of a tensor."""

    @abstractmethod
    def value_of(self, tensor: Key) -> Values | None:
        """Return the value of a constant; None for a computed tensor."""

    def has(self, index: int) -> bool:
        """Return True if the input is present."""
        return index < len(self.inputs) and bool(self.name_of(self.inputs[index]))

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        return self.shape_of(self.inputs[index])

    @property
    def input_shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of all inputs."""
        return [self.shape_of(one) for one in self.inputs]

    def written_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an output."""
        return self.shape_of(self.outputs[index])

    def element(self, index: int = 0) -> str:
        """Return the element type of an input; raises GraphError for elements without a C type."""
        found = self.element_of(self.inputs[index])
        if found not in ELEMENT_OF:
            self.refuse(f"of {found}")
        return found

    def written_element(self, index: int = 0) -> str:
        """Return the element type of an output."""
        return self.element_of(self.outputs[index])

    def element_bytes(self, index: int = 0) -> int:
        """Return the bytes of an element of an input."""
        return np.dtype(self.element(index)).itemsize

    def constant(self, index: int) -> Values:
        """Return the value of an input; raises GraphError for a computed input."""
        found = self.value_of(self.inputs[index])
        if found is None:
            self.refuse(f"with a computed {self.name_of(self.inputs[index])!r}")
        return found

    def numbers(self, index: int) -> tuple[int, ...]:
        """Return the value of an input as integers; raises GraphError for a computed input."""
        return tuple(int(one) for one in self.constant(index).reshape(-1))

    def read(self, index: int, expected: str = FLOAT) -> TensorOperand | Table:
        """Return an input of elements of a type; raises GraphError for other elements."""
        if self.element(index) != expected:
            self.refuse(f"of {self.element(index)}")
        return self._operand(index, ELEMENT_OF[expected])

    def read_bytes(self, index: int = 0) -> TensorOperand | Table:
        """Return an input whose bytes are moved; raises GraphError for elements without a C type."""
        self.element(index)
        return self._operand(index, BYTES)

    def written(self, expected: str = FLOAT) -> TensorOperand:
        """Return the output, of elements of a type; raises GraphError for other elements."""
        if self.written_element() != expected:
            self.refuse(f"that writes {self.written_element()}")
        return TensorOperand(self._target(0), ELEMENT_OF[expected])

    def written_bytes(self, index: int = 0, shift_bytes: int = 0) -> TensorOperand:
        """Return an output to which bytes are moved, without its first `shift_bytes` bytes."""
        return TensorOperand(self._target(index), BYTES, shift_bytes)

    def refuse(self, why: str) -> NoReturn:
        """Raise GraphError for a node without a kernel."""
        raise no_kernel(self.operator, self.kind, why)

    def _operand(self, index: int, element: str) -> TensorOperand | Table:
        tensor = self.inputs[index]
        value = self.value_of(tensor)
        return TensorOperand(self._stored(tensor), element) if value is None else table(self.name_of(tensor), value)

    def _target(self, index: int) -> str:
        if prod(self.written_shape(index)) == 0:
            self.refuse("that writes nothing")
        return self._stored(self.outputs[index])

    def _stored(self, tensor: Key) -> str:
        """Return the graph's tensor with the bytes of the model's tensor; raises GraphError without one."""
        for key in (tensor, self.base_of(tensor)):
            if key in self.tensors:
                return self.tensors[key]
        place = f"tensor {self.name_of(tensor)!r}"
        raise GraphError("no tensor of the plan has its bytes", place=place, expected="a plan of it")

    def copied(self) -> Iterator[KernelCall]:
        """Yield the call that copies the first input, whose elements the output shows in its own shape."""
        yield copy_call(prod(self.shape(0)) * self.element_bytes(0), self.read_bytes(0), self.written_bytes().tensor)

    def unary_call(self, operation: str, a: float = 0.0, b: float = 0.0) -> KernelCall:
        """Return the call of an element-wise operation with its two numbers."""
        return KernelCall(
            "unary_f32", (Symbol(f"UNARY_{operation}"), prod(self.shape(0)), a, b, self.read(0), self.written())
        )

    def binary_call(
        self, operation: str, left: tuple[Argument, Sequence[int]], right: tuple[Argument, Sequence[int]]
    ) -> KernelCall:
        """Return the call of an operation on two operands, each with its shape, broadcast onto the output's."""
        shape = self.written_shape()
        over = walk(shape, dense_steps(shape), broadcast_steps(left[1], shape), broadcast_steps(right[1], shape))
        return KernelCall("binary_f32", (Symbol(f"BINARY_{operation}"), over, left[0], right[0], self.written()))

    def whole_move(self, sizes: Sequence[int], steps: Sequence[int], first: int = 0) -> KernelCall:
        """Return the call that fills the output, of these sizes, with elements read by `steps` from `first` on."""
        size = self.element_bytes()
        source = shifted(self.read_bytes(), first, size)
        return move_call(sizes, (self.written_bytes(), dense_steps(sizes)), (source, steps), size)

    def permuted(self, shape: Sequence[int], order: Sequence[int]) -> KernelCall:
        """Return the call that permutes the axes of the first input, seen in a shape."""
        steps = dense_steps(shape)
        return self.whole_move([shape[at] for at in order], [steps[at] for at in order])

    def concatenated(self, axis: int, parts: Sequence[Sequence[int]]) -> Iterator[KernelCall]:
        """Yield a call for each input that has elements; `parts` are the shapes in which the inputs are seen."""
        steps, start, axis = dense_steps(self.written_shape()), 0, axis % len(self.written_shape())
        for index, shape in enumerate(parts):
            if prod(shape):
                size = self.element_bytes(index)
                target = self.written_bytes(shift_bytes=start * steps[axis] * size)
                yield move_call(shape, (target, steps), (self.read_bytes(index), dense_steps(shape)), size)
            start += shape[axis]

    def parts_of(self, source: int, axis: int, sizes: Sequence[int], outputs: Sequence[int]) -> Iterator[KernelCall]:
        """Yield a call for each of these outputs; `sizes` cut the input `source` along an axis, one for each output."""
        shape, size = self.shape(source), self.element_bytes(source)
        steps, starts = dense_steps(shape), list(accumulate(sizes, initial=0))
        for index in outputs:
            part = (*shape[:axis], sizes[index], *shape[axis + 1 :])
            read = shifted(self.read_bytes(source), starts[index] * steps[axis], size)
            yield move_call(part, (self.written_bytes(index), dense_steps(part)), (read, steps), size)

    def padded(self, before: Sequence[int], value: Values) -> Iterator[KernelCall]:
        """Yield the calls that fill the output with a value and move the input into it.

        `before` has the elements before the input along each axis; negative numbers cut the input.
        """
        shape, written, size = self.shape(0), self.written_shape(), self.element_bytes()
        element = table(f"{self.operator} pad", value.reshape(-1)[:1], self.element())
        yield KernelCall("fill", (prod(written), size, element, self.written_bytes()))
        sizes = [
            min(old, old + ahead, new, new - max(0, ahead))
            for old, new, ahead in zip(shape, written, before, strict=True)
        ]
        if not all(one > 0 for one in sizes):
            return
        steps, source = dense_steps(written), dense_steps(shape)
        first = sum(max(0, one) * step for one, step in zip(before, steps, strict=True))
        cut = sum(max(0, -one) * step for one, step in zip(before, source, strict=True))
        target = self.written_bytes(shift_bytes=first * size)
        yield move_call(sizes, (target, steps), (shifted(self.read_bytes(), cut, size), source), size)

    def broadcast(self) -> Iterator[KernelCall]:
        """Yield the call that repeats an array along its axes of one element."""
        written = self.written_shape()
        yield self.whole_move(written, broadcast_steps(self.shape(0), written))

    def tiled(self) -> Iterator[KernelCall]:
        """Yield the call that repeats a whole array along its axes."""
        sizes: list[int] = []
        steps: list[int] = []
        for size, step, whole in zip(self.shape(0), dense_steps(self.shape(0)), self.written_shape(), strict=True):
            sizes += [whole // size, size]
            steps += [0, step]
        yield self.whole_move(sizes, steps)

    def gathered(self, axis: int) -> KernelCall:
        """Return the call that gathers rows by the indices of the second input."""
        shape, kind, axis = self.shape(0), self.element(1), axis % len(self.shape(0))
        if kind not in _GATHERS:
            self.refuse(f"by {kind}")
        row_bytes = prod(shape[axis + 1 :]) * self.element_bytes()
        sizes = (prod(shape[:axis]), shape[axis], row_bytes, prod(self.shape(1)))
        return KernelCall(_GATHERS[kind], (*sizes, self.read(1, kind), self.read_bytes(), self.written_bytes()))

    def resampled(
        self,
        maps: int,
        channels: int,
        sizes: tuple[tuple[int, int], tuple[int, int]],
        sources: Iterable[tuple[Values, ...]],
    ) -> KernelCall:
        """Return the call that resizes maps of floats; `sizes` are rows and columns, each before and after.

        `sources` has for rows and for columns the two input elements of each output element, and the second's weight.
        """
        tables: dict[str, Table] = {}
        for axis, (first, second, share) in zip(("row", "column"), sources, strict=True):
            tables[f"first_{axis}"] = table(f"{self.operator} first {axis}", first, "int32")
            tables[f"second_{axis}"] = table(f"{self.operator} second {axis}", second, "int32")
            tables[f"{axis}_share"] = table(f"{self.operator} {axis} share", share, FLOAT)
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
        return KernelCall("resample_f32", (resampling, self.read(0), self.written()))


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


def neighbours(place: Values, size: int, rounding: str) -> tuple[Values, ...]:
    """Return the two input elements for each place along an axis of `size`, and the weight of the second.

    `rounding` is `linear`, or how ONNX names the rounding to one element.
    """
    if rounding == "linear":
        place = np.clip(place, 0, size - 1)
        first = np.floor(place)
        return first, np.minimum(first + 1, size - 1), place - first
    half = np.float32(0.5)
    match rounding:
        case "floor":
            found = np.floor(place)
        case "ceil":
            found = np.ceil(place)
        case "round_prefer_ceil":
            found = np.floor(place + half)
        case _:
            found = np.ceil(place - half)
    found = np.clip(found, 0, size - 1)
    return found, found, np.zeros(len(place))


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
