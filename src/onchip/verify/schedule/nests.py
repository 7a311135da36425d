"""The loop nests of an operator, or of the part that a tile computes, and their operands (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Final

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.operator_kinds import nests_of_plugin
from onchip.ir.region import Range, Region, whole_region
from onchip.ir.window import integer, integers, shapes_computed
from onchip.verify.schedule.products import (
    ROWS_TIMES_MATRIX,
    Derived,
    NoNest,
    einsum,
    element_by_element,
    matrix,
    matrix_product,
    of_rows,
    units,
)
from onchip.verify.schedule.windows import (
    CONVOLUTIONS,
    ELEMENTWISE,
    GLOBAL_POOLS,
    POOLS,
    Shape,
    kernel_of,
    sliding_windows,
)

PRODUCTS: Final = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul"})
REDUCTIONS: Final = frozenset(
    {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"}
    | {"ReduceLogSum"}
)
SCALED: Final = frozenset({"PRelu", "BatchNormalization"})
"""Kinds with one operand of one element per channel, or of as many elements as it broadcasts to."""


@dataclass(frozen=True, slots=True)
class Nests:
    """Loop nests that run one after the other on the same operands, which are tensors of the network, by name.

    `left_over` is the number of outputs that none of them computes, such as those that no tap reaches.
    """

    layers: tuple[Layer, ...]
    input: str
    weight: str | None = None
    left_over: int = 0


@dataclass(frozen=True, slots=True)
class _Axis:
    """A window along one dimension: its outputs, taps, stride, dilation, and the zeros before and behind the input."""

    outputs: int = 1
    taps: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    behind: int = 0

    @property
    def slides(self) -> bool:
        """Return True if an output sees more than the one input at the same position."""
        return (self.taps, self.stride, self.before, self.behind) != (1, 1, 0, 0)


@dataclass(frozen=True, slots=True)
class NestDerivation:
    """Derives loop nests from the network's shapes; elements have their tensor's bits, sums `partial_bits`."""

    network: Graph
    partial_bits: int
    _whole: dict[str, Nests | None] = field(default_factory=dict, compare=False)
    _known: dict[tuple[str, tuple[Layer, ...], int], Nests] = field(default_factory=dict, compare=False)

    def of(self, operator: Operator, region: Region | None = None) -> Nests | None:
        """Return the nests of a region of the first output, or of all of it.

        None for an operator without loop nests.
        """
        if region is not None:
            return self._of_region(operator, region)
        if operator.name not in self._whole:
            self._whole[operator.name] = self._of_region(operator, None)
        return self._whole[operator.name]

    def _of_region(self, operator: Operator, region: Region | None) -> Nests | None:
        names = (operator.outputs[0], *operator.inputs, *operator.parameters)
        shapes = [self.network.tensor[name].shape for name in names]
        known = [shape for shape in shapes if shape is not None]
        if len(known) < len(shapes) or len(shapes) < 2:
            return None
        known[1:] = shapes_computed(operator, known[1:])
        try:
            layers, source, weight = _derived(operator, known, region or whole_region(known[0]))
            if operator.kind in ROWS_TIMES_MATRIX and region is not None:
                layers = of_rows(layers, known[0], region)
        except (NoNest, InputError, LookupError):
            return None
        computed = sum(layer.n * layer.k * layer.g * layer.p * layer.q for layer in layers)
        left_over = max(prod(stop - start for start, stop in region or whole_region(known[0])) - computed, 0)
        key = operator.name, layers, left_over
        if key not in self._known:
            read = names[source], None if weight is None else names[weight]
            precise = tuple(self._with_bits(layer, names[0], *read) for layer in layers)
            self._known[key] = Nests(precise, *read, left_over)
        return self._known[key]

    def _with_bits(self, layer: Layer, output: str, source: str, weight: str | None) -> Layer:
        bits = {name: self.network.tensor[name].bits or 8 for name in (output, source, weight) if name is not None}
        return replace(
            layer,
            input_bits=bits[source],
            weight_bits=bits[weight] if weight is not None else bits[source],
            output_bits=bits[output],
            partial_bits=max(self.partial_bits, bits[output]),
        )


def _derived(operator: Operator, shapes: Sequence[Shape], region: Region) -> Derived:
    match operator.kind:
        case kind if kind in CONVOLUTIONS or kind == "com.microsoft::FusedConv":
            weight = _weight(shapes)
            return _convolution(operator, shapes, shapes[weight], region), 1, weight
        case "ConvTranspose":
            weight = _weight(shapes)
            return tuple(_transposed(operator, shapes, shapes[weight], region)), 1, weight
        case kind if kind in POOLS:
            return _convolution(operator, shapes, None, region), 1, None
        case kind if kind in GLOBAL_POOLS and len(shapes[1]) > 2:
            *down, across = shapes[1][2:]
            return (Layer(n=shapes[1][0], g=shapes[1][1], r=prod(down), s=across, has_weight=False),), 1, None
        case kind if kind in REDUCTIONS and prod(shapes[1]) % prod(shapes[0]) == 0:
            added = prod(shapes[1]) // prod(shapes[0])
            return (Layer(g=prod(shapes[0]), c=added, has_weight=False),), 1, None
        case "Gemm" | "com.microsoft::FusedGemm":
            return matrix(operator, shapes)
        case "HeadProducts":
            rows, columns, depth, batch = (integer(operator, name, 0) for name in ("rows", "columns", "depth", "batch"))
            return (Layer(n=rows, k=columns, c=depth, g=batch),), 1, 2
        case kind if kind in PRODUCTS:
            return matrix_product(shapes)
        case "com.microsoft::FusedMatMul":
            if integer(operator, "transBatchA", 0) or integer(operator, "transBatchB", 0):
                raise NoNest("batch")
            return matrix_product(shapes, (bool(integer(operator, "transA", 0)), bool(integer(operator, "transB", 0))))
        case "BATCH_MATMUL":
            return matrix_product(shapes, (bool(integer(operator, "adj_x", 0)), bool(integer(operator, "adj_y", 0))))
        case "FULLY_CONNECTED":
            return units(shapes)
        case kind if kind in ELEMENTWISE | SCALED:
            return element_by_element(kind, shapes, region)
        case "Einsum":
            return einsum(operator.attributes.get("equation"), shapes)
        case "LRN" if shapes[0] == shapes[1] and len(shapes[1]) > 1:
            return (_window_of_channels(shapes[1], integer(operator, "size", 0)),), 1, None
    if (outside := nests_of_plugin(operator, tuple(shapes))) is not None:
        return outside.layers, outside.input, outside.weight
    raise NoNest(operator.kind)


def _window_of_channels(source: Shape, size: int) -> Layer:
    """Squares of the channels around each element are added up, as many before it as behind it or one fewer."""
    if size < 1:
        raise NoNest("size")
    zeros = (size - 1) // 2, size // 2
    channels, pixels = source[1], prod(source[2:])
    return Layer(n=source[0], p=channels, q=pixels, r=size, padding=(zeros[0], 0, zeros[1], 0), has_weight=False)


def _weight(shapes: Sequence[Shape]) -> int:
    """Return the position of the first operand behind the input with as many dimensions as the output.

    Raises NoNest.
    """
    for place in range(2, len(shapes)):
        if len(shapes[place]) == len(shapes[0]) > 2:
            return place
    raise NoNest("weight")


def _convolution(
    operator: Operator, shapes: Sequence[Shape], weight: Shape | None, region: Region
) -> tuple[Layer, ...]:
    """Also a pool: it has no weight, and a group for each channel."""
    output, source = shapes[0], shapes[1]
    if weight is not None and len(source) != len(output):
        source = _as_seen(operator, shapes, weight)
    if len(source) != len(output):
        raise NoNest("rank")
    axes = []
    windows = sliding_windows(operator, source, weight, output)
    for outputs, window, size in zip(region[2:], windows, source[2:], strict=True):
        first, stop = window.seen(outputs)
        zeros = max(-first, 0), max(stop - size, 0)
        axes.append(_Axis(outputs[1] - outputs[0], window.taps, window.stride, window.dilation, *zeros))
    return tuple(_slices(axes, _channels(operator, source, weight, output, region)))


def _channels(operator: Operator, source: Shape, weight: Shape | None, output: Shape, region: Region) -> Layer:
    """Return the loops over batch, channels and groups. Raises NoNest."""
    batch = region[0][1] - region[0][0]
    if weight is None:
        return Layer(n=batch, g=output[1], has_weight=False)
    groups = integer(operator, "group", 1)
    if groups < 1 or output[1] % groups or source[1] % groups:
        raise NoNest("group")
    return Layer(n=batch, k=output[1] // groups, c=source[1] // groups, g=groups)


def _as_seen(operator: Operator, shapes: Sequence[Shape], weight: Shape) -> Shape:
    """Return the shape of an input that is a view of a tensor of another rank, no larger than its elements allow.

    Along each axis the shape covers the windows, and of the pixels behind them at most those that a stride skips.
    """
    output = shapes[0]
    rank = len(output) - 2
    taps = kernel_of(operator, weight, rank)
    if operator.attributes.get("auto_pad", "NOTSET") != "NOTSET":
        raise NoNest("auto_pad")
    strides, dilations = integers(operator, "strides", (1,) * rank), integers(operator, "dilations", (1,) * rank)
    pads = integers(operator, "pads", (0,) * (2 * rank))
    least = [
        (output[2 + at] - 1) * strides[at] + (taps[at] - 1) * dilations[at] + 1 - pads[at] - pads[rank + at]
        for at in range(rank)
    ]
    channels = weight[1] * integer(operator, "group", 1)
    for pixels in product(*(range(size, size + stride) for size, stride in zip(least, strides, strict=True))):
        if output[0] * channels * prod(pixels) == prod(shapes[1]):
            return (output[0], channels, *pixels)
    raise NoNest("view")


def _transposed(operator: Operator, shapes: Sequence[Shape], weight: Shape, region: Region) -> list[Layer]:
    """Return the nests of a transposed convolution: one of stride 1 per remainder of the output position by the stride.

    Remainders without outputs or taps have no nest.
    """
    output, source = shapes[0], shapes[1]
    rank = len(output) - 2
    taps = kernel_of(operator, weight, rank)
    if len(source) != len(output) or integers(operator, "dilations", (1,) * rank) != (1,) * rank:
        raise NoNest("dilations")
    if (
        operator.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        or "output_shape" in operator.attributes
    ):
        raise NoNest("auto_pad")
    strides, pads = integers(operator, "strides", (1,) * rank), integers(operator, "pads", (0,) * (2 * rank))[:rank]
    channels = _channels(operator, source, weight, output, region)
    layers: list[Layer] = []
    for remainders in product(*(range(stride) for stride in strides)):
        sizes = zip(remainders, region[2:], taps, strides, pads, source[2:], strict=True)
        axes = [_phase(*each) for each in sizes]
        if all(axis.outputs for axis in axes):
            layers.extend(_slices(axes, channels))
    return layers


def _phase(remainder: int, outputs: Range, kernel: int, stride: int, pad: int, size: int) -> _Axis:
    """Outputs o with (o + pad) % stride == remainder meet the taps remainder, remainder + stride, ...

    Such an output sees the inputs (o + pad) // stride and as many before it as there are further taps.
    """
    taps = len(range(remainder, kernel, stride))
    places = [(o + pad) // stride for o in range(*outputs) if (o + pad) % stride == remainder and o + pad >= 0]
    if not places or not taps:
        return _Axis(0, taps)
    return _Axis(len(places), taps, 1, 1, max(taps - 1 - places[0], 0), max(places[-1] + 1 - size, 0))


def _slices(axes: Sequence[_Axis], channels: Layer) -> Iterator[Layer]:
    """Yield the nests of the given axes; with three sliding axes, one 2-D nest per output along the first of them.

    The input positions that such an output sees along the first axis count as channels. Outputs that see none have no
    nest.
    """
    sliding = [at for at, axis in enumerate(axes) if axis.slides]
    if len(sliding) != 3:
        yield _over(axes, channels)
        return
    first = axes[sliding[0]]
    rest = [axis for at, axis in enumerate(axes) if at != sliding[0]]
    touched = [tap * first.dilation for tap in range(first.taps)]
    behind = (first.outputs - 1) * first.stride + touched[-1] + 1 - first.behind
    starts = [output * first.stride for output in range(first.outputs)]
    seen = [sum(first.before <= start + place < behind for place in touched) for start in starts]
    if not any(seen):
        raise NoNest("padding")
    for count in filter(None, seen):
        yield _over(rest, replace(channels, c=channels.c * count))


def _over(axes: Sequence[_Axis], channels: Layer) -> Layer:
    """Return the nest over the given axes, reduced to two dimensions; sliding axes come first.

    Axes along which nothing slides are merged into the batch, or into the second dimension if at most one axis slides.
    """
    sliding, plain = [axis for axis in axes if axis.slides], [axis.outputs for axis in axes if not axis.slides]
    batch = channels.n
    if len(axes) == 2:
        height, width = axes
    elif len(sliding) == 2:
        (height, width), batch = sliding, batch * prod(plain)
    elif len(sliding) == 1:
        height, width = (sliding[0], _Axis(prod(plain))) if plain else (_Axis(), sliding[0])
    elif not sliding:
        height, width = _Axis(prod(plain[:-1])), _Axis(plain[-1])
    else:
        raise NoNest("more than three dimensions")
    return Layer(
        n=batch,
        k=channels.k,
        c=channels.c,
        p=height.outputs,
        q=width.outputs,
        r=height.taps,
        s=width.taps,
        g=channels.g,
        stride=(height.stride, width.stride),
        dilation=(height.dilation, width.dilation),
        padding=(height.before, width.before, height.behind, width.behind),
        has_weight=channels.has_weight,
    )
