"""Descriptions of TFLite's operators by onchip's kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Final

from onchip.formats.states_and_loops import writable
from onchip.formats.tflite.file import options_of
from onchip.formats.tflite.network import ABSENT, NetworkOperator
from onchip.formats.tflite.storage import CHANNELS_FIRST, MAP_RANK, MapLayouts, Presentation, TensorStorage
from onchip.ir.operator import OF_ONE_AXIS, SEEN_ORDERS, SEEN_SHAPES, WRITTEN_ORDERS, AttributeValue

Shape = tuple[int, ...]
Presented = tuple[tuple[int, Presentation], ...]
_ACTIVATIONS = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}


class UnlikeError(Exception):
    """The operator matches no kind of onchip exactly, or the file does not tell; it keeps TFLite's kind."""


def _unlike_if(condition: object) -> None:
    """Raise UnlikeError if the condition holds."""
    if condition:
        raise UnlikeError


@dataclass(frozen=True, slots=True)
class DescribedOperator:
    """An operator with a kind of onchip: its inputs by index, its parameters with the order of their axes."""

    kind: str
    inputs: tuple[int, ...]
    parameters: Presented = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Operands:
    """Operands by their position among the operator's inputs; methods raise UnlikeError if an operand does not fit."""

    operator: NetworkOperator
    storage: TensorStorage
    layouts: MapLayouts

    @cached_property
    def options(self) -> Mapping[str, int | float]:
        """The numbers among the operator's options."""
        return options_of(self.operator.stated)

    def option(self, name: str, default: int = 0) -> int:
        """Return a whole number among the options."""
        return int(self.options.get(name, default))

    @property
    def fused(self) -> dict[str, AttributeValue]:
        """The fused activation, as an attribute; empty without one."""
        name = _ACTIVATIONS.get(self.option("fused_activation_function"))
        return {} if name is None else {"fused_activation": name}

    @property
    def places(self) -> range:
        """The positions of all inputs, including absent ones."""
        return range(len(self.operator.inputs))

    def is_there(self, place: int) -> bool:
        """Return True if the operator has an operand at that position."""
        return place < len(self.operator.inputs) and self.operator.inputs[place] != ABSENT

    def is_constant(self, place: int) -> bool:
        """Return True if the operand's value is known before the network runs."""
        return self.storage.is_constant(self._index(place))

    def shape(self, place: int) -> Shape:
        """Return the operand's shape in the file; raises UnlikeError if it is absent."""
        return self.storage.tensor(self._index(place)).shape

    @property
    def written(self) -> Shape:
        """The shape of the first output in the file."""
        return self.storage.tensor(self.operator.outputs[0]).shape

    @property
    def written_order(self) -> tuple[int, ...]:
        """The order in which the axes of the first output are presented."""
        return self.layouts.order(self.operator.outputs[0])

    @property
    def writes_maps(self) -> bool:
        """True if the first output is presented as batch, channels, rows, columns."""
        return self.written_order == CHANNELS_FIRST

    def activation(self, place: int) -> int:
        """Return a computed operand with its own shape; raises UnlikeError for any other."""
        index = self._index(place)
        _unlike_if(self.storage.is_constant(index) or not self.layouts.is_direct(index))
        return index

    def order(self, place: int) -> tuple[int, ...]:
        """Return the order in which an activation's axes are presented; raises UnlikeError."""
        return self.layouts.order(self.storage.base(self.activation(place)))

    def map(self, place: int) -> int:
        """Return an activation that is presented as a map; raises UnlikeError for any other."""
        _unlike_if(self.order(place) != CHANNELS_FIRST)
        return self._index(place)

    def map_or_flat(self, place: int) -> int:
        """Return a map, or a view of a tensor of another rank; raises UnlikeError for any other."""
        index = self._index(place)
        _unlike_if(self.storage.is_constant(index) or len(self.shape(place)) != MAP_RANK)
        if not self.layouts.is_direct(index) and len(self.storage.tensor(self.storage.base(index)).shape) != MAP_RANK:
            return index
        return self.map(place)

    def parameter(self, place: int, order: Shape | None = None, shape: Shape | None = None) -> Presented:
        """Return a constant with its axes in `order`, seen as `shape`; raises UnlikeError."""
        index = self._index(place)
        _unlike_if(not self.storage.is_constant(index))
        presented = Presentation.of(self.shape(place), order)
        if shape is not None:
            presented = Presentation(presented.order, shape)
        stored = tuple(self.storage.stored_as(index))
        _unlike_if(any(self.storage.tensor(each).shape != self.shape(place) for each in stored))
        return tuple((each, presented) for each in stored)

    def optional_parameter(self, place: int) -> Presented:
        """Return a constant, such as a bias; empty if it is absent."""
        return self.parameter(place) if self.is_there(place) else ()

    def settings(self, place: int) -> tuple[int, ...]:
        """Return the integers of a constant that is a setting; raises UnlikeError if they are unknown."""
        index = self._index(place)
        value = self.storage.value(index) if self.storage.is_constant(index) else None
        if value is None or value.dtype.kind not in "iu":
            raise UnlikeError
        return tuple(int(each) for each in value.reshape(-1))

    def _index(self, place: int) -> int:
        _unlike_if(not self.is_there(place))
        return self.operator.inputs[place]


_SAME_NAME: Final = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Abs", "Exp", "Log", "Neg", "Sqrt", "Relu", "Elu", "Tanh", "Gelu", "Floor"),
    *("Ceil", "Round", "Sin", "Cos", "Cast", "Equal", "Greater", "Less"),
)
ELEMENTWISE: Final = {
    **{kind.upper(): kind for kind in _SAME_NAME},
    "MAXIMUM": "Max", "MINIMUM": "Min", "ADD_N": "Sum", "LEAKY_RELU": "LeakyRelu", "LOGISTIC": "Sigmoid",
    "HARD_SWISH": "HardSwish", "PRELU": "PRelu", "QUANTIZE": "QuantizeLinear", "DEQUANTIZE": "DequantizeLinear",
    "GREATER_EQUAL": "GreaterOrEqual", "LESS_EQUAL": "LessOrEqual", "LOGICAL_AND": "And", "LOGICAL_OR": "Or",
    "LOGICAL_NOT": "Not", "SELECT_V2": "Where",
    **dict.fromkeys(("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"), "Clip"),
}  # fmt: skip
"""Map from TFLite's elementwise kinds to ONNX's."""
REDUCTIONS: Final = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
}
_LIMITS: Final = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
_OF_ALL_PIXELS: Final = {"MEAN": "GlobalAveragePool", "REDUCE_MAX": "GlobalMaxPool"}
_ROWS_AND_COLUMNS: Final = {1, 2}


def elementwise(operands: Operands) -> DescribedOperator:
    """Broadcast as numpy does, along the last axes of the file. Raises UnlikeError."""
    kind = operands.operator.kind
    inputs: list[int] = []
    parameters: list[Presented] = []
    for place in operands.places:
        shape = operands.shape(place)
        _unlike_if(not _is_broadcast(shape, operands.written))
        if operands.is_constant(place):
            parameters.append(_beside_maps(operands, place) if operands.writes_maps else operands.parameter(place))
        else:
            inputs.append(_like_the_output(operands, place))
    _unlike_if(not inputs)
    attributes: dict[str, AttributeValue] = dict(operands.fused)
    if kind in _LIMITS:
        attributes |= dict(zip(("min", "max"), _LIMITS[kind], strict=True))
    if kind == "LEAKY_RELU":
        attributes["alpha"] = float(operands.options.get("alpha", 0.0))
    return DescribedOperator(
        ELEMENTWISE[kind], tuple(inputs), tuple(one for each in parameters for one in each), attributes
    )


def _like_the_output(operands: Operands, place: int) -> int:
    index = operands.activation(place)
    shape = operands.shape(place)
    if len(shape) == len(operands.written):
        if operands.order(place) != operands.written_order:
            raise UnlikeError
    elif operands.writes_maps and shape:
        raise UnlikeError
    return index


def _beside_maps(operands: Operands, place: int) -> Presented:
    """Return a constant that is combined with maps: the last axis in the file is the channels."""
    shape = operands.shape(place)
    if not shape:
        return operands.parameter(place)
    missing = MAP_RANK - len(shape)
    order = tuple(at - missing for at in CHANNELS_FIRST if at >= missing)
    filled = ((1,) * missing + shape)[:MAP_RANK]
    return operands.parameter(place, order, tuple(filled[at] for at in CHANNELS_FIRST))


def _is_broadcast(shape: Shape, written: Shape) -> bool:
    along = written[len(written) - len(shape) :]
    return len(shape) <= len(written) and all(size in (1, of) for size, of in zip(shape, along, strict=True))


def reduction(operands: Operands) -> DescribedOperator:
    """Describe MEAN, SUM and similar over stated axes, or a pool over all pixels of a map. Raises UnlikeError."""
    kind, source = operands.operator.kind, operands.shape(0)
    order = operands.order(0)
    axes = {axis % len(source) for axis in operands.settings(1)} if source else set()
    keeps = bool(operands.option("keep_dims"))
    left = tuple(1 if at in axes else size for at, size in enumerate(source) if keeps or at not in axes)
    _unlike_if(not axes or left != operands.written)
    if order == CHANNELS_FIRST and keeps and axes == _ROWS_AND_COLUMNS and kind in _OF_ALL_PIXELS:
        return DescribedOperator(_OF_ALL_PIXELS[kind], (operands.map(0),))
    attributes: dict[str, AttributeValue] = {"axes": [*sorted(map(order.index, axes))], "keepdims": int(keeps)}
    return DescribedOperator(REDUCTIONS[kind], (operands.activation(0),), (), attributes)


def fully_connected(operands: Operands) -> DescribedOperator:
    """Describe FULLY_CONNECTED: rows of features times a matrix with a row per unit. Raises UnlikeError."""
    source, weight, written = operands.shape(0), operands.shape(1), operands.written
    _unlike_if(operands.option("weights_format") or len(weight) != 2 or not written or written[-1] != weight[0])
    index = operands.operator.inputs[0]
    _unlike_if(operands.is_constant(0))
    is_plain = operands.layouts.is_direct(index) and operands.order(0) == tuple(range(MAP_RANK))
    _unlike_if(len(written) == MAP_RANK and not is_plain)
    _unlike_if(prod(source) // weight[1] * weight[0] != prod(written) or prod(source) % weight[1])
    attributes: dict[str, AttributeValue] = {"transB": 1, **operands.fused}
    if operands.is_constant(1):
        parameters = (*operands.parameter(1), *operands.optional_parameter(2))
        return DescribedOperator("Gemm", (index,), parameters, attributes)
    return DescribedOperator("Gemm", (index, operands.activation(1)), operands.optional_parameter(2), attributes)


def matrix_product(operands: Operands) -> DescribedOperator:
    """Describe BATCH_MATMUL if its operands need no transposition, or are constants. Raises UnlikeError."""
    shapes = [operands.shape(place) for place in (0, 1)]
    _unlike_if(min(map(len, shapes)) < 2 or operands.writes_maps)
    inputs: list[int] = []
    parameters: Presented = ()
    for place, turned in ((0, operands.option("adj_x")), (1, operands.option("adj_y"))):
        *batch, rows, columns = range(len(shapes[place]))
        if operands.is_constant(place):
            parameters += operands.parameter(place, (*batch, columns, rows) if turned else None)
        elif turned or operands.order(place) != (*batch, rows, columns):
            raise UnlikeError
        else:
            inputs.append(operands.activation(place))
    if not inputs or (parameters and operands.is_constant(0)):  # parameters follow inputs
        raise UnlikeError
    return DescribedOperator("MatMul", tuple(inputs), parameters)


def concatenation(operands: Operands) -> DescribedOperator:
    """Describe CONCATENATION along an axis. Raises UnlikeError."""
    rank, order = len(operands.written), operands.written_order
    _unlike_if(not rank)
    inputs: list[int] = []
    parameters: Presented = ()
    for place in operands.places:
        if operands.is_constant(place):
            parameters += operands.parameter(place, order if len(operands.shape(place)) == rank else None)
        elif operands.order(place) == order:
            inputs.append(operands.activation(place))
        else:
            raise UnlikeError
    axis = order.index(operands.option("axis") % rank)
    return DescribedOperator("Concat", tuple(inputs), parameters, {"axis": axis, **operands.fused})


def split(operands: Operands) -> DescribedOperator:
    """Describe SPLIT, whose axis comes first, and SPLIT_V, whose axis comes last. Raises UnlikeError."""
    data, axis = (1, 0) if operands.operator.kind == "SPLIT" else (0, 2)
    order, axes = operands.order(data), operands.settings(axis)
    parts = operands.operator.outputs
    _unlike_if(not order or len(axes) != 1 or any(operands.layouts.order(part) != order for part in parts))
    along = axes[0] % len(order)
    sizes = [operands.storage.tensor(part).shape[along] for part in parts]
    return DescribedOperator("Split", (operands.activation(data),), (), {"axis": order.index(along), "split": [*sizes]})


def pad(operands: Operands) -> DescribedOperator:
    """Describe PAD by zeros, PADV2 by a constant, and MIRROR_PAD, in the order of the map. Raises UnlikeError."""
    source, written, order = operands.shape(0), operands.written, operands.order(0)
    pads = operands.settings(1)
    _unlike_if(len(pads) != 2 * len(source) or order != operands.written_order)
    _unlike_if(any(size + sum(pads[2 * at : 2 * at + 2]) != written[at] for at, size in enumerate(source)))
    before, behind = [pads[2 * at] for at in order], [pads[2 * at + 1] for at in order]
    attributes: dict[str, AttributeValue] = {"mode": "constant", "pads": [*before, *behind]}
    if operands.operator.kind == "MIRROR_PAD":
        attributes["mode"] = "symmetric" if operands.option("mode") else "reflect"
    _unlike_if(operands.is_there(2) and not operands.is_constant(2))
    return DescribedOperator("Pad", (operands.activation(0),), (), attributes)


def sliced(operands: Operands) -> DescribedOperator:
    """Describe SLICE by starts and sizes. Raises UnlikeError."""
    source, order = operands.shape(0), operands.order(0)
    begins, sizes = operands.settings(1), operands.settings(2)
    _unlike_if(not len(begins) == len(sizes) == len(source) or min(begins, default=0) < 0)
    ends = [whole if size < 0 else begin + size for begin, size, whole in zip(begins, sizes, source, strict=True)]
    return _cut(operands, order, list(begins), ends, [1] * len(source))


def strided_slice(operands: Operands) -> DescribedOperator:
    """Describe STRIDED_SLICE with positive steps that keeps every axis. Raises UnlikeError."""
    source, order = operands.shape(0), operands.order(0)
    begins, ends, steps = (list(operands.settings(place)) for place in (1, 2, 3))
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
    _unlike_if(any(map(operands.option, masks)) or not len(begins) == len(ends) == len(steps) <= len(source))
    begins += [0] * (len(source) - len(begins))
    steps += [1] * (len(source) - len(steps))
    ends += source[len(ends) :]
    for at, size in enumerate(source):
        if operands.option("begin_mask") >> at & 1:
            begins[at] = 0
        if operands.option("end_mask") >> at & 1:
            ends[at] = size
        begins[at] = min(begins[at] + size if begins[at] < 0 else begins[at], size)
        ends[at] = min(ends[at] + size if ends[at] < 0 else ends[at], size)
    return _cut(operands, order, begins, ends, steps)


def _cut(
    operands: Operands, order: tuple[int, ...], begins: list[int], ends: list[int], steps: list[int]
) -> DescribedOperator:
    _unlike_if(order != operands.written_order or min(steps, default=1) < 1 or min(begins, default=0) < 0)
    sizes = tuple(-(-(end - begin) // step) for begin, end, step in zip(begins, ends, steps, strict=True))
    _unlike_if(sizes != operands.written)
    attributes: dict[str, AttributeValue] = {
        "axes": [*range(len(order))],
        "starts": [begins[at] for at in order],
        "ends": [ends[at] for at in order],
        "steps": [steps[at] for at in order],
    }
    return DescribedOperator("Slice", (operands.activation(0),), (), attributes)


def transposition(operands: Operands) -> DescribedOperator:
    """Describe TRANSPOSE, unless the presented order already contains it. Raises UnlikeError."""
    moved, source, written = operands.settings(1), operands.order(0), operands.written_order
    axes = list(range(len(source)))
    _unlike_if(sorted(moved) != axes or len(written) != len(source))
    _unlike_if(tuple(operands.shape(0)[at] for at in moved) != operands.written)
    order = [source.index(moved[at]) for at in written]
    _unlike_if(order == axes and list(moved) != axes)
    return DescribedOperator("Transpose", (operands.activation(0),), (), {"perm": [*order]})


def softmax(operands: Operands) -> DescribedOperator:
    """Describe SOFTMAX and LOG_SOFTMAX along the last axis of the file. Raises UnlikeError."""
    order = operands.order(0)
    _unlike_if(not order or order != operands.written_order)
    kind = "Softmax" if operands.operator.kind == "SOFTMAX" else "LogSoftmax"
    return DescribedOperator(
        kind, (operands.activation(0),), (), {"axis": order.index(len(order) - 1), OF_ONE_AXIS: True}
    )


_SAME, _VALID = 0, 1
_OUTPUT_CHANNELS_FIRST: Final = (0, 3, 1, 2)  # of filters: output channels, rows, columns, input channels
_DEPTHWISE_FIRST: Final = (3, 0, 1, 2)  # one, rows, columns, output channels
_INPUT_CHANNELS_FIRST: Final = (3, 0, 1, 2)  # output channels, rows, columns, input channels, for ConvTranspose


@dataclass(frozen=True, slots=True)
class _Slides:
    """A window over rows and columns of a map."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    padding: int

    @classmethod
    def of(cls, operands: Operands, kernel: Shape) -> _Slides:
        strides = (operands.option("stride_h"), operands.option("stride_w"))
        dilations = (operands.option("dilation_hfactor", 1), operands.option("dilation_wfactor", 1))
        _unlike_if(min(*kernel, *strides, *dilations) < 1)
        return cls(kernel, strides, dilations, operands.option("padding"))

    def pads(self, source: Shape, written: Shape) -> list[int]:
        """Return the zeros before rows and columns, then after; raises UnlikeError if the file has other sizes."""
        before, behind = [], []
        for size, result, kernel, stride, dilation in zip(
            source, written, self.kernel, self.strides, self.dilations, strict=True
        ):
            outputs, zeros = _padding(size, kernel, stride, dilation, self.padding)
            _unlike_if(outputs != result)
            before.append(zeros // 2)
            behind.append(zeros - zeros // 2)
        return before + behind

    def attributes(self, pads: list[int]) -> dict[str, AttributeValue]:
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "pads": list(pads),
        }


def _padding(size: int, kernel: int, stride: int, dilation: int, padding: int) -> tuple[int, int]:
    """Return the number of outputs along an axis, and the number of padding zeros, by TFLite's rule."""
    reach = (kernel - 1) * dilation + 1
    if padding == _VALID:
        return (size - reach + stride) // stride, 0
    outputs = -(-size // stride)
    return outputs, max((outputs - 1) * stride + reach - size, 0)


def convolution(operands: Operands) -> DescribedOperator:
    """Describe CONV_2D, grouped if its filters read a part of the channels. Raises UnlikeError."""
    source, weight = operands.shape(0), operands.shape(1)
    _unlike_if(not len(source) == len(weight) == len(operands.written) == 4 or weight[3] < 1 or source[3] % weight[3])
    _unlike_if(operands.written[3] != weight[0])
    return _convolved(operands, operands.parameter(1, _OUTPUT_CHANNELS_FIRST), weight[1:3], source[3] // weight[3])


def depthwise_convolution(operands: Operands) -> DescribedOperator:
    """Describe DEPTHWISE_CONV_2D, with a group per input channel. Raises UnlikeError."""
    source, weight = operands.shape(0), operands.shape(1)
    _unlike_if(not len(source) == len(weight) == len(operands.written) == 4 or weight[0] != 1)
    _unlike_if(operands.written[3] != weight[3] or weight[3] % source[3])
    return _convolved(operands, operands.parameter(1, _DEPTHWISE_FIRST), weight[1:3], source[3])


def _convolved(operands: Operands, weight: Presented, kernel: Shape, groups: int) -> DescribedOperator:
    source, written = operands.shape(0), operands.written
    _unlike_if(source[0] != written[0] or written[3] % groups)
    slides = _Slides.of(operands, kernel)
    attributes = slides.attributes(slides.pads(source[1:3], written[1:3])) | {"group": groups} | operands.fused
    parameters = (*weight, *operands.optional_parameter(2))
    return DescribedOperator("Conv", (operands.map_or_flat(0),), parameters, attributes)


def pool(operands: Operands) -> DescribedOperator:
    """Describe MAX_POOL_2D, and AVERAGE_POOL_2D without padding zeros. Raises UnlikeError."""
    source, written = operands.shape(0), operands.written
    _unlike_if(len(source) != 4 or len(written) != 4 or (source[0], source[3]) != (written[0], written[3]))
    slides = _Slides.of(operands, (operands.option("filter_height"), operands.option("filter_width")))
    attributes = slides.attributes(slides.pads(source[1:3], written[1:3])) | operands.fused
    if operands.operator.kind == "MAX_POOL_2D":
        return DescribedOperator("MaxPool", (operands.map(0),), (), attributes)
    return DescribedOperator("AveragePool", (operands.map(0),), (), attributes | {"count_include_pad": 0})


def transposed_convolution(operands: Operands) -> DescribedOperator:
    """Describe TRANSPOSE_CONV, with the padding of the reverse convolution. Raises UnlikeError."""
    source, weight, written = operands.shape(2), operands.shape(1), operands.written
    _unlike_if(not len(source) == len(weight) == len(written) == 4)
    _unlike_if((source[0], source[3], weight[0]) != (written[0], weight[3], written[3]))
    slides = _Slides.of(operands, weight[1:3])
    before, behind, more = [], [], []
    for size, result, kernel, stride in zip(source[1:3], written[1:3], slides.kernel, slides.strides, strict=True):
        inputs, zeros = _padding(result, kernel, stride, 1, slides.padding)
        _unlike_if(inputs != size)
        rest = (size - 1) * stride + kernel - zeros // 2 - result
        before.append(zeros // 2)
        behind.append(max(rest, 0))
        more.append(max(-rest, 0))
    attributes = slides.attributes(before + behind) | {"output_padding": [*more], "group": 1} | operands.fused
    shape = () if operands.is_constant(0) else (operands.activation(0),)
    parameters = (*operands.parameter(1, _INPUT_CHANNELS_FIRST), *operands.optional_parameter(3))
    return DescribedOperator("ConvTranspose", (operands.map(2), *shape), parameters, attributes)


def resize(operands: Operands) -> DescribedOperator:
    """Describe RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR by ONNX's coordinate modes. Raises UnlikeError."""
    operands.settings(1)
    where = "asymmetric"
    if operands.option("align_corners"):
        where = "align_corners"
    elif operands.option("half_pixel_centers"):
        where = "half_pixel"
    attributes: dict[str, AttributeValue] = {"mode": "linear", "coordinate_transformation_mode": where}
    if operands.operator.kind == "RESIZE_NEAREST_NEIGHBOR":
        rounding = "floor" if where == "asymmetric" else "round_prefer_ceil"
        attributes |= {"mode": "nearest", "nearest_mode": rounding}
    return DescribedOperator("Resize", (operands.map(0),), (), attributes)


def blocks(operands: Operands) -> DescribedOperator:
    """Describe DEPTH_TO_SPACE and SPACE_TO_DEPTH, with rows and columns as the outer axes. Raises UnlikeError."""
    attributes: dict[str, AttributeValue] = {"blocksize": operands.option("block_size")}
    if operands.operator.kind == "SPACE_TO_DEPTH":
        return DescribedOperator("SpaceToDepth", (operands.map(0),), (), attributes)
    return DescribedOperator("DepthToSpace", (operands.map(0),), (), attributes | {"mode": "DCR"})


KINDS: Final[Mapping[str, Callable[[Operands], DescribedOperator]]] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": depthwise_convolution,
    "TRANSPOSE_CONV": transposed_convolution,
    **dict.fromkeys(("MAX_POOL_2D", "AVERAGE_POOL_2D"), pool),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), resize),
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), blocks),
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": matrix_product,
    "CONCATENATION": concatenation,
    **dict.fromkeys(("SPLIT", "SPLIT_V"), split),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), pad),
    "SLICE": sliced,
    "STRIDED_SLICE": strided_slice,
    "TRANSPOSE": transposition,
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX"), softmax),
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(REDUCTIONS, reduction),
}
"""Map from TFLite's kind to its description; other operators keep their kind and run whole."""


def description_of(operands: Operands) -> DescribedOperator:
    """Describe an operator by an exactly matching kind of onchip, else by TFLite's kind; raises InputError."""
    describe = KINDS.get(operands.operator.kind)
    if describe is not None:
        try:
            return describe(operands)
        except UnlikeError:
            pass
    return in_own_words(operands)


def in_own_words(operands: Operands) -> DescribedOperator:
    """Describe an operator by TFLite's kind: all its operands, with constants as in the file. Raises InputError."""
    storage = operands.storage
    read = tuple(dict.fromkeys(index for index in operands.operator.inputs if index >= 0))
    stored = [each for index in read if storage.is_constant(index) for each in storage.stored_as(index)]
    inputs = tuple(index for index in read if not storage.is_constant(index))
    stored += operands.operator.within
    parameters = tuple((each, Presentation.of(storage.tensor(each).shape)) for each in dict.fromkeys(stored))
    attributes = {name: writable(value) for name, value in operands.options.items()} | _as_in_file(operands, inputs)
    return DescribedOperator(operands.operator.kind, inputs, parameters, attributes)


def _as_in_file(operands: Operands, inputs: Sequence[int]) -> dict[str, AttributeValue]:
    """Return attributes for inputs that are views or permuted, and for outputs that are permuted."""
    storage, layouts = operands.storage, operands.layouts
    bases, outputs = [storage.base(index) for index in inputs], operands.operator.outputs
    orders, written = (  # the presented position of each axis of the file
        [[order.index(axis) for axis in range(len(order))] for order in map(layouts.order, some)]
        for some in (bases, outputs)
    )
    are_direct = all(layouts.is_direct(index) for index in inputs)
    if are_direct and all(order == sorted(order) for order in (*orders, *written)):
        return {}
    shapes = [list(storage.tensor(index).shape) for index in inputs]
    return {SEEN_SHAPES: _listed(shapes), SEEN_ORDERS: _listed(orders), WRITTEN_ORDERS: _listed(written)}


def _listed(numbers: Sequence[Sequence[int]]) -> AttributeValue:
    return [list(each) for each in numbers]
