"""Convolutions, transposed convolutions and pools as loop nests of two axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.region import Range
from onchip.ir.window import Window, integer, integers, windows_of

Shape = tuple[int, ...]


class NoLayerError(Exception):
    """Why an operator is no layer."""


@dataclass(frozen=True, slots=True)
class Slide:
    """A window along one dimension of so many outputs, with the zeros that it sees before and behind the input."""

    outputs: int
    window: Window
    behind: int

    @classmethod
    def of(cls, window: Window, inputs: int, outputs: int) -> Slide:
        """Count zeros behind from what the last output touches, whatever the attributes allow for.

        Negative padding cuts off inputs that no window sees; of these a loop nest has none.
        """
        touched = (outputs - 1) * window.stride + window.reach
        return cls(outputs, replace(window, pad=max(window.pad, 0)), max(touched - window.pad - inputs, 0))

    @property
    def is_plain(self) -> bool:
        """Whether each output sees the one input at its place."""
        window = self.window
        return window.kernel == window.stride == 1 and window.pad == self.behind == 0


def convolution(operator: Operator, shapes: Sequence[Shape]) -> Mapping[str, Layer]:
    """K and C of one group; depthwise is as many groups as channels. `shapes` are output, input, weight, ..."""
    output, weight = shapes[0], _weight(shapes)
    kernel = integers(operator, "kernel_shape", tuple(weight[2:]))
    source = _as_read(operator, shapes, kernel, weight[1])
    groups = _groups(operator, output[1], source[1])
    channels = Layer(k=output[1] // groups, c=source[1] // groups, g=groups)
    return _layers(channels, output[0], _slides(operator, kernel, source, output))


def pool(operator: Operator, shapes: Sequence[Shape]) -> Mapping[str, Layer]:
    """A pool has a group for each channel, without weights; raises NoLayerError where shapes do not fit."""
    output, source = shapes[0], shapes[1]
    kernel = operator.attributes.get("kernel_shape")
    sizes = tuple(size for size in kernel if isinstance(size, int)) if isinstance(kernel, list) else ()
    if len(sizes) != len(source) - 2 or len(output) != len(source):
        raise NoLayerError("its kernel_shape does not fit its input")
    channels = Layer(g=output[1], has_weight=False)
    return _layers(channels, output[0], _slides(operator, sizes, source, output))


def window_of_channels(operator: Operator, shapes: Sequence[Shape]) -> Mapping[str, Layer]:
    """The squares that a local response normalisation adds up: a window of `size` channels around each element.

    What is done with the sum element by element costs nothing. Raises NoLayerError where shapes do not fit.
    """
    output, source, size = shapes[0], shapes[1], integer(operator, "size", 0)
    if output != source or len(source) < 2 or size < 1:
        raise NoLayerError("its windows do not fit its input")
    batch, channels, *pixels = source
    slide = Slide.of(Window(size, 1, 1, (size - 1) // 2), channels, channels)
    beside = Slide(prod(pixels), Window(1, 1, 1, 0), 0)
    return {"": _on_two_axes(Layer(has_weight=False), batch, (slide, beside))}


def transposed_convolution(
    operator: Operator, shapes: Sequence[Shape], pixels: Sequence[Range] | None = None
) -> Mapping[str, Layer]:
    """A convolution of stride 1 for each remainder of an output's place by the stride; raises NoLayerError.

    output[i * stride + k - pad] += input[i] * weight[k]; those of remainder f meet the taps f, f + stride, ...
    Of the outputs in the ranges `pixels`, one for each dimension of space, or of all.
    """
    output, source, weight = shapes[0], shapes[1], _weight(shapes)
    if len(source) != len(output):
        raise NoLayerError("its input is a view of another shape")
    groups = _groups(operator, output[1], source[1])
    kernel = integers(operator, "kernel_shape", tuple(weight[2:]))
    rank = len(kernel)
    if integers(operator, "dilations", (1,) * rank) != (1,) * rank:
        raise NoLayerError("it is transposed and dilated")
    if (
        operator.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        or "output_shape" in operator.attributes
    ):
        raise NoLayerError("it is transposed and its padding is not written out")
    strides, pads = integers(operator, "strides", (1,) * rank), integers(operator, "pads", (0,) * (2 * rank))
    channels = Layer(k=output[1] // groups, c=source[1] // groups, g=groups)
    layers = {}
    for remainders in product(*(range(stride) for stride in strides)):
        ranges = pixels or tuple((0, size) for size in output[2:])
        sizes = zip(remainders, kernel, strides, pads, source[2:], ranges, strict=False)
        slides = [_phase(*each) for each in sizes]
        if all(slide.outputs and slide.window.kernel for slide in slides):
            name = ", ".join(map(str, remainders)) if max(strides) > 1 else ""
            for part, layer in _layers(channels, output[0], slides).items():
                layers["; ".join(filter(None, (name, part)))] = layer
    return layers


def _phase(remainder: int, kernel: int, stride: int, pad: int, inputs: int, outputs: Range) -> Slide:
    """The outputs o of a range with (o + pad) % stride == remainder.

    With t = (o + pad) // stride, from `first` to `last`, such an output sees the inputs t - taps + 1 to t.
    """
    taps = len(range(remainder, kernel, stride))
    first = max(-(-(outputs[0] + pad - remainder) // stride), 0)
    last = (outputs[1] - 1 + pad - remainder) // stride
    count = max(last - first + 1, 0)
    begins = first - (taps - 1)
    window = Window(taps, 1, 1, max(-begins, 0))
    return Slide(count, window, max(last + 1 - inputs, 0))


def weight_place(shapes: Sequence[Shape]) -> int:
    """Where the weight stands: after the input the first that has the output's rank; scales and zero points have not.

    Raises NoLayerError where none has.
    """
    rank = len(shapes[0])
    for place, shape in enumerate(shapes[2:], 2):
        if len(shape) == rank > 2:
            return place
    raise NoLayerError("its weight does not fit its output")


def _weight(shapes: Sequence[Shape]) -> Shape:
    return shapes[weight_place(shapes)]


def _as_read(operator: Operator, shapes: Sequence[Shape], kernel: Shape, channels_of_group: int) -> Shape:
    """The input's shape; of a view of a tensor of another rank, what windows touch and no more than a stride skips."""
    output, source = shapes[0], shapes[1]
    if len(source) == len(output):
        return source
    windows = windows_of(operator, kernel, output[2:], output[2:])
    pads = integers(operator, "pads", (0,) * (2 * len(kernel)))
    touched = [
        (size - 1) * window.stride + window.reach - before - after
        for size, window, before, after in zip(
            output[2:], windows, pads[: len(kernel)], pads[len(kernel) :], strict=True
        )
    ]
    channels = channels_of_group * integer(operator, "group", 1)
    if operator.attributes.get("auto_pad", "NOTSET") == "NOTSET":
        for pixels in product(
            *(range(size, size + window.stride) for size, window in zip(touched, windows, strict=True))
        ):
            if output[0] * channels * prod(pixels) == prod(source):
                return (output[0], channels, *pixels)
    raise NoLayerError("its input is a view of another shape")


def _groups(operator: Operator, outputs: int, inputs: int) -> int:
    groups = integer(operator, "group", 1)
    if groups < 1 or outputs % groups or inputs % groups:
        raise NoLayerError(f"its channels do not make {groups} groups")
    return groups


def _slides(operator: Operator, kernel: Shape, source: Shape, output: Shape) -> list[Slide]:
    windows = windows_of(operator, kernel, source[2:], output[2:])
    return [Slide.of(*each) for each in zip(windows, source[2:], output[2:], strict=True)]


def _layers(channels: Layer, batch: int, slides: Sequence[Slide]) -> Mapping[str, Layer]:
    """One nest; of a window that slides along three dimensions one for each output along the first of them.

    Such a slice meets the input's slices that its taps see as further channels. One that sees only zeros has no nest.
    Raises NoLayerError for a window along more dimensions, and where all see only zeros.
    """
    sliding = [slide for slide in slides if not slide.is_plain]
    if len(sliding) < 3:
        return {"": _on_two_axes(channels, batch, slides)}
    first, window = sliding[0], sliding[0].window
    others = [slide for slide in slides if slide is not first]
    inputs = (first.outputs - 1) * window.stride + window.reach - window.pad - first.behind
    found = {}
    for output in range(first.outputs):
        begin = output * window.stride - window.pad
        taps = sum(0 <= begin + tap * window.dilation < inputs for tap in range(window.kernel))
        if taps:
            found[str(output)] = _on_two_axes(replace(channels, c=channels.c * taps), batch, others)
    if not found:
        raise NoLayerError("all that it sees is padding")
    return found


def _on_two_axes(channels: Layer, batch: int, slides: Sequence[Slide]) -> Layer:
    """Dimensions along which nothing slides are like a batch; beside at most one that does, they are the other axis."""
    sliding = [slide for slide in slides if not slide.is_plain]
    plain = [slide.outputs for slide in slides if slide.is_plain]
    if len(sliding) > 2:
        raise NoLayerError("its window slides along more than three dimensions")
    still = Window(1, 1, 1, 0)
    if len(slides) == 2:
        axes = list(slides)
    elif len(sliding) == 2:
        axes, batch = sliding, batch * prod(plain)
    elif sliding:
        axes = [sliding[0], Slide(prod(plain), still, 0)] if plain else [Slide(1, still, 0), sliding[0]]
    else:
        axes = [Slide(prod(plain[:-1]), still, 0), Slide(plain[-1], still, 0)]
    height, width = axes
    return Layer(
        batch,
        channels.k,
        channels.c,
        height.outputs,
        width.outputs,
        height.window.kernel,
        width.window.kernel,
        channels.g,
        (height.window.stride, width.window.stride),
        (height.window.dilation, width.window.dilation),
        (height.window.pad, width.window.pad, height.behind, width.behind),
        has_weight=channels.has_weight,
    )
