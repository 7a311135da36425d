"""Operators that slide a window: convolutions, depthwise convolutions and pooling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tile import Range
from onchip.ir.window import Shape, Window, integer, integers, windows_of
from onchip.ops.slicing import AffineDimension, OperatorEntry, along, lone_loops, unknown


class NoLayerError(Exception):
    """Raised if an operator is not a layer; its text is the reason."""


@dataclass(frozen=True, slots=True)
class Slide:
    """A window along one dimension of `outputs` outputs, with the zeros that it sees before and behind the input."""

    outputs: int
    window: Window
    behind: int

    @classmethod
    def of(cls, window: Window, inputs: int, outputs: int) -> Slide:
        """Return the slide, with the zeros behind the input counted up to the last position that the last output reads.

        Negative padding crops inputs that no window sees; a loop nest does not have them.
        """
        touched = (outputs - 1) * window.stride + window.reach
        return cls(outputs, replace(window, pad=max(window.pad, 0)), max(touched - window.pad - inputs, 0))

    @property
    def is_plain(self) -> bool:
        """Return True if each output reads only the input at its own position."""
        window = self.window
        return window.kernel == window.stride == 1 and window.pad == self.behind == 0


def convolution(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a convolution, with K and C per group. Raises NoLayerError if the shapes are inconsistent."""
    place = weight_place(shapes)
    output, kernel = shapes[0], integers(operator, "kernel_shape", shapes[place][2:])
    source = _as_read(operator, shapes, kernel, shapes[place][1])
    loops, outputs, inputs = _channels(operator, output[1], source[1])
    batch, depth = AffineDimension(output[0], {"N": 1}), AffineDimension(loops["C"], {"C": 1})
    write = (batch, outputs, *_each("P", output[2:]))
    read = (batch, inputs, *_windows(operator, kernel, source, output))
    return _entry({0: write, 1: read, place: (outputs, depth, *_each("R", kernel))}, loops)


def pool(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a pool, with a group per channel; raises NoLayerError if the shapes are inconsistent."""
    output, source = shapes[:2]
    kernel = integers(operator, "kernel_shape", (0,) * (len(source) - 2))
    if not len(source) == len(output) > 2 or not all(kernel):
        raise NoLayerError("its kernel_shape does not fit its input")
    plain = AffineDimension(output[0], {"N": 1}), AffineDimension(output[1], {"G": 1})
    write, read = (*plain, *_each("P", output[2:])), (*plain, *_windows(operator, kernel, source, output))
    return _entry({0: write, 1: read}, {f"R{at}": taps for at, taps in enumerate(kernel, 2)})


def pool_of_all(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a global pool; raises NoLayerError if the input has no channels."""
    if len(shapes[1]) < 2:
        raise NoLayerError("its input has no pixels")
    batch, channels, *pixels = shapes[1]
    plain = AffineDimension(batch, {"N": 1}), AffineDimension(channels, {"G": 1})
    operands = {0: (*plain, *(AffineDimension(1, {}) for _ in pixels)), 1: (*plain, *_each("R", pixels))}
    return _entry(operands, {}, "R2" if operator.kind == "GlobalAveragePool" and pixels else "")


def transposed_convolution(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a ConvTranspose: input pixel i with tap k adds to output i * stride + k * dilation - pad.

    If attributes leave the padding before the input undetermined, a loop U runs over its values. Raises NoLayerError if
    the shapes are inconsistent.
    """
    place = weight_place(shapes)
    output, source, kernel = shapes[0], shapes[1], integers(operator, "kernel_shape", shapes[place][2:])
    if len(source) != len(output):
        raise NoLayerError("its input is a view of another shape")
    rank = len(kernel)
    loops, outputs, inputs = _channels(operator, output[1], source[1])
    steps, dilations = (integers(operator, name, (1,) * rank) for name in ("strides", "dilations"))
    more, pads = integers(operator, "output_padding", (0,) * rank), integers(operator, "pads", (0,) * (2 * rank))
    is_closed = operator.attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    pixels = []
    for at, (step, dilation) in enumerate(zip(steps, dilations, strict=True)):
        size, pad = (source[2 + at] - 1) * step + (kernel[at] - 1) * dilation + 1 + more[at], pads[at]
        if is_closed and "output_shape" not in operator.attributes:
            size -= pad + pads[rank + at]
        else:
            missing, size = max(size - output[2 + at], 0), output[2 + at]
            loops[f"U{2 + at}"], pad = 1 + missing % 2, -(-missing // 2)
        pixels.append(_spread(2 + at, size, step, dilation, pad, loops))
    batch, filters = AffineDimension(output[0], {"N": 1}), AffineDimension(loops["K"], {"K": 1})
    write, read = (batch, outputs, *pixels), (batch, inputs, *_each("P", source[2:]))
    return _entry({0: write, 1: read, place: (inputs, filters, *_each("R", kernel))}, loops)


def transposed_with_bias(_operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of TFLite's transposed convolution (NHWC), whose file does not state stride and padding.

    The stride makes the output a multiple of the input (SAME), or as long as the last tap reaches (VALID). Raises
    NoLayerError if the shapes are inconsistent.
    """
    if len(shapes) < 3 or {*map(len, shapes[:3])} != {4}:
        raise NoLayerError("its operands do not fit its output")
    loops, pixels = dict[str, int](), list[AffineDimension]()
    for at, (after, before, taps) in enumerate(zip(*(shape[1:3] for shape in shapes[:3]), strict=True), 2):
        step, pad = after // before, max(taps - after // before, 0)
        if after % before:
            step, pad = (after - taps) // max(before - 1, 1), 0
            if before == 1 or step < 1 or (after - taps) % (before - 1):
                raise NoLayerError("its stride does not follow from its sizes")
        loops[f"U{at}"] = 1 + pad
        pixels.append(_spread(at, after, step, 1, pad, loops))
    output, source, weight = shapes[:3]
    batch, units, depth = (
        AffineDimension(output[0], {"N": 1}),
        AffineDimension(output[3], {"K": 1}),
        AffineDimension(source[3], {"C": 1}),
    )
    read, filters = (batch, *_each("P", source[1:3]), depth), (units, *_each("R", weight[1:3]), depth)
    return _entry({0: (batch, *pixels, units), 1: read, 2: filters}, loops)


def loop_nests(entry: OperatorEntry, pixels: Sequence[Range]) -> Mapping[str, Layer]:
    """Return the loop nests over ranges of the output's pixels; raises NoLayerError if there are none."""
    loops, seen, channels = entry.loops, entry.operands[1][2:], _nest_of_channels(entry)
    if not seen:
        raise NoLayerError("its input has no pixels")
    if any(len(one.terms) > 1 for one in entry.operands[0][2:]):
        return _phases(entry, pixels)
    if "P2" not in loops:
        *down, across = (one.size for one in seen)
        return {"": replace(channels, n=loops["N"], r=prod(down), s=across)}
    slides = []
    for one, (start, stop) in zip(seen, pixels, strict=True):
        stride, dilation = one.terms.values()
        taps = loops[[*one.terms][1]]
        slides.append(Slide.of(Window(taps, stride, dilation, -one.offset - start * stride), one.size, stop - start))
    return _layers(channels, loops["N"], slides)


def _phases(entry: OperatorEntry, pixels: Sequence[Range]) -> Mapping[str, Layer]:
    """Return a transposed convolution as one of stride 1 per remainder of the output position by the stride.

    The outputs of remainder f meet the taps f, f + stride, ...
    """
    loops, spreads = entry.loops, entry.operands[0][2:]
    strides, dilations = zip(*([*one.terms.values()][:2] for one in spreads), strict=True)
    if max(dilations) > 1:
        raise NoLayerError("it is transposed and dilated")
    if "U2" in loops:
        raise NoLayerError("it is transposed and its padding is not written out")
    layers = {}
    for remainders in product(*map(range, strides)):
        sizes = enumerate(zip(remainders, strides, spreads, pixels, strict=True), 2)
        slides = [_phase(f, loops[f"R{i}"], step, -one.offset, loops[f"P{i}"], o) for i, (f, step, one, o) in sizes]
        if all(slide.outputs and slide.window.kernel for slide in slides):
            name = ", ".join(map(str, remainders)) if max(strides) > 1 else ""
            for part, layer in _layers(_nest_of_channels(entry), loops["N"], slides).items():
                layers["; ".join(filter(None, (name, part)))] = layer
    return layers


def window_of_channels(operator: Operator, shapes: Sequence[Shape]) -> OperatorEntry:
    """Return the entry of a local response normalisation: the nest sums the squares over a window of channels.

    The element-wise use of the sum costs nothing. A slice has all channels. Raises NoLayerError if the shapes are
    inconsistent.
    """
    output, source, size = shapes[0], shapes[1], integer(operator, "size", 0)
    if output != source or not source:
        raise NoLayerError("its windows do not fit its input")
    write = along(output)
    operands = {0: write, 1: write, **{at: unknown(shape) for at, shape in enumerate(shapes[2:], 2)}}
    loops, uncut = lone_loops(operands), frozenset({"P1"})
    if len(source) < 2 or size < 1:
        return OperatorEntry(loops, operands, uncut=uncut, why="its windows do not fit its input")
    batch, channels, *pixels = source
    slide = Slide.of(Window(size, 1, 1, (size - 1) // 2), channels, channels)
    beside = Slide(prod(pixels), Window(1, 1, 1, 0), 0)
    nest = _on_two_axes(Layer(has_weight=False), batch, (slide, beside))
    return OperatorEntry(loops, operands, (1,), uncut=uncut, stated={"": nest})


def _phase(remainder: int, kernel: int, stride: int, pad: int, inputs: int, outputs: Range) -> Slide:
    """Return the slide of the outputs o of a range with (o + pad) % stride == remainder.

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
    """Return the position of the weight: the first operand after the input with the output's rank.

    Scales and zero points have another rank. Raises NoLayerError if there is none.
    """
    rank = len(shapes[0])
    for place, shape in enumerate(shapes[2:], 2):
        if len(shape) == rank > 2:
            return place
    raise NoLayerError("its weight does not fit its output")


def _as_read(operator: Operator, shapes: Sequence[Shape], kernel: Shape, channels_of_group: int) -> Shape:
    """Return the input's shape; for a view of another rank, the pixels that the windows touch, and skipped ones.

    At most stride - 1 pixels are added per dimension, to match the number of elements. Raises NoLayerError otherwise.
    """
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


def _channels(operator: Operator, outputs: int, inputs: int) -> tuple[dict[str, int], AffineDimension, AffineDimension]:
    """Return the loops over channels, and the channel dimensions of the output and of the input."""
    groups = integer(operator, "group", 1)
    if groups < 1 or outputs % groups or inputs % groups:
        raise NoLayerError(f"its channels do not make {groups} groups")
    k, c = outputs // groups, inputs // groups
    if groups == 1:
        return {"K": k, "C": c}, AffineDimension(k, {"K": 1}), AffineDimension(c, {"C": 1})
    loops = {"G": groups, "K": k, "C": c}
    return loops, AffineDimension(outputs, {"G": k, "K": 1}), AffineDimension(inputs, {"G": c, "C": 1})


def _each(letter: str, sizes: Iterable[int]) -> Iterable[AffineDimension]:
    return (AffineDimension(size, {f"{letter}{at}": 1}) for at, size in enumerate(sizes, 2))


def _windows(operator: Operator, kernel: Shape, source: Shape, output: Shape) -> Iterable[AffineDimension]:
    windows = windows_of(operator, kernel, source[2:], output[2:])
    for at, (window, size) in enumerate(zip(windows, source[2:], strict=True), 2):
        yield AffineDimension(size, {f"P{at}": window.stride, f"R{at}": window.dilation}, -window.pad)


def _spread(at: int, size: int, step: int, dilation: int, pad: int, loops: Mapping[str, int]) -> AffineDimension:
    is_open = {f"U{at}": 1} if f"U{at}" in loops else {}
    return AffineDimension(size, {f"P{at}": step, f"R{at}": dilation, **is_open}, -pad)


def _entry(
    operands: Mapping[int, tuple[AffineDimension, ...]], loops: Mapping[str, int], summed: str = ""
) -> OperatorEntry:
    """Return the entry, with loops that make up a dimension alone sized by it; C may be cut if there is one group."""
    summed = "C" if "C" in loops and "G" not in loops else summed
    return OperatorEntry(
        {**lone_loops(operands), **loops}, operands, tuple(place for place in operands if place), summed
    )


def _nest_of_channels(entry: OperatorEntry) -> Layer:
    k, c, g = (entry.loops.get(loop, 1) for loop in ("K", "C", "G"))
    return Layer(k=k, c=c, g=g, has_weight=len(entry.factors) > 1)


def _layers(channels: Layer, batch: int, slides: Sequence[Slide]) -> Mapping[str, Layer]:
    """Return one nest, or for a window along three dimensions one nest per output along the first of them.

    Such a nest has the input slices of its taps as further channels; an output that sees only zeros has none. Raises
    NoLayerError for a window along more dimensions, and if all outputs see only zeros.
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
    """Return the nest over two axes; dimensions without a sliding window join the batch, or form the second axis."""
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


WINDOWS: Final[Mapping[str, Callable[[Operator, Sequence[Shape]], OperatorEntry]]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "com.microsoft::FusedConv"), convolution),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"), pool_of_all),
    "ConvTranspose": transposed_convolution,
}
"""Entry functions of the windowed kinds, of an operator and the shapes of its output, inputs and parameters."""
