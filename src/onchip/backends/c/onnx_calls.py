"""Kernel calls of ONNX operators: feature maps have channels first, and one or two spatial axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import onnx

from onchip.backends.c.calls import (
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
from onchip.formats.onnx.graph import may_drop
from onchip.formats.onnx.nodes import attributes_of, kind_of, node_names
from onchip.formats.onnx.program import ConstantValues, Network
from onchip.formats.onnx.specification import same_pads
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.simulate.kernels.onnx_kernels import OnnxKernels

Number = TypeVar("Number", int, float)
EVERYTHING: Final = (-inf, inf)
_UNARY: Final = {
    **{
        kind: kind.upper()
        for kind in (
            *("Abs", "Atan", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Mish", "Relu", "Round", "Sigmoid"),
            *("Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh"),
        )
    },
    "HardSwish": "HARD_SWISH",
    "Neg": "NEGATE",
    "Reciprocal": "RECIPROCAL",
}
_WITH_NUMBERS: Final = {
    "Elu": ("ELU", (("alpha", 1.0),)),
    "HardSigmoid": ("HARD_SIGMOID", (("alpha", 0.2), ("beta", 0.5))),
    "LeakyRelu": ("LEAKY_RELU", (("alpha", 0.01),)),
    "Selu": ("SELU", (("alpha", 1.6732632423543772), ("gamma", 1.0507009873554805))),
}
_BINARY: Final = {
    **dict.fromkeys(("Add", "Mean", "Sum"), "ADD"),
    "Div": "DIVIDE",
    "Max": "MAXIMUM",
    "Min": "MINIMUM",
    "Mul": "MULTIPLY",
    "PRelu": "PRELU",
    "Pow": "POWER",
    "Sub": "SUBTRACT",
}
_OF_ONE_AXIS: Final = 13
"""First opset whose softmax normalises one axis; before, it normalised all axes from that one on."""
_REDUCTIONS: Final = {
    "ReduceL2": "L2",
    "ReduceMax": "MAXIMUM",
    "ReduceMean": "MEAN",
    "ReduceMin": "MINIMUM",
    "ReduceSum": "SUM",
}


@dataclass(frozen=True)
class NodeInC(KernelNode[str]):
    """A node of an ONNX model, whose tensors are names."""

    node: onnx.NodeProto
    network: Network
    values: ConstantValues

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes of the node by name."""
        return attributes_of(self.node)

    @property
    def opset(self) -> int:
        """Return the version of ONNX's own operators in this model."""
        return self.network.opset

    def number(self, name: str, default: Number) -> Number:
        """Return an attribute that is a number, of the type of the default; the default if it is absent."""
        found = self.attributes.get(name)
        return type(default)(found) if isinstance(found, int | float) else default

    def text(self, name: str, default: str) -> str:
        """Return a text attribute, or the default if it is absent."""
        return str(self.attributes.get(name, default))

    def reals(self, name: str) -> list[float]:
        """Return an attribute that lists numbers; none if it is absent."""
        found = self.attributes.get(name)
        return [one for one in found if isinstance(one, int | float)] if isinstance(found, list) else []

    def wholes(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """Return an attribute that lists integers, or the default if it is absent."""
        return [int(one) for one in self.reals(name)] if name in self.attributes else list(default)

    def read_if_there(self, index: int) -> TensorOperand | Table | None:
        """Return an input of floats, or None if it is absent."""
        return self.read(index) if self.has(index) else None

    def name_of(self, tensor: str) -> str:
        """Return the tensor, which is its name."""
        return tensor

    def base_of(self, tensor: str) -> str:
        """Return the tensor whose bytes a tensor shows."""
        return self.network.storage.base(tensor)

    def shape_of(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor as the node sees it."""
        return self.values.type_of(tensor)[1]

    def written_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an output; raises GraphError for a shape that depends on values."""
        if self.outputs[index] in self.network.types.bounded:
            self.refuse("whose output has a shape that follows from values")
        return self.shape_of(self.outputs[index])

    def element_of(self, tensor: str) -> str:
        """Return the element type of a tensor."""
        return self.values.type_of(tensor)[0].name

    def value_of(self, tensor: str) -> npt.NDArray[Any] | None:
        """Return the value of a constant; None for a computed tensor."""
        if not self.network.is_constant(tensor):
            return None
        return np.asarray(self.values.array(self.base_of(tensor))).reshape(self.shape_of(tensor))


def _unary(node: NodeInC) -> Iterator[KernelCall]:
    if node.kind in _UNARY:
        yield node.unary_call(_UNARY[node.kind])
    else:
        operation, numbers = _WITH_NUMBERS[node.kind]
        yield node.unary_call(operation, *(node.number(name, default) for name, default in numbers))


def _clip(node: NodeInC) -> Iterator[KernelCall]:
    ends = [node.number("min", -inf), node.number("max", inf)]
    for at in (1, 2):
        if node.has(at):
            ends[at - 1] = float(node.constant(at).reshape(-1)[0])
    yield node.unary_call("CLAMP", *ends)


def _binary(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the calls of an operation on two or more operands, from left to right."""
    if node.number("broadcast", 0):
        node.refuse("that broadcasts along an axis of its own")
    operation, count = _BINARY[node.kind], len(node.inputs)
    if count == 1:
        yield copy_call(4 * prod(node.written_shape()), node.read_bytes(0), node.written().tensor)
        return
    so_far: tuple[Argument, Sequence[int]] = (node.read(0), node.shape(0))
    for at in range(1, count):
        if at > 1 and isinstance(node.read(at), TensorOperand) and node.read(at) == node.read(0):
            node.refuse("that joins one tensor again")
        yield node.binary_call(operation, so_far, (node.read(at), node.shape(at)))
        so_far = (node.written(), node.written_shape())
    if node.kind == "Mean":
        divisor = (table(f"{node.operator} count", [1 / count], FLOAT), (1,))
        yield node.binary_call("MULTIPLY", so_far, divisor)


def _dropout(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the copy of a Dropout for inference; raises GraphError for training or a wanted mask."""
    if may_drop(node.node, node.network.types.constants):
        node.refuse("that trains")
    if any(node.outputs[1:]):
        node.refuse("with more than one output")
    yield from _of_one_type(node)


def _of_one_type(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the copy of an Identity, or of a Cast to the same type."""
    if node.element(0) != node.written_element():
        node.refuse(f"of {node.element(0)} to {node.written_element()}")
    yield from node.copied()


def _softmax(node: NodeInC) -> Iterator[KernelCall]:
    shape, is_new = node.shape(0), node.opset >= _OF_ONE_AXIS
    axis = node.number("axis", -1 if is_new else 1) % max(len(shape), 1)
    along = slices(shape, axis, axis + 1 if is_new else len(shape))
    if node.kind == "Softmax":
        yield KernelCall("softmax_f32", (along, 1.0, node.read(0), node.written()))
    else:
        yield KernelCall("log_softmax_f32", (along, node.read(0), node.written()))


def _batch_norm(node: NodeInC) -> Iterator[KernelCall]:
    if node.number("training_mode", 0) or len(node.outputs) > 1:
        node.refuse("that trains")
    epsilon = node.number("epsilon", 1e-5)
    scale, shift, mean, variance = (node.read(at) for at in range(1, 5))
    operands = (scale, shift, mean, variance, node.read(0), node.written())
    yield KernelCall("batch_norm_f32", (slices(node.shape(0), 1, 2), epsilon, *operands))


def _layer_norm(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a normalisation over the last axes; raises GraphError if its means are outputs too."""
    if len(node.outputs) > 1:
        node.refuse("with more than one output")
    shape = node.shape(0)
    axis = node.number("axis", -1) % len(shape)
    size = prod(shape[axis:])
    if node.shape(1) != shape[axis:]:
        node.refuse("with a scale of another shape")
    yield _norm_call(node, prod(shape[:axis]), size, (size, 1, 1))


def _instance_norm(node: NodeInC) -> Iterator[KernelCall]:
    batch, channels, *space = node.shape(0)
    yield _norm_call(node, batch * channels, prod(space), (1, max(prod(space), 1), channels))


def _group_norm(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a normalisation over groups of maps, with a scale for each channel."""
    batch, channels, *space = node.shape(0)
    groups = node.number("num_groups", 1)
    if node.shape(1) != (channels,):
        node.refuse("with a scale for each group")
    of_group = channels // groups
    yield _norm_call(node, batch * groups, of_group * prod(space), (of_group, prod(space), groups))


def _norm_call(node: NodeInC, outer: int, size: int, affine: tuple[int, int, int]) -> KernelCall:
    entries = record("affine", entries=affine[0], every=affine[1], groups=affine[2])
    operands = (node.read(1), node.read_if_there(2), node.read(0), node.written())
    return KernelCall("layer_norm_f32", (outer, size, node.number("epsilon", 1e-5), entries, *operands))


def _local_response(node: NodeInC) -> Iterator[KernelCall]:
    numbers = [node.number(name, default) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))]
    arguments = (slices(node.shape(0), 1, 2), node.number("size", 1), *numbers, node.read(0), node.written())
    yield KernelCall("local_response_f32", arguments)


def _reduction(node: NodeInC) -> Iterator[KernelCall]:
    shape = node.shape(0)
    axes = node.numbers(1) if node.has(1) else tuple(node.wholes("axes"))
    if not axes and node.number("noop_with_empty_axes", 0):
        node.refuse("along no axis")
    walks = reduction_walks(shape, {axis % len(shape) for axis in axes} or set(range(len(shape))))
    yield KernelCall("reduce_f32", (Symbol(f"REDUCE_{_REDUCTIONS[node.kind]}"), *walks, node.read(0), node.written()))


def _matrix_product(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a product of matrices, batched along all axes but the last two; a vector is a matrix."""
    left, right = node.shape(0), node.shape(1)
    left = left if len(left) > 1 else (1, *left)
    right = right if len(right) > 1 else (*right, 1)
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    rows, inner, columns = left[-2], left[-1], right[-1]
    steps = (
        [step * rows * columns for step in dense_steps(batch)],
        [step * rows * inner for step in broadcast_steps(left[:-2], batch)],
        [step * inner * columns for step in broadcast_steps(right[:-2], batch)],
    )
    yield _product_call(node, walk(batch, *steps), (rows, inner, columns), (inner, 1), (columns, 1))


def _gemm(node: NodeInC) -> Iterator[KernelCall]:
    rows, columns = node.written_shape()
    turns = node.number("transA", 0), node.number("transB", 0)
    inner = node.shape(0)[0 if turns[0] else 1]
    left = (1, rows) if turns[0] else (inner, 1)
    right = (1, inner) if turns[1] else (columns, 1)
    yield _product_call(node, walk(()), (rows, inner, columns), left, right)
    so_far = (node.written(), (rows, columns))
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if alpha != 1:
        factor = (table(f"{node.operator} alpha", [alpha], FLOAT), (1,))
        yield node.binary_call("MULTIPLY", so_far, factor)
    if not node.has(2) or beta == 0:
        return
    added: Argument = node.read(2)
    if beta != 1:
        added = table(f"{node.operator} beta", node.constant(2) * beta, FLOAT)
    yield node.binary_call("ADD", so_far, (added, node.shape(2)))


def _product_call(
    node: NodeInC, batch: Record, sizes: tuple[int, int, int], left: tuple[int, int], right: tuple[int, int]
) -> KernelCall:
    names = ("rows", "inner", "columns", "left_row", "left_inner", "right_inner", "right_column")
    product = Record("product", (("batch", batch), *zip(names, (*sizes, *left, *right), strict=True)))
    return KernelCall("product_f32", (product, node.read(0), node.read(1), node.written()))


def _split(node: NodeInC) -> Iterator[KernelCall]:
    """Yield a call for each part that the network reads."""
    outputs, types = node.outputs, node.network.types
    axis = node.number("axis", 0) % len(node.shape(0))
    size = node.shape(0)[axis]
    each = -(-size // len(outputs))
    equal = [min(each, size - at * each) for at in range(len(outputs))]
    sizes = node.numbers(1) if node.has(1) else node.wholes("split") or equal
    wanted = [at for at, name in enumerate(outputs) if name and name in types.static]
    yield from node.parts_of(0, axis, sizes, wanted)


def _slice(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that takes elements of constant ranges, which may go backwards."""
    shape = node.shape(0)
    if node.opset < 10:
        starts: Sequence[int] = node.wholes("starts")
        axes: Sequence[int] = node.wholes("axes", range(len(starts)))
        strides: Sequence[int] = (1,) * len(starts)
    else:
        starts = node.numbers(1)
        axes = node.numbers(3) if node.has(3) else range(len(starts))
        strides = node.numbers(4) if node.has(4) else (1,) * len(starts)
    dense, first = dense_steps(shape), 0
    steps = list(dense)
    for start, stated, stride in zip(starts, axes, strides, strict=True):
        axis = stated % len(shape)
        begin = range(shape[axis])[slice(start, None, stride)]
        first += (begin[0] if begin else 0) * dense[axis]
        steps[axis] *= stride
    yield node.whole_move(node.written_shape(), steps, first)


def _pad(node: NodeInC) -> Iterator[KernelCall]:
    if node.text("mode", "constant") != "constant":
        node.refuse(f"in mode {node.text('mode', '')}")
    rank = len(node.shape(0))
    pads = node.numbers(1) if node.has(1) else tuple(node.wholes("pads"))
    axes = [axis % rank for axis in node.numbers(3)] if node.has(3) else list(range(rank))
    before = [0] * rank
    for at, axis in enumerate(axes):
        before[axis] = pads[at]
    yield from node.padded(before, node.constant(2) if node.has(2) else np.zeros(1) + node.number("value", 0.0))


def _depth_to_space(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call that makes blocks of channels into blocks of rows and columns."""
    batch, channels, rows, columns = node.shape(0)
    block = node.number("blocksize", 1)
    depth = channels // (block * block)
    if node.text("mode", "DCR") == "DCR":
        yield node.permuted((batch, block, block, depth, rows, columns), (0, 3, 4, 1, 5, 2))
    else:
        yield node.permuted((batch, depth, block, block, rows, columns), (0, 1, 4, 2, 5, 3))


def _space_to_depth(node: NodeInC) -> Iterator[KernelCall]:
    batch, channels, rows, columns = node.shape(0)
    block = node.number("blocksize", 1)
    yield node.permuted((batch, channels, rows // block, block, columns // block, block), (0, 3, 5, 1, 2, 4))


def _resize(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a resize by the nearest element or linearly, along the last two axes."""
    shape, written = node.shape(0), node.written_shape()
    mode = node.text("mode", "nearest")
    if len(shape) != 4 or shape[:2] != written[:2] or mode not in ("nearest", "linear"):
        node.refuse(f"of mode {mode} and {len(shape)} axes")
    if node.number("antialias", 0) or node.wholes("axes"):
        node.refuse("with antialiasing or axes of its own")
    scales = _scales(node, shape, written)
    sources = [_sources(node, shape[at], written[at], scales[at], mode) for at in (2, 3)]
    yield node.resampled(prod(shape[:2]), 1, ((shape[2], written[2]), (shape[3], written[3])), sources)


def _scales(node: NodeInC, shape: tuple[int, ...], written: tuple[int, ...]) -> list[float]:
    """Return the scales that the file states, else those of the shapes."""
    at = 2 if node.kind == "Resize" and node.opset >= 11 else 1
    if stated := node.reals("scales"):
        return stated
    if node.has(at) and 0 not in node.shape(at):
        return [float(one) for one in node.constant(at)]
    return [new / old for old, new in zip(shape, written, strict=True)]


def _sources(node: NodeInC, size: int, made: int, scale: float, mode: str) -> tuple[npt.NDArray[Any], ...]:
    """Return the two input elements of each output element along an axis, and the weight of the second."""
    is_old = node.kind == "Upsample" or node.opset < 11
    way = "asymmetric" if is_old else node.text("coordinate_transformation_mode", "half_pixel")
    at = np.arange(made, dtype=np.float32)
    half = np.float32(0.5)
    match way:
        case "asymmetric":
            place = at / np.float32(scale)
        case "half_pixel" | "pytorch_half_pixel":
            place = (at + half) / np.float32(scale) - half
            if way == "pytorch_half_pixel" and made == 1:
                place = np.zeros(1, np.float32)
        case "align_corners":
            place = at * np.float32((size - 1) / (made - 1)) if made > 1 else np.zeros(1, np.float32)
        case _:
            node.refuse(f"with coordinates of mode {way}")
    rounding = "floor" if is_old else node.text("nearest_mode", "round_prefer_floor")
    return neighbours(place, size, "linear" if mode == "linear" else rounding)


def _convolution(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a convolution, or of a transposed one, whose pads are cut off the output.

    Weights are output channels, input channels of a group; if transposed, input channels, output channels of a group.
    """
    is_transposed = node.kind == "ConvTranspose"
    if is_transposed and (node.text("auto_pad", "NOTSET") != "NOTSET" or node.wholes("output_shape")):
        node.refuse("with pads that follow from its output")
    first, second = node.shape(1)[:2]
    axes = _axes(node, node.shape(1)[2:])
    groups = node.number("group", 1)
    area = axes[0].kernel * axes[1].kernel
    first //= groups
    inputs, outputs = (first, second) if is_transposed else (second, first)
    channel_steps = (area, outputs * area) if is_transposed else (inputs * area, area)
    weight = {
        "group": outputs * inputs * area,
        "output": channel_steps[0],
        "input": channel_steps[1],
        "row": axes[1].kernel,
    }
    over = _window(node, (groups, inputs, outputs), axes, weight)
    operands = (node.read(0), node.read(1), node.read_if_there(2), node.written())
    function = "transposed_convolution_f32" if is_transposed else "convolution_f32"
    yield KernelCall(function, (over, *operands, *EVERYTHING))


def _pool(node: NodeInC) -> Iterator[KernelCall]:
    """Yield the call of a maximum or a mean over a window; raises GraphError if a maximum's index is an output too.

    In a mean, pads count if the node says it.
    """
    if len(node.outputs) > 1 and node.outputs[1]:
        node.refuse("with indices")
    if node.kind.startswith("Global"):
        size = prod(node.shape(0)[2:])
        axes = (WindowAxis(), WindowAxis(size, 1, size))
    else:
        axes = _axes(node, node.wholes("kernel_shape"))
    ends = (node.read(0), node.written(), *EVERYTHING)
    over = _window(node, (node.shape(0)[1], 1, 1), axes, {})
    if node.kind.endswith("MaxPool"):
        yield KernelCall("max_pool_f32", (over, *ends))
        return
    counts_pads = bool(node.number("count_include_pad", 0))
    margin = tuple(pad if counts_pads else 0 for one in axes for pad in (one.pad, one.pad_behind))
    yield KernelCall("average_pool_f32", (over, margin, *ends))


def _axes(node: NodeInC, kernel: Sequence[int]) -> tuple[WindowAxis, WindowAxis]:
    """Return the rows and the columns; a single row if there is one spatial axis."""
    space, made = node.shape(0)[2:], node.written_shape()[2:]
    if len(space) not in (1, 2):
        node.refuse(f"of {len(space)} axes of space")
    strides = node.wholes("strides", [1] * len(space))
    dilations = node.wholes("dilations", [1] * len(space))
    found = [WindowAxis()] * (2 - len(space))
    for at, size in enumerate(space):
        axis = WindowAxis(size, made[at], kernel[at], strides[at], dilations[at])
        before, behind = _pads(node, at, axis, len(space))
        found.append(replace(axis, pad=before, pad_behind=behind))
    return found[0], found[1]


def _pads(node: NodeInC, at: int, axis: WindowAxis, axes: int) -> tuple[int, int]:
    padding, is_convolution = node.text("auto_pad", "NOTSET"), "Pool" not in node.kind
    if padding == "VALID":
        return 0, 0
    if padding in ("SAME_UPPER", "SAME_LOWER"):
        taps = (axis.kernel - 1) * axis.dilation + 1 if is_convolution else axis.kernel
        return same_pads(axis.input, axis.stride, taps, padding, is_convolution=is_convolution)
    pads = node.wholes("pads", [0] * 2 * axes)
    return pads[at], pads[axes + at]


def _window(
    node: NodeInC, channels: tuple[int, int, int], axes: tuple[WindowAxis, WindowAxis], weight: dict[str, int]
) -> Record:
    (rows, columns), (groups, inputs, outputs) = axes, channels
    maps = (_maps(groups * inputs, rows.input, columns.input), _maps(groups * outputs, rows.output, columns.output))
    return window(node.shape(0)[0], channels, axes, maps, {**weight, "column": 1})


def _maps(channels: int, rows: int, columns: int) -> Record:
    return record("map_steps", batch=channels * rows * columns, channel=rows * columns, row=columns, column=1)


_Writer: TypeAlias = Callable[[NodeInC], Iterable[KernelCall]]
_WRITERS: Final[Mapping[str, _Writer]] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), _pool),
    "MatMul": _matrix_product,
    "Gemm": _gemm,
    "Clip": _clip,
    "Gelu": lambda node: [node.unary_call("GELU_TANH" if node.text("approximate", "none") == "tanh" else "GELU")],
    "Cast": _of_one_type,
    "Identity": _of_one_type,
    "Dropout": _dropout,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "LRN": _local_response,
    "Transpose": lambda node: [node.permuted(node.shape(0), node.wholes("perm", range(len(node.shape(0)))[::-1]))],
    "Concat": lambda node: node.concatenated(node.number("axis", 1), node.input_shapes),
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Expand": KernelNode.broadcast,
    "Tile": KernelNode.tiled,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Gather": lambda node: [node.gathered(node.number("axis", 0))],
    "Resize": _resize,
    "Upsample": _resize,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), KernelNode.copied),
    **dict.fromkeys((*_UNARY, *_WITH_NUMBERS), _unary),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_REDUCTIONS, _reduction),
}
KINDS: Final = tuple(sorted(_WRITERS))
"""Kinds of ONNX operators that have a kernel."""


def onnx_calls(graph: Graph, kernels: OnnxKernels, path: Path) -> dict[str, tuple[KernelCall, ...]]:
    """Return the calls of each operator of a graph that was read from `path`.

    A fused operator calls the kernels of its nodes in order, the later ones on its output. Raises GraphError with the
    name and the kind of an operator without a kernel.
    """
    nodes = dict(zip(node_names(kernels.network.nodes), kernels.network.nodes, strict=True))
    tensors = {name: tensor.name for tensor in graph.tensors for name in (tensor.name, *tensor.aliases)}

    def calls_of(operator: Operator) -> Iterator[KernelCall]:
        if operator.kind == "Identity":
            yield copied_output(operator, graph, kernels.values.array)
            return
        members = operator.members or (operator.name,)
        between = {name: operator.outputs[0] for member in members[:-1] for name in nodes[member].output}
        own = {**tensors, **between}
        for member in members:
            stated = nodes[member]
            ends = (tuple(stated.input), tuple(stated.output))
            node = NodeInC(operator.name, kind_of(stated), *ends, own, stated, kernels.network, kernels.values)
            if node.kind not in _WRITERS:
                raise no_kernel(operator.name, node.kind)
            yield from _WRITERS[node.kind](node)

    return calls_of_graph(graph, path, calls_of)
