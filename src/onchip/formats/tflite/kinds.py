"""Descriptions of TFLite's operators by onchip's kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from onchip.formats.tflite.file import options_of
from onchip.formats.tflite.network import ABSENT, NetworkOperator
from onchip.formats.tflite.storage import CHANNELS_FIRST, MAP_RANK, MapLayouts, Presentation, TensorStorage
from onchip.ir.operator import OF_ONE_AXIS, AttributeValue

Shape = tuple[int, ...]
Presented = tuple[tuple[int, Presentation], ...]
_ACTIVATIONS = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}


class UnlikeError(Exception):
    """An operator is not what one of onchip's kinds says, or nothing in the file tells; it keeps TFLite's kind."""


@dataclass(frozen=True, slots=True)
class DescribedOperator:
    """An operator in onchip's words: what it reads, inputs by index, parameters with how they are presented."""

    kind: str
    inputs: tuple[int, ...]
    parameters: Presented = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Operands:
    """Operands by their place among the operator's inputs; whatever does not fit raises UnlikeError."""

    operator: NetworkOperator
    storage: TensorStorage
    layouts: MapLayouts

    @cached_property
    def options(self) -> Mapping[str, int | float]:
        """The numbers among the operator's options."""
        return options_of(self.operator.stated)

    def option(self, name: str, default: int = 0) -> int:
        """A whole number among the options."""
        return int(self.options.get(name, default))

    @property
    def fused(self) -> dict[str, AttributeValue]:
        """The activation that the operator applies itself, as an attribute; empty for none."""
        name = _ACTIVATIONS.get(self.option("fused_activation_function"))
        return {} if name is None else {"fused_activation": name}

    @property
    def places(self) -> range:
        """The places of all inputs, absent ones as well."""
        return range(len(self.operator.inputs))

    def is_there(self, place: int) -> bool:
        """Whether there is an operand at that place that has elements."""
        return place < len(self.operator.inputs) and self.operator.inputs[place] != ABSENT

    def is_constant(self, place: int) -> bool:
        """Whether the operand's value is known before anything runs."""
        return self.storage.is_constant(self._index(place))

    def shape(self, place: int) -> Shape:
        """The operand's shape in the file; raises UnlikeError where it is absent."""
        return self.storage.tensor(self._index(place)).shape

    @property
    def written(self) -> Shape:
        """The first output's shape in the file."""
        return self.storage.tensor(self.operator.outputs[0]).shape

    @property
    def written_order(self) -> tuple[int, ...]:
        """The order in which the first output's axes are presented."""
        return self.layouts.order(self.operator.outputs[0])

    @property
    def writes_maps(self) -> bool:
        """Whether the first output is presented as batch, channels, rows, columns."""
        return self.written_order == CHANNELS_FIRST

    def activation(self, place: int) -> int:
        """An operand that is computed and is seen in its own shape; raises UnlikeError for any other."""
        index = self._index(place)
        if self.storage.is_constant(index) or not self.layouts.is_direct(index):
            raise UnlikeError
        return index

    def order(self, place: int) -> tuple[int, ...]:
        """The order in which an activation's axes are presented; raises UnlikeError for what is none."""
        return self.layouts.order(self.storage.base(self.activation(place)))

    def map(self, place: int) -> int:
        """An activation that is presented as a map; raises UnlikeError for any other."""
        if self.order(place) != CHANNELS_FIRST:
            raise UnlikeError
        return self._index(place)

    def map_or_flat(self, place: int) -> int:
        """A map, or a view of a tensor that has not as many axes as a map; raises UnlikeError for any other."""
        index = self._index(place)
        if self.storage.is_constant(index) or len(self.shape(place)) != MAP_RANK:
            raise UnlikeError
        if not self.layouts.is_direct(index) and len(self.storage.tensor(self.storage.base(index)).shape) != MAP_RANK:
            return index
        return self.map(place)

    def parameter(self, place: int, order: Shape | None = None, shape: Shape | None = None) -> Presented:
        """A constant, its axes in that order, then seen in that shape; raises UnlikeError for what is none."""
        index = self._index(place)
        if not self.storage.is_constant(index):
            raise UnlikeError
        presented = Presentation.of(self.shape(place), order)
        if shape is not None:
            presented = Presentation(presented.order, shape)
        stored = tuple(self.storage.stored_as(index))
        if any(self.storage.tensor(each).shape != self.shape(place) for each in stored):
            raise UnlikeError
        return tuple((each, presented) for each in stored)

    def optional_parameter(self, place: int) -> Presented:
        """A constant as it is, such as a bias; nothing where there is none."""
        return self.parameter(place) if self.is_there(place) else ()

    def settings(self, place: int) -> tuple[int, ...]:
        """The whole numbers of a constant that says how to compute; raises UnlikeError where they are not known."""
        index = self._index(place)
        value = self.storage.value(index) if self.storage.is_constant(index) else None
        if value is None or value.dtype.kind not in "iu":
            raise UnlikeError
        return tuple(int(each) for each in value.reshape(-1))

    def _index(self, place: int) -> int:
        if not self.is_there(place):
            raise UnlikeError
        return self.operator.inputs[place]


ELEMENTWISE: Final = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "POW": "Pow",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "ADD_N": "Sum",
    "ABS": "Abs",
    "EXP": "Exp",
    "LOG": "Log",
    "NEG": "Neg",
    "SQRT": "Sqrt",
    "RELU": "Relu",
    "RELU6": "Clip",
    "RELU_N1_TO_1": "Clip",
    "RELU_0_TO_1": "Clip",
    "LEAKY_RELU": "LeakyRelu",
    "ELU": "Elu",
    "LOGISTIC": "Sigmoid",
    "TANH": "Tanh",
    "HARD_SWISH": "HardSwish",
    "GELU": "Gelu",
    "PRELU": "PRelu",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "Round",
    "SIN": "Sin",
    "COS": "Cos",
    "CAST": "Cast",
    "QUANTIZE": "QuantizeLinear",
    "DEQUANTIZE": "DequantizeLinear",
    "EQUAL": "Equal",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "LOGICAL_NOT": "Not",
    "SELECT_V2": "Where",
}
"""TFLite's kinds that compute each element of the output from one of each operand, and ONNX's words for them."""
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
        if not _is_broadcast(shape, operands.written):
            raise UnlikeError
        if operands.is_constant(place):
            parameters.append(_beside_maps(operands, place) if operands.writes_maps else operands.parameter(place))
        else:
            inputs.append(_like_the_output(operands, place))
    if not inputs:
        raise UnlikeError
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
    """A constant beside maps: the file's last axis is the channels, which are not the last of a map."""
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
    """MEAN, SUM and the like over axes that the file states; of all pixels of a map, a pool. Raises UnlikeError."""
    kind, source = operands.operator.kind, operands.shape(0)
    order = operands.order(0)
    axes = {axis % len(source) for axis in operands.settings(1)} if source else set()
    keeps = bool(operands.option("keep_dims"))
    left = tuple(1 if at in axes else size for at, size in enumerate(source) if keeps or at not in axes)
    if not axes or left != operands.written:
        raise UnlikeError
    if order == CHANNELS_FIRST and keeps and axes == _ROWS_AND_COLUMNS and kind in _OF_ALL_PIXELS:
        return DescribedOperator(_OF_ALL_PIXELS[kind], (operands.map(0),))
    attributes: dict[str, AttributeValue] = {"axes": [*sorted(map(order.index, axes))], "keepdims": int(keeps)}
    return DescribedOperator(REDUCTIONS[kind], (operands.activation(0),), (), attributes)


def fully_connected(operands: Operands) -> DescribedOperator:
    """FULLY_CONNECTED: rows of features times a matrix of a row for each unit. Raises UnlikeError."""
    source, weight, written = operands.shape(0), operands.shape(1), operands.written
    if operands.option("weights_format") or len(weight) != 2 or not written or written[-1] != weight[0]:
        raise UnlikeError
    index = operands.operator.inputs[0]
    if operands.is_constant(0) or (len(written) == MAP_RANK and not _is_plain(operands, index)):
        raise UnlikeError
    if _elements(source) // weight[1] * weight[0] != _elements(written) or _elements(source) % weight[1]:
        raise UnlikeError
    attributes: dict[str, AttributeValue] = {"transB": 1, **operands.fused}
    if operands.is_constant(1):
        parameters = (*operands.parameter(1), *operands.optional_parameter(2))
        return DescribedOperator("Gemm", (index,), parameters, attributes)
    return DescribedOperator("Gemm", (index, operands.activation(1)), operands.optional_parameter(2), attributes)


def _is_plain(operands: Operands, index: int) -> bool:
    return operands.layouts.is_direct(index) and operands.order(0) == tuple(range(MAP_RANK))


def _elements(shape: Shape) -> int:
    elements = 1
    for size in shape:
        elements *= size
    return elements


def matrix_product(operands: Operands) -> DescribedOperator:
    """BATCH_MATMUL whose operands stand as the product reads them, or a constant that is. Raises UnlikeError."""
    shapes = [operands.shape(place) for place in (0, 1)]
    if min(map(len, shapes)) < 2 or operands.writes_maps:
        raise UnlikeError
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
    if not inputs or (parameters and operands.is_constant(0)):  # a parameter stands behind what is read
        raise UnlikeError
    return DescribedOperator("MatMul", tuple(inputs), parameters)


def concatenation(operands: Operands) -> DescribedOperator:
    """CONCATENATION along an axis. Raises UnlikeError."""
    rank, order = len(operands.written), operands.written_order
    if not rank:
        raise UnlikeError
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
    """SPLIT, whose axis comes first, and SPLIT_V, whose axis comes last. Raises UnlikeError."""
    data, axis = (1, 0) if operands.operator.kind == "SPLIT" else (0, 2)
    order, (along,) = operands.order(data), _only(operands.settings(axis))
    parts = operands.operator.outputs
    if not order or any(operands.layouts.order(part) != order for part in parts):
        raise UnlikeError
    along %= len(order)
    sizes = [operands.storage.tensor(part).shape[along] for part in parts]
    return DescribedOperator("Split", (operands.activation(data),), (), {"axis": order.index(along), "split": [*sizes]})


def pad(operands: Operands) -> DescribedOperator:
    """PAD by zeros, PADV2 by a constant, MIRROR_PAD; a map's in a map's order. Raises UnlikeError."""
    source, written, order = operands.shape(0), operands.written, operands.order(0)
    pads = operands.settings(1)
    if len(pads) != 2 * len(source) or order != operands.written_order:
        raise UnlikeError
    if any(size + sum(pads[2 * at : 2 * at + 2]) != written[at] for at, size in enumerate(source)):
        raise UnlikeError
    before, behind = [pads[2 * at] for at in order], [pads[2 * at + 1] for at in order]
    attributes: dict[str, AttributeValue] = {"mode": "constant", "pads": [*before, *behind]}
    if operands.operator.kind == "MIRROR_PAD":
        attributes["mode"] = "symmetric" if operands.option("mode") else "reflect"
    if operands.is_there(2) and not operands.is_constant(2):
        raise UnlikeError
    return DescribedOperator("Pad", (operands.activation(0),), (), attributes)


def sliced(operands: Operands) -> DescribedOperator:
    """SLICE from where to how many. Raises UnlikeError."""
    source, order = operands.shape(0), operands.order(0)
    begins, sizes = operands.settings(1), operands.settings(2)
    if not len(begins) == len(sizes) == len(source) or min(begins, default=0) < 0:
        raise UnlikeError
    ends = [whole if size < 0 else begin + size for begin, size, whole in zip(begins, sizes, source, strict=True)]
    return _cut(operands, order, list(begins), ends, [1] * len(source))


def strided_slice(operands: Operands) -> DescribedOperator:
    """STRIDED_SLICE forwards, that leaves every axis. Raises UnlikeError."""
    source, order = operands.shape(0), operands.order(0)
    begins, ends, steps = (list(operands.settings(place)) for place in (1, 2, 3))
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
    if any(map(operands.option, masks)) or not len(begins) == len(ends) == len(steps) <= len(source):
        raise UnlikeError
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
    if order != operands.written_order or min(steps, default=1) < 1 or min(begins, default=0) < 0:
        raise UnlikeError
    sizes = tuple(-(-(end - begin) // step) for begin, end, step in zip(begins, ends, steps, strict=True))
    if sizes != operands.written:
        raise UnlikeError
    attributes: dict[str, AttributeValue] = {
        "axes": [*range(len(order))],
        "starts": [begins[at] for at in order],
        "ends": [ends[at] for at in order],
        "steps": [steps[at] for at in order],
    }
    return DescribedOperator("Slice", (operands.activation(0),), (), attributes)


def transposition(operands: Operands) -> DescribedOperator:
    """TRANSPOSE; one that changes no more than the presented order already does keeps its kind. Raises UnlikeError."""
    moved, source, written = operands.settings(1), operands.order(0), operands.written_order
    axes = list(range(len(source)))
    if sorted(moved) != axes or len(written) != len(source):
        raise UnlikeError
    if tuple(operands.shape(0)[at] for at in moved) != operands.written:
        raise UnlikeError
    order = [source.index(moved[at]) for at in written]
    if order == axes and list(moved) != axes:
        raise UnlikeError
    return DescribedOperator("Transpose", (operands.activation(0),), (), {"perm": [*order]})


def softmax(operands: Operands) -> DescribedOperator:
    """SOFTMAX and LOG_SOFTMAX along the file's last axis. Raises UnlikeError."""
    order = operands.order(0)
    if not order or order != operands.written_order:
        raise UnlikeError
    kind = "Softmax" if operands.operator.kind == "SOFTMAX" else "LogSoftmax"
    return DescribedOperator(
        kind, (operands.activation(0),), (), {"axis": order.index(len(order) - 1), OF_ONE_AXIS: True}
    )


def _only(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if len(numbers) != 1:
        raise UnlikeError
    return numbers


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
        if min(*kernel, *strides, *dilations) < 1:
            raise UnlikeError
        return cls(kernel, strides, dilations, operands.option("padding"))

    def pads(self, source: Shape, written: Shape) -> list[int]:
        """The zeros before rows and columns, then behind; raises UnlikeError where the file's sizes are others."""
        before, behind = [], []
        for size, result, kernel, stride, dilation in zip(
            source, written, self.kernel, self.strides, self.dilations, strict=True
        ):
            outputs, zeros = _padding(size, kernel, stride, dilation, self.padding)
            if outputs != result:
                raise UnlikeError
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
    """How many outputs there are along an axis, and how many zeros beside the input, as TFLite has it."""
    reach = (kernel - 1) * dilation + 1
    if padding == _VALID:
        return (size - reach + stride) // stride, 0
    outputs = -(-size // stride)
    return outputs, max((outputs - 1) * stride + reach - size, 0)


def convolution(operands: Operands) -> DescribedOperator:
    """CONV_2D; grouped where its filters see a part of the channels. Raises UnlikeError."""
    source, weight = operands.shape(0), operands.shape(1)
    if not len(source) == len(weight) == len(operands.written) == 4 or weight[3] < 1 or source[3] % weight[3]:
        raise UnlikeError
    if operands.written[3] != weight[0]:
        raise UnlikeError
    return _convolved(operands, operands.parameter(1, _OUTPUT_CHANNELS_FIRST), weight[1:3], source[3] // weight[3])


def depthwise_convolution(operands: Operands) -> DescribedOperator:
    """DEPTHWISE_CONV_2D: a group for each input channel. Raises UnlikeError."""
    source, weight = operands.shape(0), operands.shape(1)
    if not len(source) == len(weight) == len(operands.written) == 4 or weight[0] != 1:
        raise UnlikeError
    if operands.written[3] != weight[3] or weight[3] % source[3]:
        raise UnlikeError
    return _convolved(operands, operands.parameter(1, _DEPTHWISE_FIRST), weight[1:3], source[3])


def _convolved(operands: Operands, weight: Presented, kernel: Shape, groups: int) -> DescribedOperator:
    source, written = operands.shape(0), operands.written
    if source[0] != written[0] or written[3] % groups:
        raise UnlikeError
    slides = _Slides.of(operands, kernel)
    attributes = slides.attributes(slides.pads(source[1:3], written[1:3])) | {"group": groups} | operands.fused
    parameters = (*weight, *operands.optional_parameter(2))
    return DescribedOperator("Conv", (operands.map_or_flat(0),), parameters, attributes)


def pool(operands: Operands) -> DescribedOperator:
    """MAX_POOL_2D and AVERAGE_POOL_2D, which counts no zeros. Raises UnlikeError."""
    source, written = operands.shape(0), operands.written
    if len(source) != 4 or len(written) != 4 or (source[0], source[3]) != (written[0], written[3]):
        raise UnlikeError
    slides = _Slides.of(operands, (operands.option("filter_height"), operands.option("filter_width")))
    attributes = slides.attributes(slides.pads(source[1:3], written[1:3])) | operands.fused
    if operands.operator.kind == "MAX_POOL_2D":
        return DescribedOperator("MaxPool", (operands.map(0),), (), attributes)
    return DescribedOperator("AveragePool", (operands.map(0),), (), attributes | {"count_include_pad": 0})


def transposed_convolution(operands: Operands) -> DescribedOperator:
    """TRANSPOSE_CONV: the padding is that of the convolution from its output to its input. Raises UnlikeError."""
    source, weight, written = operands.shape(2), operands.shape(1), operands.written
    if not len(source) == len(weight) == len(written) == 4:
        raise UnlikeError
    if (source[0], source[3], weight[0]) != (written[0], weight[3], written[3]):
        raise UnlikeError
    slides = _Slides.of(operands, weight[1:3])
    before, behind, more = [], [], []
    for size, result, kernel, stride in zip(source[1:3], written[1:3], slides.kernel, slides.strides, strict=True):
        inputs, zeros = _padding(result, kernel, stride, 1, slides.padding)
        if inputs != size:
            raise UnlikeError
        rest = (size - 1) * stride + kernel - zeros // 2 - result
        before.append(zeros // 2)
        behind.append(max(rest, 0))
        more.append(max(-rest, 0))
    attributes = slides.attributes(before + behind) | {"output_padding": [*more], "group": 1} | operands.fused
    shape = () if operands.is_constant(0) else (operands.activation(0),)
    parameters = (*operands.parameter(1, _INPUT_CHANNELS_FIRST), *operands.optional_parameter(3))
    return DescribedOperator("ConvTranspose", (operands.map(2), *shape), parameters, attributes)


def resize(operands: Operands) -> DescribedOperator:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR, in ONNX's words for where a pixel lies. Raises UnlikeError."""
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
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH, where rows and columns of a block are the slower axes. Raises UnlikeError."""
    attributes: dict[str, AttributeValue] = {"blocksize": operands.option("block_size")}
    if operands.operator.kind == "SPACE_TO_DEPTH":
        return DescribedOperator("SpaceToDepth", (operands.map(0),), (), attributes)
    return DescribedOperator("DepthToSpace", (operands.map(0),), (), attributes | {"mode": "DCR"})
