"""Input regions on which a region of an operator's output depends, kind by kind; unknown kinds have no answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final, TypeAlias

from onchip.ir.operator import KEY_SLICE, SEEN_PARAMETER_SHAPES, SEEN_SHAPES, VIEWS, Operator
from onchip.ir.tile import Range, Region, whole_region
from onchip.ir.window import integer, integers, shapes_as_read

Shape: TypeAlias = tuple[int, ...]
Needs: TypeAlias = tuple[Region | None, ...]
"""The region that is seen of each input; None if only padding is seen."""

CONVOLUTIONS: Final = frozenset({"Conv", "ConvInteger", "QLinearConv"})
POOLS: Final = frozenset({"MaxPool", "AveragePool", "LpPool"})
GLOBAL_POOLS: Final = frozenset({"GlobalMaxPool", "GlobalAveragePool"})
ELEMENTWISE: Final = frozenset(
    {"Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg"}
    | {"Reciprocal", "Relu", "Selu", "Sigmoid", "Silu", "Softplus", "Sqrt", "Swish", "Tanh"}
    | {"Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum"}
    | {"QuantizeLinear", "DequantizeLinear"}
)
_PER_CHANNEL: Final = frozenset({"PRelu", "BatchNormalization", "Identity", "Cast", "Dropout"})
_OWN_PART: Final = (("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"), ("asymmetric", "floor"))
"""Coordinate and rounding modes of a nearest Resize that map each output element to the input element it lies in."""
ROW_BY_ROW: Final = frozenset({"Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"})
"""Kinds that normalise along one dimension."""
OVERWRITING: Final = ELEMENTWISE | _PER_CHANNEL | ROW_BY_ROW
"""Kinds that may write each element, or each row, into the bytes from which they have read it."""
_REDUCING: Final = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"})
"""Kinds that reduce dimensions, here the last one, to one element."""
_RESHAPES: Final = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})


def seen(operator: Operator, inputs: Sequence[Shape], weight: Shape | None, output: Shape, region: Region) -> Needs:
    """Return the region of each input on which a region of the first output depends.

    `weight` is the shape of a convolution's weight. If the kind or its attributes are not known in parts, a whole
    output depends on all of every input, and a smaller region raises LookupError.
    """
    try:
        return _seen(operator, inputs, weight, output, region)
    except LookupError:
        if region == whole_region(output):
            return tuple(map(whole_region, inputs))
        raise


def _seen(operator: Operator, inputs: Sequence[Shape], weight: Shape | None, output: Shape, region: Region) -> Needs:
    first = inputs[0] if inputs else ()
    match operator.kind:
        case kind if kind in CONVOLUTIONS | POOLS and len(first) == len(output) > 2:
            return _beside(inputs, _slid(operator, first, weight, output, region))
        case "ConvTranspose" if len(first) == len(output) > 2 and weight is not None:
            return _beside(inputs, _spread(operator, first, weight, output, region))
        case kind if kind in GLOBAL_POOLS and len(first) == len(output):
            return (tuple(region[:2]) + whole_region(first[2:]),)
        case kind if kind in ELEMENTWISE | _PER_CHANNEL and all(_is_broadcast(shape, output) for shape in inputs):
            return tuple(_broadcast(shape, region) for shape in inputs)
        case kind if kind in ROW_BY_ROW and first == output and len(inputs) == 1:
            return (_normalised(operator, output, region),)
        case kind if kind in _REDUCING and output == (*first[:-1], 1) and len(inputs) == 1:
            return ((*region[:-1], (0, first[-1])),)
        case "ReduceLogSumExp" if KEY_SLICE in operator.attributes and output == (*first[:-1], 1) and len(inputs) == 1:
            return (_summed(operator, first, region),)
        case "Slice" if SEEN_SHAPES not in operator.attributes and len(first) == len(output):
            return (_sliced(operator, first, region),)
        case "Pad" if operator.attributes.get("mode", "constant") == "constant" and len(first) == len(output):
            return _beside(inputs, _padded(operator, first, output, region))
        case "Resize" | "Upsample" if len(first) == len(output) and SEEN_SHAPES not in operator.attributes:
            return _beside(inputs, _resized(operator, first, output, region))
        case "Expand":
            return (_repeated(operator, first, output, region),)
        case "Transpose":
            return (_reordered(operator, first, output, region),)
        case "Concat":
            return _joined(operator, inputs, output, region)
        case kind if kind in _RESHAPES and _beside_ones(first) == _beside_ones(output):
            return _beside(inputs, as_stored(region, output, first))
    raise LookupError(operator.kind)


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Along one dimension output p sees the input's p * stride - pad + k * dilation for every k below `taps`."""

    taps: int
    stride: int
    dilation: int
    pad: int

    def seen(self, outputs: Range) -> Range:
        """Return the input range that a range of outputs sees, which may reach into the padding on both sides."""
        first = outputs[0] * self.stride - self.pad
        return first, (outputs[1] - 1) * self.stride - self.pad + (self.taps - 1) * self.dilation + 1


@lru_cache(maxsize=1024)
def sliding_windows(
    operator: Operator, source: Shape, weight: Shape | None, output: Shape
) -> tuple[SlidingWindow, ...]:
    """Return the windows of a convolution or pool along each spatial axis.

    Raises LookupError if the taps are unknown.
    """
    rank = len(source) - 2
    taps = kernel_of(operator, weight, rank)
    strides, dilations = integers(operator, "strides", (1,) * rank), integers(operator, "dilations", (1,) * rank)
    pads = pads_before(operator, source, taps, output)
    return tuple(SlidingWindow(*each) for each in zip(taps, strides, dilations, pads, strict=True))


def _beside(inputs: Sequence[Shape], first: Region | None) -> Needs:
    """Return the given region of the first input and all of every other input."""
    return first, *(whole_region(shape) for shape in inputs[1:])


def _slid(operator: Operator, source: Shape, weight: Shape | None, output: Shape, region: Region) -> Region | None:
    """Output p sees the input's p * stride - pad + k * dilation for every tap k."""
    windows = sliding_windows(operator, source, weight, output)
    ranges = [_channels(operator, source, weight, output, region[1])]
    for outputs, window, size in zip(region[2:], windows, source[2:], strict=True):
        start, stop = window.seen(outputs)
        ranges.append((max(start, 0), min(stop, size)))
    return _stored((region[0], *ranges))


def _spread(operator: Operator, source: Shape, weight: Shape, output: Shape, region: Region) -> Region | None:
    """Input i with tap k adds to the output's i * stride + k * dilation - pad."""
    rank = len(source) - 2
    if operator.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise LookupError("auto_pad")
    taps = kernel_of(operator, weight, rank)
    strides, dilations = integers(operator, "strides", (1,) * rank), integers(operator, "dilations", (1,) * rank)
    pads = integers(operator, "pads", (0,) * (2 * rank))
    ranges = [_channels(operator, source, weight, output, region[1])]
    for outputs, kernel, stride, dilation, pad, size in zip(
        region[2:], taps, strides, dilations, pads[:rank], source[2:], strict=True
    ):
        start = -(-(outputs[0] + pad - (kernel - 1) * dilation) // stride)
        stop = (outputs[1] - 1 + pad) // stride + 1
        ranges.append((max(start, 0), min(stop, size)))
    return _stored((region[0], *ranges))


def kernel_of(operator: Operator, weight: Shape | None, rank: int) -> Shape:
    """Return the taps along each spatial dimension. Raises LookupError if they are unknown."""
    taps = integers(operator, "kernel_shape", tuple(weight[2:]) if weight else (0,) * rank)
    if len(taps) != rank or min(taps, default=0) < 1:
        raise LookupError("kernel_shape")
    return taps


def pads_before(operator: Operator, source: Shape, taps: Shape, output: Shape) -> Shape:
    """Return the padding before the input along each spatial dimension, from `pads` or `auto_pad`."""
    rank = len(taps)
    strides, dilations = integers(operator, "strides", (1,) * rank), integers(operator, "dilations", (1,) * rank)
    rule = operator.attributes.get("auto_pad", "NOTSET")
    if rule == "VALID":
        return (0,) * rank
    if rule not in ("SAME_UPPER", "SAME_LOWER"):
        return integers(operator, "pads", (0,) * (2 * rank))[:rank]
    total = (
        max((after - 1) * stride + (kernel - 1) * dilation + 1 - before, 0)
        for before, after, kernel, stride, dilation in zip(
            source[2:], output[2:], taps, strides, dilations, strict=True
        )
    )
    return tuple(-(-zeros // 2) if rule == "SAME_LOWER" else zeros // 2 for zeros in total)


def _channels(operator: Operator, source: Shape, weight: Shape | None, output: Shape, wanted: Range) -> Range:
    """Return the input channels that a range of output channels sees.

    A pool sees the same channels, a convolution all channels of the groups.
    """
    if weight is None:
        return wanted
    groups = integer(operator, "group", 1)
    written, read = output[1] // groups, source[1] // groups
    return wanted[0] // written * read, ((wanted[1] - 1) // written + 1) * read


def _is_broadcast(shape: Shape, output: Shape) -> bool:
    """Return True if a shape broadcasts to the output's; False if a fused view changes the output's shape."""
    along = output[len(output) - len(shape) :]
    return len(shape) <= len(output) and all(size in (1, of) for size, of in zip(shape, along, strict=True))


def _broadcast(shape: Shape, region: Region) -> Region:
    """Dimensions are the last ones of the output; along one of a single element that is seen everywhere."""
    along = region[len(region) - len(shape) :]
    return tuple((0, 1) if size == 1 else each for size, each in zip(shape, along, strict=True))


def _normalised(operator: Operator, output: Shape, region: Region) -> Region:
    """Return the region itself, whose rows are whole. Raises LookupError for parts of rows, and for another axis."""
    if operator.attributes.get("axis", -1) not in (-1, len(output) - 1) or region[-1] != (0, output[-1]):
        raise LookupError("axis")
    return region


def _summed(operator: Operator, source: Shape, region: Region) -> Region:
    """Return the whole rows of a region with one element for each row. Raises LookupError for other axes."""
    if operator.attributes.get("axes") not in ([-1], [len(source) - 1]):
        raise LookupError("axes")
    return (*region[:-1], (0, source[-1]))


def _sliced(operator: Operator, source: Shape, region: Region) -> Region | None:
    """Element p of an axis is the input's start + p * step."""
    listed = operator.attributes.get("starts")
    starts = [start for start in listed if isinstance(start, int)] if isinstance(listed, list) else []
    if starts != listed:
        raise LookupError("starts")
    count = len(starts)
    axes = integers(operator, "axes", tuple(range(count)))
    steps = integers(operator, "steps", (1,) * count)
    ranges = list(region)
    for axis, start, step in zip(axes, starts, steps, strict=True):
        if step < 1:
            raise LookupError("steps")
        size = source[axis]
        first = min(max(start + size if start < 0 else start, 0), size)
        wanted = region[axis]
        ranges[axis] = (first + wanted[0] * step, first + (wanted[1] - 1) * step + 1)
    return _stored(tuple(ranges))


def _resized(operator: Operator, source: Shape, output: Shape, region: Region) -> Region:
    """Return the region of a nearest resize by integer factors. Raises LookupError for other modes.

    Each output element is the input element in whose equal part of the axis it lies.
    """
    says = operator.attributes.get
    mode = says("mode", "nearest" if operator.kind == "Upsample" else None)
    rounding, places = says("nearest_mode", "round_prefer_floor"), says("coordinate_transformation_mode", "half_pixel")
    if (
        mode != "nearest"
        or (places, rounding) not in _OWN_PART
        or any(not size or after % size for size, after in zip(source, output, strict=True))
    ):
        raise LookupError("mode")
    times = [after // size for size, after in zip(source, output, strict=True)]
    return tuple((start // each, (stop - 1) // each + 1) for (start, stop), each in zip(region, times, strict=True))


def _repeated(operator: Operator, source: Shape, output: Shape, region: Region) -> Region:
    """Return the region of an Expand that repeats each of several heads equally often, one head after the other.

    Raises LookupError unless the operator reads a dimension of one element behind the heads, or there is one head.
    """
    if len(source) != 4 or len(output) != 4 or output[1] % source[1]:
        raise LookupError("shape")
    batch, heads, *matrix = source
    if output != (batch, output[1], *matrix) or (
        heads > 1 and _shape_seen(operator, source) != (batch, heads, 1, *matrix)
    ):
        raise LookupError("seen_shapes")
    times = output[1] // heads
    return (region[0], (region[1][0] // times, (region[1][1] - 1) // times + 1), *region[2:])


def _joined(operator: Operator, inputs: Sequence[Shape], output: Shape, region: Region) -> Needs:
    """Inputs stand one behind the other along one axis, and are alike along all others."""
    rank = len(output)
    axis = integer(operator, "axis", rank)
    if not -rank <= axis < rank or any(len(shape) != rank for shape in inputs):
        raise LookupError("axis")
    axis %= rank
    found, begin = [], 0
    for shape in inputs:
        start, stop = max(region[axis][0] - begin, 0), min(region[axis][1] - begin, shape[axis])
        found.append(_stored((*region[:axis], (start, stop), *region[axis + 1 :])))
        begin += shape[axis]
    if begin != output[axis]:
        raise LookupError("axis")
    return tuple(found)


def _reordered(operator: Operator, source: Shape, output: Shape, region: Region) -> Region:
    """Return the region of a Transpose of an image's channels, which may stand in several dimensions while it reads.

    Each pixel stays in place, and a region has all channels. Raises LookupError for any other Transpose or region.
    """
    listed = operator.attributes.get(SEEN_SHAPES)
    shape = tuple(listed[0]) if isinstance(listed, list) and isinstance(listed[0], list) else source
    rank = len(shape)
    order = integers(operator, "perm", tuple(range(rank))[::-1])
    keeps_pixels = order[-2:] == (rank - 2, rank - 1) and shape[-2:] == source[-2:] == output[-2:]
    has_all_channels = tuple(region[:-2]) == whole_region(output[:-2])
    if len(source) != 4 or len(output) != 4 or not keeps_pixels or not has_all_channels:
        raise LookupError("perm")
    return (*whole_region(source[:-2]), *region[-2:])


def _padded(operator: Operator, source: Shape, output: Shape, region: Region) -> Region | None:
    """Element p of a dimension is the input's p - before; a negative pad crops."""
    rank = len(source)
    pads = integers(operator, "pads", (0,) * (2 * rank))
    if any(size + pads[at] + pads[rank + at] != output[at] for at, size in enumerate(source)):
        raise LookupError("pads")
    ranges = [
        (max(start - before, 0), min(stop - before, size))
        for (start, stop), before, size in zip(region, pads[:rank], source, strict=True)
    ]
    return _stored(tuple(ranges))


def _beside_ones(shape: Shape) -> list[int]:
    return [size for size in shape if size > 1]


def _shape_seen(operator: Operator, stored: Shape) -> Shape:
    """Return the shape in which the operator reads its only input. Raises LookupError for parts and other orders."""
    if (VIEWS - {SEEN_SHAPES, SEEN_PARAMETER_SHAPES}) & operator.attributes.keys():
        raise LookupError("view")
    return shapes_as_read(operator, [stored])[0]


def turned(operator: Operator, stored: Shape, output: Shape, region: Region) -> Region:
    """Return the region of its input that a region of a Transpose of matrices depends on.

    Dimension i of the output is dimension perm[i] of the input, or of its shape as read. Raises LookupError.
    """
    source = _shape_seen(operator, stored)
    order = integers(operator, "perm", tuple(range(len(source)))[::-1])
    if sorted(order) != list(range(len(source))) or tuple(source[at] for at in order) != output:
        raise LookupError("perm")
    return as_stored(tuple(region[order.index(at)] for at in range(len(source))), source, stored)


def as_stored(region: Region, shape: Shape, stored: Shape) -> Region:
    """Return the smallest region of a tensor around a region of the same elements in another shape.

    Both shapes are divided into the shortest runs of dimensions with equally many elements. In each run, the elements
    from the first to the last of the region count. Raises LookupError for shapes of different sizes.
    """
    if prod(shape) != prod(stored) or 0 in shape:
        raise LookupError("shape")
    found: list[Range] = []
    ours, theirs = 0, 0
    while theirs < len(stored):
        seen, run = [ours] if ours < len(shape) else [], [theirs]
        while prod(shape[at] for at in seen) != prod(stored[at] for at in run):
            if prod(shape[at] for at in seen) < prod(stored[at] for at in run):
                seen.append(seen[-1] + 1)
            else:
                run.append(run[-1] + 1)
        ours, theirs = (seen[-1] + 1 if seen else ours), run[-1] + 1
        sizes = [stored[at] for at in run]
        first, last = (_position([shape[at] for at in seen], [region[at][end] - end for at in seen]) for end in (0, 1))
        found += _around(_place(first, sizes), _place(last, sizes), sizes)
    return tuple(found)


def _position(sizes: Sequence[int], place: Sequence[int]) -> int:
    position = 0
    for size, at in zip(sizes, place, strict=True):
        position = position * size + at
    return position


def _place(position: int, sizes: Sequence[int]) -> list[int]:
    place = []
    for size in reversed(sizes):
        position, at = divmod(position, size)
        place.append(at)
    return place[::-1]


def _around(first: Sequence[int], last: Sequence[int], sizes: Sequence[int]) -> list[Range]:
    """Return the smallest box around all elements from the first to the last one, in row-major order."""
    alike = next((at for at, (start, stop) in enumerate(zip(first, last, strict=True)) if start != stop), len(sizes))
    box = [(start, stop + 1) for start, stop in zip(first, last, strict=True)]
    return [*box[: alike + 1], *((0, size) for size in sizes[alike + 1 :])]


def _stored(region: Region) -> Region | None:
    """Return the region; None if it is empty."""
    return region if prod(max(stop - start, 0) for start, stop in region) else None
