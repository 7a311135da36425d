"""Kernel calls of TFLite operators: feature maps have channels last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, frexp, inf, prod
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.backends.c.calls import (
    BYTES,
    Argument,
    KernelCall,
    Record,
    Symbol,
    Table,
    TensorOperand,
    broadcast_steps,
    copy_call,
    dense_steps,
    no_kernel,
    record,
    table,
    walk,
)
from onchip.backends.c.nodes import (
    FLOAT,
    KernelNode,
    WindowAxis,
    calls_of_graph,
    copied_output,
    neighbours,
    reduction_walks,
    slices,
    window,
)
from onchip.backends.c.tflite_model import FixedPoint, LiteModel, Quantisation, activation_range, exponentials, factors
from onchip.formats.tflite.file import dtype_of, options_of, type_name
from onchip.formats.tflite.network import ABSENT, NetworkOperator
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator

INTEGER_ENDS: Final = {"int8": (-128, 127), "int16": (-32768, 32767)}
_BYTE: Final = "int8"
_UNARY: Final = {
    **{
        kind: kind
        for kind in (
            *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG", "RELU"),
            *("ROUND", "RSQRT", "SIN", "SQRT", "SQUARE", "TANH"),
        )
    },
    "LOGISTIC": "SIGMOID",
    "NEG": "NEGATE",
}
_CLAMPS: Final = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
_BINARY: Final = {
    **{kind: kind for kind in ("ADD", "MAXIMUM", "MINIMUM", "PRELU", "SQUARED_DIFFERENCE")},
    "DIV": "DIVIDE",
    "MUL": "MULTIPLY",
    "POW": "POWER",
    "SUB": "SUBTRACT",
}
_REDUCTIONS: Final = {"MEAN": "MEAN", "REDUCE_MAX": "MAXIMUM", "REDUCE_MIN": "MINIMUM", "SUM": "SUM"}
_FINER: Final = 20
"""Fractional bits of the operands of an integer sum."""
_SAME: Final = 0
_BIASES: Final = {"float32": "float32", "int8": "int32", "int16": "int64"}
_SUFFIXES: Final = {"float32": "f32", "int8": "s8", "int16": "s16"}
_INPUT_WEIGHTS: Final = (1, 2, 3, 4)
_UNIT_WEIGHTS: Final = (5, 6, 7, 8)
_GATE_BIASES: Final = (12, 13, 14, 15)
_HIDDEN, _CELL = 18, 19
_NOT_THERE: Final = (9, 10, 11, 16, 17, 20, 21, 22, 23)
"""Inputs of an LSTM that no kernel supports: peepholes, a projection and layer norms."""
_BEFORE_A_GATE: Final = 2.0**-12
_GATE: Final = 2.0**-15
_TANH: Final = 4
"""The schema's number of the activation."""
_ONE_MORE: Final = 0x800000000000000000000000000000800011009020440005C0467BAEFA7BD110
"""Bit i is set if TFLite's table of sigmoid(i / 24), in units of 2^-16, exceeds the nearest integer by one."""


@dataclass(frozen=True)
class LiteNode(KernelNode[int]):
    """An operator of a TFLite file, whose tensors are indices.

    `following` maps the name of a state to the name of its next value.
    """

    stated: NetworkOperator
    model: LiteModel
    following: Mapping[str, str]

    @cached_property
    def options(self) -> Mapping[str, int | float]:
        """Return the options that are numbers."""
        return options_of(self.stated.stated)

    def option(self, name: str, default: int = 0) -> int:
        """Return an integer option, or the default."""
        return int(self.options.get(name, default))

    def name_of(self, tensor: int) -> str:
        """Return the name of a tensor in the file; empty for an absent one."""
        return "" if tensor == ABSENT else self.model.tensor(tensor).name

    def base_of(self, tensor: int) -> int:
        """Return the tensor whose bytes a tensor shows."""
        return self.model.read.storage.base(tensor)

    def shape_of(self, tensor: int) -> tuple[int, ...]:
        """Return the shape of a tensor in the file."""
        return self.model.tensor(tensor).shape

    def element_of(self, tensor: int) -> str:
        """Return the element type of a tensor."""
        number = self.model.tensor(tensor).element_type
        dtype = dtype_of(number)
        return type_name(number).lower() if dtype is None else dtype.name

    def value_of(self, tensor: int) -> npt.NDArray[Any] | None:
        """Return the value of a constant; None for a computed tensor."""
        return self.model.value(tensor)

    def suffix(self) -> str:
        """Return the suffix of a kernel for floats or bytes; raises GraphError for other elements."""
        found = {"float32": "f32", "int8": "s8"}.get(self.element())
        if found is None or self.written_element() != self.element():
            self.refuse(f"of {self.element()} to {self.written_element()}")
        return found

    def quantisation(self, index: int) -> Quantisation:
        """Return the quantisation of an input; raises GraphError if the file states none."""
        return self._quantisation(self.inputs[index])

    def written_quantisation(self) -> Quantisation:
        """Return the quantisation of the output; raises GraphError if the file states none."""
        return self._quantisation(self.outputs[0])

    def ends(self) -> tuple[float, float]:
        """Return the clamp of the fused activation, as integers or floats; raises GraphError for another activation."""
        integers = INTEGER_ENDS.get(self.written_element())
        quantisation = self.written_quantisation() if integers else None
        found = activation_range(self.option("fused_activation_function"), quantisation)
        if found is None:
            self.refuse("with another activation than a clamp")
        if integers is None:
            return found
        return int(max(found[0], integers[0])), int(min(found[1], integers[1]))

    def state(self, index: int) -> str:
        """Return the graph's tensor of a state before the inference; raises GraphError for another input."""
        tensor = self.inputs[index]
        name = self.tensors.get(tensor, "")
        if name not in self.following:
            self.refuse(f"with {self.name_of(tensor)!r}, which is no state")
        return name

    def _quantisation(self, tensor: int) -> Quantisation:
        found = self.model.quantisation(tensor)
        if found is None:
            self.refuse(f"of {self.name_of(tensor)!r} without a scale")
        return found


def _unary(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of an element-wise operation; of bytes, a look-up in a table that the runtime computes."""
    if node.suffix() == "s8":
        looked_up = table(f"{node.operator} {node.kind}", node.model.of_each_byte(node.stated), _BYTE)
        arguments = (prod(node.shape(0)), looked_up, node.read(0, _BYTE), node.written(_BYTE))
        yield KernelCall("look_up_s8", arguments)
        return
    operation = _UNARY.get(node.kind, "CLAMP")
    a, b = _CLAMPS.get(node.kind, (0.0, 0.0))
    if node.kind == "LEAKY_RELU":
        a = float(node.options.get("alpha", 0.0))
    elif node.kind == "ELU":
        a = 1.0
    elif node.kind not in _CLAMPS and node.option("approximate"):
        operation = "GELU_TANH"
    yield node.unary_call(operation, a, b)


def _binary(node: LiteNode) -> Iterator[KernelCall]:
    shape = node.written_shape()
    if node.suffix() == "s8":
        yield _binary_of_bytes(node, shape)
        return
    left, right = ((node.read(at), node.shape(at)) for at in (0, 1))
    yield node.binary_call(_BINARY[node.kind], left, right)
    ends = node.ends()
    if ends != (-inf, inf):
        written = node.written()
        yield KernelCall("unary_f32", (Symbol("UNARY_CLAMP"), prod(shape), *ends, written, written))


def _binary_of_bytes(node: LiteNode, shape: Sequence[int]) -> KernelCall:
    over = walk(shape, dense_steps(shape), *(broadcast_steps(node.shape(at), shape) for at in (0, 1)))
    operands = (node.read(0, _BYTE), node.read(1, _BYTE), node.written(_BYTE))
    if node.kind in ("MAXIMUM", "MINIMUM"):
        return KernelCall("extreme_s8", (over, int(node.kind == "MAXIMUM"), *operands))
    left, right, written = node.quantisation(0), node.quantisation(1), node.written_quantisation()
    lowest, highest = (int(end) for end in node.ends())
    if node.kind == "MUL":
        rescaling = record(
            "product_rescaling",
            left_zero=left.zero,
            right_zero=right.zero,
            output=FixedPoint.of(left.scale * right.scale / written.scale).rescaling(written.zero),
            lowest=lowest,
            highest=highest,
        )
        return KernelCall("multiply_s8", (over, rescaling, *operands))
    if node.kind not in ("ADD", "SUB"):
        node.refuse("of int8")
    widest = 2 * max(left.scale, right.scale)
    rescaling = record(
        "sum_rescaling",
        left=FixedPoint.of(left.scale / widest).rescaling(left.zero),
        right=FixedPoint.of(right.scale / widest).rescaling(right.zero),
        output=FixedPoint.of(widest / ((1 << _FINER) * written.scale)).rescaling(written.zero),
        left_shift=_FINER,
        is_difference=int(node.kind == "SUB"),
        lowest=lowest,
        highest=highest,
    )
    return KernelCall("add_s8", (over, rescaling, *operands))


def _softmax(node: LiteNode) -> Iterator[KernelCall]:
    shape, beta = node.shape(0), float(node.options.get("beta", 1.0))
    if node.suffix() == "f32":
        along = slices(shape, len(shape) - 1, len(shape))
        yield KernelCall("softmax_f32", (along, beta, node.read(0), node.written()))
        return
    written = node.written_quantisation()
    if written.zero != INTEGER_ENDS[_BYTE][0] or abs(written.scale - 1 / 256) > 1e-6:
        node.refuse("that writes another scale than 1/256 from -128 on")
    powers = table(f"{node.operator} exponentials", list(exponentials(beta, node.quantisation(0).scale)), "int32")
    rows = prod(shape[:-1])
    yield KernelCall("softmax_s8", (rows, shape[-1], powers, node.read(0, _BYTE), node.written(_BYTE)))


def _reduction(node: LiteNode) -> Iterator[KernelCall]:
    shape, suffix = node.shape(0), node.suffix()
    along = {axis % len(shape) for axis in node.numbers(1)}
    walks = reduction_walks(shape, along)
    if suffix == "f32":
        operation = Symbol(f"REDUCE_{_REDUCTIONS[node.kind]}")
        yield KernelCall("reduce_f32", (operation, *walks, node.read(0), node.written()))
        return
    if node.kind != "MEAN":
        node.refuse("of int8")
    read, written = node.quantisation(0), node.written_quantisation()
    count = prod(shape[axis] for axis in along)
    factor = FixedPoint.of(read.scale / written.scale).over(count).rescaling(written.zero)
    arguments = (*walks, count, read.zero, factor, node.read(0, _BYTE), node.written(_BYTE))
    yield KernelCall("mean_s8", arguments)


def _quantised(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that quantises floats, rescales integers, or gives their real numbers."""
    if node.kind == "DEQUANTIZE":
        read = node.quantisation(0)
        arguments = (prod(node.shape(0)), read.scale, read.zero, node.read(0, _BYTE), node.written())
        yield KernelCall("dequantise_s8", arguments)
        return
    count, written = prod(node.shape(0)), node.written_quantisation()
    if node.element() == FLOAT:
        arguments = (count, written.scale, written.zero, node.read(0), node.written(_BYTE))
        yield KernelCall("quantise_s8", arguments)
        return
    read = node.quantisation(0)
    factor = FixedPoint.of(read.scale / written.scale).rescaling(written.zero)
    yield KernelCall("requantise_s8", (count, read.zero, factor, node.read(0, _BYTE), node.written(_BYTE)))


def _lstm(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the copies of both states that change their tensors, and the call that runs all time steps."""
    if node.element() != "int8" or any(node.has(place) for place in _NOT_THERE):
        node.refuse(f"of {node.element()}, or with peepholes, a projection or norms")
    if node.option("fused_activation_function") != _TANH or not all(node.has(place) for place in _GATE_BIASES):
        node.refuse("without a tanh, or without biases")
    hidden, cell = (
        TensorOperand(node.following[node.state(place)], kind)
        for place, kind in ((_HIDDEN, "int8_t"), (_CELL, "int16_t"))
    )
    for place, following in ((_HIDDEN, hidden), (_CELL, cell)):
        size_bytes = prod(node.shape(place)) * node.element_bytes(place)
        yield copy_call(size_bytes, TensorOperand(node.state(place), BYTES), following.tensor)
    yield KernelCall("lstm_s8", (_lstm_record(node), node.read(0, _BYTE), hidden, cell, node.written(_BYTE)))


def _lstm_record(node: LiteNode) -> Record:
    units, inputs = node.shape(1)
    first, second, _ = node.shape(0)
    is_time_major = bool(node.option("time_major"))
    batch, steps = (second, first) if is_time_major else (first, second)
    near, far = (batch, 1) if is_time_major else (1, steps)
    cell, hidden = node.quantisation(_CELL), node.quantisation(_HIDDEN)
    sigmoid = [round(65536 / (1 + exp(-at / 24))) + (_ONE_MORE >> at & 1) for at in range(256)]
    clip = float(node.options.get("cell_clip", 0.0)) / cell.scale
    return record(
        "lstm",
        batch=batch,
        steps=steps,
        inputs=inputs,
        units=units,
        input_batch=far * inputs,
        input_step=near * inputs,
        output_batch=far * units,
        output_step=near * units,
        input_zero=node.quantisation(0).zero,
        hidden_zero=hidden.zero,
        cell_clip=int(min(clip, 32767.0)),
        cell_shift=15 + frexp(cell.scale)[1] - 1 - 3,
        of_input=_of_gates(node, node.quantisation(0), _INPUT_WEIGHTS),
        of_units=_of_gates(node, hidden, _UNIT_WEIGHTS),
        kept=FixedPoint.of(_GATE * cell.scale / cell.scale).rescaling(0),
        added=FixedPoint.of(_GATE * _GATE / cell.scale).rescaling(0),
        said=FixedPoint.of(_GATE * _GATE / hidden.scale).rescaling(hidden.zero),
        sigmoid=table("sigmoid", sigmoid, "uint16"),
        input_weights=table(f"{node.operator} input weights", _joined(node, _INPUT_WEIGHTS), "int8"),
        unit_weights=table(f"{node.operator} unit weights", _joined(node, _UNIT_WEIGHTS), "int8"),
        biases=table(f"{node.operator} biases", _joined(node, _GATE_BIASES), "int32"),
    )


def _of_gates(node: LiteNode, read: Quantisation, places: tuple[int, ...]) -> tuple[Record, ...]:
    """Return the factor of each gate that brings its sum of products to units of 2^-12."""
    joint = (float(np.float32(read.scale) * np.float32(node.quantisation(place).scale)) for place in places)
    return tuple(FixedPoint.of(one / _BEFORE_A_GATE).rescaling(0) for one in joint)


def _joined(node: LiteNode, places: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.concatenate([node.constant(place).reshape(-1) for place in places])


def _concatenation(node: LiteNode) -> Iterator[KernelCall]:
    """Yield a call for each part, which in a PACK lacks an axis; raises GraphError for integers of several scales."""
    if node.written_element() in ("int8", "int16", "uint8"):
        scales = {node.quantisation(index) for index in range(len(node.inputs))}
        if scales != {node.written_quantisation()}:
            node.refuse("of several scales")
    if node.kind == "CONCATENATION" and node.option("fused_activation_function"):
        node.refuse("with an activation")
    axis = node.option("axis") % len(node.written_shape())
    shapes = node.input_shapes
    if node.kind == "PACK":
        shapes = [(*shape[:axis], 1, *shape[axis:]) for shape in shapes]
    yield from node.concatenated(axis, shapes)


def _split(node: LiteNode) -> Iterator[KernelCall]:
    source = {"SPLIT": 1, "SPLIT_V": 0, "UNPACK": 0}[node.kind]
    is_unpacked = node.kind == "UNPACK"
    stated = node.option("axis") if is_unpacked else node.numbers(0 if node.kind == "SPLIT" else 2)[0]
    axis = stated % len(node.shape(source))
    outputs = range(len(node.outputs))
    sizes = [1 if is_unpacked else node.written_shape(at)[axis] for at in outputs]
    yield from node.parts_of(source, axis, sizes, outputs)


def _slice(node: LiteNode) -> Iterator[KernelCall]:
    steps = dense_steps(node.shape(0))
    first = sum(start * step for start, step in zip(node.numbers(1), steps, strict=True))
    yield node.whole_move(node.written_shape(), steps, first)


def _strided_slice(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that takes a strided range of each axis, or one element and drops the axis."""
    if node.option("ellipsis_mask") or node.option("new_axis_mask"):
        node.refuse("with new axes")
    shape = node.shape(0)
    starts, stops, strides = (list(node.numbers(place)) for place in (1, 2, 3))
    steps, first, sizes = list(dense_steps(shape)), 0, list(shape)
    for axis, (start, stop, stride) in enumerate(zip(starts, stops, strides, strict=True)):
        begin = None if node.option("begin_mask") >> axis & 1 else start
        end = None if node.option("end_mask") >> axis & 1 else stop
        if node.option("shrink_axis_mask") >> axis & 1:
            taken = range(shape[axis])[start : start + 1 or None]
        else:
            taken = range(shape[axis])[begin:end:stride]
        first += (taken[0] if taken else 0) * steps[axis]
        sizes[axis], steps[axis] = len(taken), steps[axis] * stride
    if prod(sizes) != prod(node.written_shape()):
        node.refuse("of other ranges than its output says")
    yield node.whole_move(sizes, steps, first)


def _pad(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the calls that pad with one value, or with the zero point of integers."""
    zero = node.written_quantisation().zero if not node.has(2) and node.written_element() == "int8" else 0
    value = node.constant(2) if node.has(2) else np.array([zero])
    yield from node.padded(node.constant(1).reshape(-1, 2)[:, 0].tolist(), value)


def _blocks(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call that moves blocks of rows and columns to channels, or back."""
    batch, rows, columns, channels = node.shape(0)
    block = node.option("block_size", 1)
    if node.kind == "SPACE_TO_DEPTH":
        seen = (batch, rows // block, block, columns // block, block, channels)
    else:
        seen = (batch, rows, columns, block, block, channels // (block * block))
    yield node.permuted(seen, (0, 1, 3, 2, 4, 5))


def _gather(node: LiteNode) -> Iterator[KernelCall]:
    if node.option("batch_dims"):
        node.refuse("in batches")
    yield node.gathered(node.option("axis"))


def _resize(node: LiteNode) -> Iterator[KernelCall]:
    batch, rows, columns, channels = node.shape(0)
    _, new_rows, new_columns, _ = node.written_shape()
    sizes = ((rows, new_rows), (columns, new_columns))
    yield node.resampled(batch, channels, sizes, [_sources(node, *each) for each in sizes])


def _sources(node: LiteNode, size: int, made: int) -> tuple[npt.NDArray[Any], ...]:
    """Return the two input elements of each output element along an axis, and the weight of the second."""
    is_centred, is_aligned = node.option("half_pixel_centers"), node.option("align_corners") and made > 1
    scale = np.float32((size - 1) / (made - 1)) if is_aligned else np.float32(size / made)
    at = np.arange(made, dtype=np.float32)
    half = np.float32(0.5)
    if node.kind == "RESIZE_BILINEAR":
        return neighbours((at + half) * scale - half if is_centred else at * scale, size, "linear")
    place = (at + half) * scale if is_centred else at * scale
    return neighbours(place, size, "round_prefer_ceil" if is_aligned else "floor")


def _convolution(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a convolution, whose weights are output channels, rows, columns, input channels."""
    outputs, rows, columns, inputs = node.shape(1)
    groups = node.shape(0)[3] // inputs
    steps = (outputs // groups * rows * columns * inputs, rows * columns * inputs, 1, columns * inputs, inputs)
    over = _window(node, (groups, inputs, outputs // groups), (rows, columns), steps)
    yield _convolution_call(node, "convolution", over, (0, 1, 2))


def _depthwise(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a depthwise convolution, whose weights are 1, rows, columns, output channels."""
    _, rows, columns, outputs = node.shape(1)
    groups = node.shape(0)[3]
    steps = (outputs // groups, 1, 0, columns * outputs, outputs)
    over = _window(node, (groups, 1, outputs // groups), (rows, columns), steps)
    yield _convolution_call(node, "convolution", over, (0, 1, 2))


def _transposed_convolution(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a transposed convolution, whose first input is the shape of its output."""
    outputs, rows, columns, inputs = node.shape(1)
    steps = (0, rows * columns * inputs, 1, columns * inputs, inputs)
    made = node.written_shape()
    axes = [
        WindowAxis(
            node.shape(2)[at],
            made[at],
            kernel,
            stride,
            1,
            _pad_before(node, -(-made[at] // stride), kernel, stride, made[at]),
        )
        for at, kernel, stride in ((1, rows, node.option("stride_h", 1)), (2, columns, node.option("stride_w", 1)))
    ]
    over = _window_record(node.shape(2), made, (1, inputs, outputs), axes, steps)
    yield _convolution_call(node, "transposed_convolution", over, (2, 1, 3))


def _fully_connected(node: LiteNode) -> Iterator[KernelCall]:
    """Yield the call of a product with weights [outputs, inputs]: a convolution of maps of one element."""
    outputs, inputs = node.shape(1)
    if node.option("weights_format"):
        node.refuse("with shuffled weights")
    batch = prod(node.shape(0)) // inputs
    shapes = ((batch, 1, 1, inputs), (batch, 1, 1, outputs))
    over = _window_record(*shapes, (1, inputs, outputs), [WindowAxis(), WindowAxis()], (0, inputs, 1, 0, 0))
    yield _convolution_call(node, "convolution", over, (0, 1, 2))


def _convolution_call(node: LiteNode, name: str, over: Record, places: tuple[int, int, int]) -> KernelCall:
    element = node.element(places[0])
    if element not in _BIASES:
        node.refuse(f"of {element}")
    bias = _bias(node, places[2], _BIASES[element]) if node.has(places[2]) else None
    read, function = node.read(places[0], element), f"{name}_{_SUFFIXES[element]}"
    if element == FLOAT:
        operands: tuple[Argument, ...] = (read, node.read(places[1]), bias, node.written())
        return KernelCall(function, (over, *operands, *node.ends()))
    operands = (read, node.read(places[1], _BYTE), bias, node.written(element))
    return KernelCall(function, (over, _requantisation(node, places), *operands))


def _bias(node: LiteNode, place: int, expected: str) -> TensorOperand | Table:
    """Return the bias; a constant integer bias as wide as the kernel's sums."""
    found = node.read(place, node.element(place))
    if isinstance(found, Table) and node.element(place) in ("int16", "int32", "int64") and expected != FLOAT:
        return table(found.name, found.values, expected)
    return node.read(place, expected)


def _requantisation(node: LiteNode, places: tuple[int, int, int]) -> Record:
    read, weight, written = node.quantisation(places[0]), node.quantisation(places[1]), node.written_quantisation()
    if len(weight.scales) == 1 and node.kind == "FULLY_CONNECTED":
        joint = float(np.float32(read.scale) * np.float32(weight.scale))
        real = [joint / written.scale]
    else:
        real = [read.scale * one / written.scale for one in weight.scales]
    multipliers, shifts = factors(real)
    lowest, highest = node.ends()
    return record(
        "requantisation",
        input_zero=read.zero,
        weight_zero=weight.zero,
        output_zero=written.zero,
        lowest=lowest,
        highest=highest,
        every_channel=int(len(real) > 1),
        multiplier=table(f"{node.operator} multiplier", multipliers, "int32"),
        shift=table(f"{node.operator} shift", shifts, "int32"),
    )


def _pool(node: LiteNode) -> Iterator[KernelCall]:
    suffix = node.suffix()
    kernel = (node.option("filter_height", 1), node.option("filter_width", 1))
    over = _window(node, (node.shape(0)[3], 1, 1), kernel, (0, 0, 0, 0, 0))
    operands = (node.read(0, node.element()), node.written(node.element()), *node.ends())
    if node.kind == "MAX_POOL_2D":
        yield KernelCall(f"max_pool_{suffix}", (over, *operands))
    else:
        if suffix == "s8" and node.quantisation(0) != node.written_quantisation():
            node.refuse("between two scales")
        margin = ((0, 0, 0, 0),) if suffix == "f32" else ()
        yield KernelCall(f"average_pool_{suffix}", (over, *margin, *operands))


def _window(node: LiteNode, channels: tuple[int, int, int], kernel: tuple[int, int], weight: Sequence[int]) -> Record:
    shape, made = node.shape(0), node.written_shape()
    axes = []
    for at, letter in ((1, "h"), (2, "w")):
        stride, dilation = node.option(f"stride_{letter}", 1), max(node.option(f"dilation_{letter}_factor", 1), 1)
        reach = (kernel[at - 1] - 1) * dilation + 1
        pad = _pad_before(node, made[at], reach, stride, shape[at])
        axes.append(WindowAxis(shape[at], made[at], kernel[at - 1], stride, dilation, pad))
    return _window_record(shape, made, channels, axes, weight)


def _pad_before(node: LiteNode, windows: int, reach: int, stride: int, size: int) -> int:
    """Return the number of elements before an axis of `size` at which its first window begins."""
    return max(0, (windows - 1) * stride + reach - size) // 2 if node.option("padding") == _SAME else 0


def _window_record(
    shape: Sequence[int],
    made: Sequence[int],
    channels: tuple[int, int, int],
    axes: Sequence[WindowAxis],
    weight: Sequence[int],
) -> Record:
    steps = dict(zip(("group", "output", "input", "row", "column"), weight, strict=True))
    return window(shape[0], channels, axes, (_maps(shape), _maps(made)), steps)


def _maps(shape: Sequence[int]) -> Record:
    _, rows, columns, channels = shape
    return record("map_steps", batch=rows * columns * channels, channel=1, row=columns * channels, column=channels)


_Writer: TypeAlias = Callable[[LiteNode], Iterable[KernelCall]]
_WRITERS: Final[Mapping[str, _Writer]] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transposed_convolution,
    "FULLY_CONNECTED": _fully_connected,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _pool),
    "SOFTMAX": _softmax,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE"), _quantised),
    "TRANSPOSE": lambda node: [node.permuted(node.shape(0), node.numbers(1))],
    **dict.fromkeys(("CONCATENATION", "PACK"), _concatenation),
    **dict.fromkeys(("SPLIT", "SPLIT_V", "UNPACK"), _split),
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    **dict.fromkeys(("PAD", "PADV2"), _pad),
    "BROADCAST_TO": KernelNode.broadcast,
    "TILE": KernelNode.tiled,
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), _blocks),
    "GATHER": _gather,
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _resize),
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), KernelNode.copied),
    **dict.fromkeys((*_UNARY, *_CLAMPS), _unary),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_REDUCTIONS, _reduction),
}
KINDS: Final = tuple(sorted(_WRITERS))
"""Kinds of TFLite operators that have a kernel."""


def tflite_calls(graph: Graph, model: LiteModel, path: Path) -> dict[str, tuple[KernelCall, ...]]:
    """Return the calls of each operator of a graph that was read from `path`.

    A fused operator calls the kernels of its members in order, the later ones on its output. Raises GraphError with the
    name and the kind of an operator without a kernel.
    """
    following = {state.old: state.new for state in graph.states}
    names = {tensor.name for tensor in graph.tensors} - set(following.values())
    tensors = {index: name for name, index in model.read.index.items() if name in names}

    def calls_of(operator: Operator) -> Iterator[KernelCall]:
        if operator.kind == "Identity" and operator.name not in model.operators:
            yield copied_output(operator, graph, lambda name: model.kernels.constant(model.read.index[name]))
            return
        members = [model.operators[name] for name in operator.members or (operator.name,)]
        between = {index: operator.outputs[0] for member in members[:-1] for index in member.outputs}
        for member in members:
            if member.kind not in _WRITERS:
                raise no_kernel(operator.name, member.kind)
            ends = (member.inputs, member.outputs)
            own = {**tensors, **between}
            yield from _WRITERS[member.kind](LiteNode(operator.name, member.kind, *ends, own, member, model, following))

    return calls_of_graph(graph, path, calls_of)
