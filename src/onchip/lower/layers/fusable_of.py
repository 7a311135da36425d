"""A graph as depth-first execution sees it: every operator a layer that looks at feature maps through windows.

Layers are those of `layers_of`; biases and fused activations cost nothing there, and so here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from onchip.errors import InputError
from onchip.facts.fusable import FeatureMap, FusableLayer, FusableNetwork, Read
from onchip.ir.graph import Graph
from onchip.ir.layer import WEIGHT, Layer
from onchip.ir.operator import Operator
from onchip.ir.operator_kinds import OWN_KINDS
from onchip.ir.tensor import Role
from onchip.ir.window import Window, integers
from onchip.lower.layers.fusable_views import Sight, cropped, reshaped, shape_of, with_channels
from onchip.lower.layers.layers_of import PLAIN_BITS, LeftOut, Precision, layers_and_left_out
from onchip.lower.layers.moved_operators import moved_operators
from onchip.lower.layers.operands import nest_operands
from onchip.lower.layers.sliding_windows import NoLayerError

_SLIDING: Final = frozenset({"Conv", "ConvInteger", "QLinearConv", "MaxPool", "AveragePool", "LpPool"})
_OF_ALL_PIXELS: Final = frozenset(
    {"GlobalMaxPool", "GlobalAveragePool", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"}
    | {"Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"}
)
_SAME_ELEMENTS: Final = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
_FUSABLE: Final = (
    "convolutions, pools, one or two maps of one size element by element (a Slice or Pad before them), "
    "fully connected layers, a transposed convolution as the last"
)


def fusable_of(graph: Graph, precision: Precision = Precision()) -> FusableNetwork:  # noqa: B008 (frozen)
    """All operators as layers, in the graph's order.

    A fully connected layer is a convolution to one pixel whose kernel is the whole map. A transposed convolution of
    stride s is one of stride 1 over its input, with s x s times the output channels: those of the square of outputs
    that lies over an input; taps that one of them does not have are zeros among the weights. What changes a shape
    alone is passed through; a Slice before an addition crops what the addition reads (a negative pad, and its step as
    stride), and zeros that a Pad adds to the channels are not read. Where an output of the graph only shows a feature
    map, that map is an output. Raises InputError for any other operator.
    """
    reading = _Reading(graph, *layers_and_left_out(graph), precision)
    reading.read()
    if reading.outside:
        first = reading.outside[0]
        place, what = f"{first.kind} {first.operator!r}", f"it cannot be fused: {first.why}"
        raise InputError(what, file=graph.name, place=place, expected=_FUSABLE)
    if not reading.inside:
        raise InputError("no operator is a layer", file=graph.name, expected="at least one beside views")
    return reading.network()


@dataclass(frozen=True, slots=True)
class PartlyFusable:
    """The operators that can be fused as a network, and the others, which run outside of its stacks.

    What these read leaves the network, what they write comes into it from outside, so that no stack holds both sides.
    """

    network: FusableNetwork
    outside: tuple[LeftOut, ...]


def partly_fusable_of(graph: Graph, precision: Precision = Precision()) -> PartlyFusable:  # noqa: B008 (frozen)
    """As `fusable_of`, but that operators which cannot be fused stay outside; these may be all."""
    reading = _Reading(graph, *layers_and_left_out(graph), precision)
    reading.read()
    return PartlyFusable(reading.network(), tuple(reading.outside))


@dataclass
class _Reading:
    """`seen` is what the tensors made so far show of feature maps; what cannot be fused is `outside`."""

    graph: Graph
    layers: Mapping[str, Layer]
    left_out: tuple[LeftOut, ...]
    precision: Precision
    seen: dict[str, Sight] = field(default_factory=dict)
    outside: list[LeftOut] = field(default_factory=list)
    inside: list[FusableLayer] = field(default_factory=list)

    def read(self) -> None:
        """Make every operator a layer, or what is outside; one that changes only how others see a map is neither."""
        for operator in self.graph.operators:
            try:
                for name in operator.inputs:
                    if name not in self.seen:
                        self.seen[name] = Sight.of(self._map(name))
                layer = self._layer(operator)
            except NoLayerError as error:
                self.outside.append(LeftOut(operator.name, operator.kind, str(error)))
                continue
            if layer is not None:
                self.seen[operator.outputs[0]] = Sight.of(layer.output)
                self.inside.append(layer)

    def network(self) -> FusableNetwork:
        """The layers, and what is moved beside them."""
        outside = [self.graph.operator[one.operator] for one in self.outside]
        given = [tensor.name for tensor in self.graph.with_role(Role.INPUT) if self.graph.readers[tensor.name]]
        come = (*given, *(name for operator in outside for name in operator.outputs))
        inputs = tuple(self.seen[name].whole for name in come if name in self.seen)
        left = [tensor.name for tensor in self.graph.with_role(Role.OUTPUT)]
        left += [name for operator in outside for name in operator.inputs]
        outputs = dict.fromkeys(self.seen[name].whole.name for name in left if name in self.seen)
        moved = moved_operators(self.graph, (one.operator for one in self.outside), self.precision.bits)
        return FusableNetwork(self.graph.name, inputs, tuple(self.inside), tuple(outputs), moved)

    def _layer(self, operator: Operator) -> FusableLayer | None:
        """None for an operator that only changes how others see its input."""
        if len(operator.outputs) > 1:
            raise NoLayerError(f"it writes {len(operator.outputs)} tensors")
        sight = self._sight_changed(operator)
        if sight is not None:
            if self._bits(operator.outputs[0]) != sight.whole.bits:
                raise NoLayerError(f"it has other bits than {sight.whole.name!r}, which it shows")
            self.seen[operator.outputs[0]] = sight
            return None
        if operator.kind == "ConvTranspose":
            return self._transposed(operator)
        layer, output = self._nest(operator, operator.name), self._map(operator.outputs[0])
        if operator.kind in _SLIDING:
            if (layer.p, layer.q) != (output.rows, output.columns):
                raise NoLayerError("its output is no map of rows and columns")
            return self._through_windows(operator, layer, output)
        if operator.kind in _OF_ALL_PIXELS:
            if (layer.p, layer.q) != (1, 1) or layer.n * layer.k * layer.g != output.channels:
                raise NoLayerError("it does not leave one pixel a channel")
            return self._through_windows(operator, _over_all_pixels(layer, self._whole_input(operator)), output)
        if operator.kind not in OWN_KINDS:
            raise NoLayerError("which part of its input a tile sees is not known of a plug-in's kind")
        return self._element_by_element(operator, layer, output)

    def _sight_changed(self, operator: Operator) -> Sight | None:
        if len(operator.inputs) != 1:
            return None
        sight, written = self.seen[operator.inputs[0]], shape_of(self.graph, operator.outputs[0])
        if operator.kind in _SAME_ELEMENTS:
            return reshaped(sight, written)
        if operator.kind == "Slice":
            return cropped(operator, sight, written)
        return with_channels(operator, sight, written) if operator.kind == "Pad" else None

    def _through_windows(self, operator: Operator, layer: Layer, output: FeatureMap) -> FusableLayer:
        """The layer's own windows, if they lie over the map."""
        source = self._whole_input(operator)
        rows, columns = layer.axes
        if layer.n * layer.c * layer.g != source.channels or rows.size > source.rows or columns.size > source.columns:
            raise NoLayerError("its input is a view of another shape")
        windows = [
            Window(kernel, axis.stride, axis.dilation, axis.padding)
            for kernel, axis in ((layer.r, rows), (layer.s, columns))
        ]
        return self._finished(operator, layer, output, (Read(source.name, windows[0], windows[1]),))

    def _element_by_element(self, operator: Operator, layer: Layer, output: FeatureMap) -> FusableLayer:
        sights = [self.seen[name] for name in operator.inputs]
        written = Sight.of(output)
        for sight in sights:
            if sight.size != written.size:
                raise NoLayerError(f"it reads {sight} and writes {written}")
        if layer.has_weight and layer.n > 1:  # a parameter that is smaller than the map
            if layer.g != output.channels:
                raise NoLayerError(f"its parameter is neither one element nor {output.channels}, one a channel")
            layer = replace(layer, n=1, p=output.rows, q=output.columns)
        reads = tuple(Read(sight.whole.name, sight.rows, sight.columns) for sight in sights)
        return self._finished(operator, layer, output, reads)

    def _transposed(self, operator: Operator) -> FusableLayer:
        """Along an axis, the outputs from s * q on see the inputs from q + ceil((pad - kernel + 1) / s) on."""
        source, high = self._whole_input(operator), self._map(operator.outputs[0])
        stride, pads = integers(operator, "strides", (1, 1)), integers(operator, "pads", (0, 0, 0, 0))
        if max(stride) > 1 and (readers := self.graph.readers[operator.outputs[0]]):
            raise NoLayerError(f"{readers[0].kind} {readers[0].name!r} reads it")
        if (high.rows, high.columns) != (source.rows * stride[0], source.columns * stride[1]):
            raise NoLayerError(f"its output is not {stride[0]} x {stride[1]} times as large as its input")
        part = self._nest(operator, f"{operator.name} (0, 0)" if max(stride) > 1 else operator.name)
        kernel = integers(operator, "kernel_shape", shape_of(self.graph, operator.parameters[0])[2:])
        before = [(size - 1 - pad) // step for size, pad, step in zip(kernel, pads, stride, strict=False)]
        behind = [(step - 1 + pad) // step for pad, step in zip(pads, stride, strict=False)]
        if min(before) < 0:
            raise NoLayerError("it cuts off more than its kernel")
        layer = replace(
            part,
            k=part.k * prod(stride),
            p=source.rows,
            q=source.columns,
            r=before[0] + behind[0] + 1,
            s=before[1] + behind[1] + 1,
            padding=(before[0], before[1], behind[0], behind[1]),
        )
        low = replace(source, name=high.name, channels=high.channels * prod(stride))
        return self._through_windows(operator, layer, low)

    def _finished(self, operator: Operator, layer: Layer, output: FeatureMap, reads: tuple[Read, ...]) -> FusableLayer:
        layer = self._precise(operator, layer)
        weight_bits = layer.elements(WEIGHT) * layer.weight_bits if len(reads) == 1 else 0
        return FusableLayer(operator.name, layer, output, reads, weight_bits)

    def _precise(self, operator: Operator, layer: Layer) -> Layer:
        """The layer with the bits that are asked for, or those of its operands."""
        if self.precision.bits is not None:
            return self.precision.of(layer)
        tensor, operands = self.graph.tensor, nest_operands(self.graph, operator)
        weight = None if operands.weight is None else tensor[operands.weight]
        return self.precision.of_tensors(layer, tensor[operands.input], weight, tensor[operator.outputs[0]])

    def _nest(self, operator: Operator, name: str) -> Layer:
        if name in self.layers:
            return self.layers[name]
        why = (one.why for one in self.left_out if one.operator == operator.name)
        raise NoLayerError(next(why, "it is several layers"))

    def _whole_input(self, operator: Operator) -> FeatureMap:
        if len(operator.inputs) != 1:
            raise NoLayerError(f"it reads {len(operator.inputs)} maps")
        sight = self.seen[operator.inputs[0]]
        if sight != Sight.of(sight.whole):
            raise NoLayerError(f"it reads {sight} of {sight.whole.name!r}")
        return sight.whole

    def _map(self, name: str) -> FeatureMap:
        shape = shape_of(self.graph, name)
        if len(shape) not in (2, 4):
            raise NoLayerError(f"{name!r} is {list(shape)}, not batch, channels, rows and columns")
        rows, columns = shape[2:] or (1, 1)
        return FeatureMap(name, prod(shape[:2]), rows, columns, self._bits(name))

    def _bits(self, name: str) -> int:
        """Of an element of a tensor."""
        return self.precision.bits or self.graph.tensor[name].bits or PLAIN_BITS


def _over_all_pixels(layer: Layer, source: FeatureMap) -> Layer:
    """With the map's pixels as the kernel, where the nest has them among its channels."""
    pixels = source.rows * source.columns
    if layer.r * layer.s == pixels or layer.c % pixels:
        return layer
    return replace(layer, c=layer.c // pixels, r=source.rows, s=source.columns)
