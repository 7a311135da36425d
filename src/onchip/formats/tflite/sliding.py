"""Convolutions, transposed convolutions and pools in onchip's words: windows over maps, with their padding counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.formats.tflite.operands import DescribedOperator, Operands, Presented, Shape, UnlikeError
from onchip.ir.operator import AttributeValue

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
