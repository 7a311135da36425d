"""Small networks for tiles: scratchpads that are too small for them, and comparisons with the whole network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from onchip.answer.bindings import Bindings
from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import Count, Problem
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.memory import Memory, Operand
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region
from onchip.model.capacity.bounds import operator_need, operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.ops.entries import geometry_of
from onchip.ops.fusable import FusableNetwork, Stack
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.slicing import Geometry, OperandAccess
from onchip.scheduling.tiles.single_operators import tilings_of
from onchip.simulate.arithmetic_kernels import ArithmeticKernels, values_in_given_order
from onchip.simulate.kernels.onnx_kernels import OnnxKernels, OnnxTileKernels
from onchip.simulate.machine import run_in_given_order
from onchip.transform.groups.stack_in_tiles import graph_in_tiles
from onchip.transform.groups.stacks import stack_of
from onchip.transform.rewrite.attention_apart import SplitsApart
from onchip.transform.slices.bands import Bytes, bytes_of_region, place_of
from onchip.transform.slices.emission import counted_geometries, with_tiles
from support.stacks import legal_spans

Shape = tuple[int, ...]
Attributes = dict[str, AttributeValue]


@dataclass
class Network:
    """A builder of a graph; tensors without readers become network outputs."""

    bits: int = 16
    tensors: dict[str, Tensor] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)

    def tensor(self, name: str, shape: Shape, role: Role) -> str:
        self.tensors[name] = Tensor.of_shape(name, shape, self.bits, role)
        return name

    def input(self, *shape: int) -> str:
        return self.tensor(f"x{len(self.tensors)}", shape, Role.INPUT)

    def parameter(self, *shape: int) -> str:
        return self.tensor(f"w{len(self.tensors)}", shape, Role.PARAMETER)

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape or ()

    def add(
        self,
        kind: str,
        inputs: Sequence[str],
        shape: Shape,
        parameters: Sequence[str] = (),
        attributes: Attributes | None = None,
        *,
        is_fused: bool = False,
    ) -> str:
        name = f"{kind.lower()}{len(self.operators)}"
        self.tensor(f"{name}.out", shape, Role.ACTIVATION)
        members = (name, f"{name}.act") if is_fused else ()
        self.operators.append(
            Operator(name, kind, tuple(inputs), (f"{name}.out",), tuple(parameters), attributes or {}, members)
        )
        return f"{name}.out"

    def split(self, source: str, shapes: Sequence[Shape], axis: int) -> tuple[str, ...]:
        """Add a Split and return the parts of a tensor along an axis."""
        name = f"split{len(self.operators)}"
        parts = tuple(f"{name}.out{at}" for at in range(len(shapes)))
        for part, shape in zip(parts, shapes, strict=True):
            self.tensor(part, shape, Role.ACTIVATION)
        self.operators.append(Operator(name, "Split", (source,), parts, (), {"axis": axis}))
        return parts

    def graph(self) -> Graph:
        read = {name for operator in self.operators for name in operator.reads}
        tensors = [
            Tensor.of_shape(tensor.name, tensor.shape or (), self.bits, Role.OUTPUT)
            if tensor.role is Role.ACTIVATION and tensor.name not in read
            else tensor
            for tensor in self.tensors.values()
        ]
        return Graph("small", tuple(tensors), tuple(self.operators))


def problem_of(graph: Graph, *capacities_bytes: int, alignment_bytes: int = 1, count: Count = Count.ALL) -> Problem:
    memories = tuple(Memory(f"s{at}", size, alignment_bytes) for at, size in enumerate(capacities_bytes))
    return Problem(graph, memories, count=count)


def specialised(graph: Graph, capacity_bytes: int) -> Problem:
    """Return the problem with three scratchpads, one per operand."""
    memories = tuple(Memory(operand.value, capacity_bytes, holds=(operand,)) for operand in Operand)
    return Problem(graph, memories, count=Count.ALL)


def convolution(
    network: Network,
    source: str,
    channels: int,
    kernel: Shape,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    pads: Sequence[int] | str = "SAME_UPPER",
    bias: bool = False,
    is_fused: bool = False,
) -> str | None:
    """Add a convolution; return None if the shapes do not permit it."""
    batch, depth, *sizes = network.shape(source)
    attributes: Attributes = {"strides": [stride] * 2, "dilations": [dilation] * 2, "group": groups}
    reaches = [(size - 1) * dilation + 1 for size in kernel]
    if isinstance(pads, str):
        attributes["auto_pad"] = pads
        pixels = [
            -(-size // stride) if pads != "VALID" else (size - reach) // stride + 1
            for size, reach in zip(sizes, reaches, strict=True)
        ]
    else:
        attributes["pads"] = list(pads)
        pixels = [
            (size + pads[at] + pads[at + 2] - reach) // stride + 1
            for at, (size, reach) in enumerate(zip(sizes, reaches, strict=True))
        ]
    if min(pixels) < 1 or depth % groups or channels % groups:
        return None
    weights = [network.parameter(channels, depth // groups, *kernel)]
    if bias:
        weights.append(network.parameter(channels))
    return network.add("Conv", [source], (batch, channels, *pixels), weights, attributes, is_fused=is_fused)


def pool(network: Network, source: str, kind: str, kernel: int, stride: int, pad: int) -> str | None:
    batch, depth, *sizes = network.shape(source)
    pixels = [(size + 2 * pad - kernel) // stride + 1 for size in sizes]
    if min(pixels) < 1 or pad >= kernel:
        return None
    attributes: Attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    return network.add(kind, [source], (batch, depth, *pixels), (), attributes)


def gemm(network: Network, source: str, columns: int, *, is_fused: bool = False, bias: bool = False) -> str:
    rows, *features = network.shape(source)
    width = 1
    for size in features:
        width *= size
    weights = [network.parameter(columns, width)]
    if bias:
        weights.append(network.parameter(columns))
    return network.add("Gemm", [source], (rows, columns), weights, is_fused=is_fused)


@st.composite
def networks(draw: st.DrawFn, most_operators: int = 4) -> Graph:
    """Draw convolutions, pools, products and element-wise operators in a row, some with two readers."""
    network = Network(draw(st.sampled_from((8, 16, 32, 64))))
    channels = st.sampled_from((1, 2, 3, 4, 6))
    size = st.integers(1, 9)
    images = [network.input(draw(st.integers(1, 2)), draw(channels), draw(size), draw(size))]
    for _ in range(draw(st.integers(1, most_operators))):
        source = draw(st.sampled_from(images))
        made = _drawn(draw, network, source, images, channels)
        if made is not None and len(network.shape(made)) == 4:
            images.append(made)
    if not network.operators:
        network.add("Relu", images, network.shape(images[0]))
    return network.graph()


def _drawn(
    draw: st.DrawFn, network: Network, source: str, images: list[str], channels: st.SearchStrategy[int]
) -> str | None:
    shape = network.shape(source)
    kind = draw(
        st.sampled_from(("Conv", "Conv", "Pool", "Gemm", "Relu", "Add", "BatchNorm", "Concat", "Mean", "Transpose"))
    )
    is_fused = draw(st.booleans())
    if kind == "Conv":
        return _drawn_convolution(draw, network, source, channels, is_fused=is_fused)
    if kind == "Pool":
        kinds = st.sampled_from(("MaxPool", "AveragePool"))
        return pool(
            network, source, draw(kinds), draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 1))
        )
    if kind == "Gemm":
        return gemm(network, source, draw(st.integers(1, 7)), is_fused=is_fused, bias=draw(st.booleans()))
    if kind == "Relu":
        return network.add("Relu", [source], shape)
    if kind == "BatchNorm":
        parameters = [network.parameter(shape[1]) for _ in range(4)]
        return network.add("BatchNormalization", [source], shape, parameters)
    if kind == "Mean":
        return network.add("GlobalAveragePool", [source], (*shape[:2], 1, 1))
    if kind == "Transpose":
        order = draw(st.permutations(range(4)))
        return network.add("Transpose", [source], tuple(shape[at] for at in order), (), {"perm": list(order)})
    alike = [name for name in images if network.shape(name) == shape]
    other = draw(st.sampled_from(alike))
    if kind == "Concat":
        axis = draw(st.integers(0, 3))
        joined = tuple(2 * each if at == axis else each for at, each in enumerate(shape))
        return network.add("Concat", [source, other], joined, (), {"axis": axis})
    if draw(st.booleans()):
        return network.add(draw(st.sampled_from(("Add", "Mul", "Div"))), [source, other], shape, is_fused=is_fused)
    return network.add("Add", [source], shape, [network.parameter(shape[1], 1, 1)])


def _drawn_convolution(
    draw: st.DrawFn, network: Network, source: str, channels: st.SearchStrategy[int], *, is_fused: bool
) -> str | None:
    shape = network.shape(source)
    groups = draw(st.sampled_from([1, *(divisor for divisor in (2, 3, shape[1]) if shape[1] % divisor == 0)]))
    pads = draw(
        st.one_of(
            st.sampled_from(("SAME_UPPER", "SAME_LOWER", "VALID")), st.lists(st.integers(0, 2), min_size=4, max_size=4)
        )
    )
    return convolution(
        network,
        source,
        draw(channels) * groups,
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        stride=draw(st.integers(1, 3)),
        dilation=draw(st.integers(1, 2)),
        groups=groups,
        pads=pads,
        bias=draw(st.booleans()),
        is_fused=is_fused,
    )


_KINDS = (
    *("Conv", "Conv", "Pool", "Relu", "Add", "Twice", "Skip", "Crop"),
    *("Gate", "Spread", "Join", "Zeros", "Part", "Halves", "Grow", "Grow"),
)
Cut = tuple[tuple[Stack, Tiling], ...]
"""Stacks with their tilings."""


def residual(size: int = 12, channels: int = 4) -> Graph:
    """Return two convolutions in parallel to a skip connection, then one of stride 2 and a pool."""
    network = Network(8)
    first = conv(network, network.input(1, 2, size, size), channels, 3)
    inner = conv(network, first, channels, 3, is_fused=True)
    added = network.add("Add", [first, conv(network, inner, channels, 3)], network.shape(first))
    halved = conv(network, added, channels, 3, stride=2)
    pooled = pool(network, halved, "MaxPool", 3, 1, 1)
    assert pooled is not None
    return network.graph()


def unpadded(size: int = 13) -> Graph:
    """Return a network that adds crops, like DeFiNES's: first with more channels, then of every other pixel."""
    network = Network(8)
    source = conv(network, network.input(1, 1, size, size), 2, 1)
    first = conv(network, source, 3, 3, pads=[0] * 4)
    added = network.add("Add", [first, wider(network, crop(network, source, 1, 1), 3)], network.shape(first))
    second = conv(network, added, 3, 3, stride=2, pads=[0] * 4)
    network.add("Add", [crop(network, added, 1, 2), second], network.shape(second))
    return network.graph()


def transposed(size: int = 6) -> Graph:
    """Return a convolution, then a transposed one that doubles rows and columns."""
    network = Network(8)
    source = conv(network, network.input(1, 1, size, size), 3, 3)
    attributes: Attributes = {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1], "kernel_shape": [3, 3]}
    weights = [network.parameter(3, 2, 3, 3), network.parameter(2)]
    network.add("ConvTranspose", [source], (1, 2, 2 * size, 2 * size), weights, attributes)
    return network.graph()


def classifier(size: int = 8) -> Graph:
    """Return a convolution, a pool, and two fully connected layers."""
    network = Network(8)
    pooled = pool(network, conv(network, network.input(1, 2, size, size), 3, 3), "AveragePool", 2, 2, 0)
    assert pooled is not None
    features = 3 * (size // 2) ** 2
    flat = network.add("Flatten", [pooled], (1, features))
    hidden = network.add("Gemm", [flat], (1, 5), [network.parameter(5, features)], is_fused=True)
    network.add("Gemm", [hidden], (1, 4), [network.parameter(4, 5)])
    return network.graph()


def conv(
    network: Network,
    source: str,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    pads: Sequence[int] | str = "SAME_UPPER",
    is_fused: bool = False,
) -> str:
    made = convolution(
        network, source, channels, (kernel, kernel), stride=stride, pads=pads, bias=True, is_fused=is_fused
    )
    assert made is not None
    return made


def crop(network: Network, source: str, margin: int, step: int) -> str:
    batch, channels, rows, columns = network.shape(source)
    left = (-(-(rows - 2 * margin) // step), -(-(columns - 2 * margin) // step))
    attributes: Attributes = {
        "axes": [2, 3],
        "starts": [margin, margin],
        "ends": [rows - margin, columns - margin],
        "steps": [step, step],
    }
    return network.add("Slice", [source], (batch, channels, *left), (), attributes)


def wider(network: Network, source: str, channels: int) -> str:
    batch, given, *pixels = network.shape(source)
    attributes: Attributes = {"pads": [0, 0, 0, 0, 0, channels - given, 0, 0]}
    return network.add("Pad", [source], (batch, channels, *pixels), (), attributes)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw convolutions of all kinds, pools, element-wise operators and skip connections, padded and cropped.

    Inner maps, and a crop of one, may be outputs too.
    """
    network = Network(8)
    last = network.input(1, draw(st.integers(1, 3)), draw(st.integers(4, 11)), draw(st.integers(4, 11)))
    for _ in range(draw(st.integers(1, 4))):
        last = _drawn_operator(draw, network, last)
    assume(network.operators)
    names = [
        operator.outputs[0]
        for operator in network.operators
        if operator.kind not in ("Concat", "Pad", "Split", "Resize")
    ]
    cropped = draw(st.sampled_from([None, *(name for name in names if min(network.shape(name)[2:]) > 2)]))
    if cropped is not None:
        crop(network, cropped, 1, draw(st.integers(1, 2)))
    return leaving(network.graph(), draw(st.lists(st.sampled_from(names), max_size=2, unique=True)))


def leaving(graph: Graph, names: Sequence[str]) -> Graph:
    """Return the graph with these tensors as additional outputs."""
    return replace(
        graph, tensors=tuple(replace(one, role=Role.OUTPUT) if one.name in names else one for one in graph.tensors)
    )


def _drawn_operator(draw: st.DrawFn, network: Network, source: str) -> str:
    shape = network.shape(source)
    kind = draw(st.sampled_from(_KINDS))
    if kind == "Conv":
        return _drawn_window(draw, network, source) or source
    if kind == "Pool":
        chosen = draw(st.sampled_from(("MaxPool", "AveragePool")))
        return (
            pool(network, source, chosen, draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 1)))
            or source
        )
    if kind == "Relu":
        return network.add("Relu", [source], shape)
    if kind == "Twice":
        return network.add("Add", [source, source], shape)
    if kind == "Add":
        return network.add("Add", [source], shape, [network.parameter(shape[1], 1, 1)])
    if kind == "Zeros":
        return _between_zeros(draw, network, source)
    if kind == "Join":
        return _joined(draw, network, source)
    if kind == "Grow":
        return _grown(draw, network, source)
    if kind == "Part":
        return _part_of_channels(draw, network, source)
    if kind == "Halves":
        return _halves(draw, network, source)
    if kind in ("Gate", "Spread"):
        return _gated(draw, network, source, kind)
    if kind == "Crop":
        if min(shape[2:]) < 3:
            return source
        inner = conv(network, source, shape[1], 3, pads=[0] * 4)
        return network.add("Add", [inner, crop(network, source, 1, 1)], network.shape(inner))
    beside = conv(network, source, shape[1], draw(st.sampled_from((1, 3))))
    other = conv(network, source, shape[1], 3) if draw(st.booleans()) else source
    return network.add("Add", [beside, other], shape, is_fused=draw(st.booleans()))


def _between_zeros(draw: st.DrawFn, network: Network, source: str) -> str:
    """Draw a convolution or a pool over the map with zeros around it."""
    batch, channels, rows, columns = network.shape(source)
    top, left, bottom, right = draw(st.lists(st.integers(0, 2), min_size=4, max_size=4))
    if min(rows + top + bottom, columns + left + right) < 3:
        return source
    pads: Attributes = {"pads": [0, 0, top, left, 0, 0, bottom, right]}
    wide = network.add("Pad", [source], (batch, channels, rows + top + bottom, columns + left + right), (), pads)
    if draw(st.booleans()):
        return conv(network, wide, draw(st.integers(1, 2)), 3, stride=draw(st.integers(1, 2)), pads=[1, 0, 1, 0])
    return pool(network, wide, "MaxPool", 3, 2, 0) or conv(network, wide, 1, 1)


def _joined(draw: st.DrawFn, network: Network, source: str) -> str:
    """Draw a convolution over the map concatenated along the channels with maps computed from it."""
    batch, _, rows, columns = network.shape(source)
    others = [conv(network, source, draw(st.integers(1, 2)), 3) for _ in range(draw(st.integers(1, 2)))]
    parts = draw(st.permutations([source, *others]))
    together = sum(network.shape(one)[1] for one in parts)
    whole = network.add("Concat", parts, (batch, together, rows, columns), (), {"axis": 1})
    made = conv(network, whole, draw(st.integers(1, 3)), draw(st.integers(1, 3)), stride=draw(st.integers(1, 3)))
    return network.add("Add", [made, made], network.shape(made)) if draw(st.booleans()) else made


def _grown(draw: st.DrawFn, network: Network, source: str) -> str:
    """Draw a resize of the map that is added to a map, concatenated with one, or read by a convolution."""
    batch, channels, rows, columns = network.shape(source)
    down, across = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    shape = batch, channels, rows * down, columns * across
    if max(shape[2:]) > 24 or down * across == 1:
        return source
    nearest: Attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    grown = network.add("Resize", [source], shape, (), nearest)
    made = conv(network, grown, channels, draw(st.sampled_from((1, 3))), stride=1)
    if network.shape(made) != shape or draw(st.booleans()):
        return made
    if draw(st.booleans()):
        return network.add("Add", draw(st.permutations([grown, made])), shape)
    whole = network.add(
        "Concat", draw(st.permutations([grown, made])), (batch, 2 * channels, *shape[2:]), (), {"axis": 1}
    )
    return conv(network, whole, 2, draw(st.sampled_from((1, 3))))


def _part_of_channels(draw: st.DrawFn, network: Network, source: str) -> str:
    """Draw a convolution over some channels of a wider map."""
    batch, channels, rows, columns = network.shape(source)
    wide = conv(network, source, channels + draw(st.integers(1, 2)), draw(st.sampled_from((1, 3))))
    first = draw(st.integers(0, network.shape(wide)[1] - channels))
    taken: Attributes = {"axes": [1], "starts": [first], "ends": [first + channels]}
    part = network.add("Slice", [wide], (batch, channels, rows, columns), (), taken)
    made = conv(network, part, draw(st.integers(1, 2)), 3, stride=draw(st.integers(1, 2)))
    return network.add("Add", [made, made], network.shape(made)) if draw(st.booleans()) else made


def _halves(draw: st.DrawFn, network: Network, source: str) -> str:
    """Draw a Split whose halves are added, multiplied, or concatenated after a convolution of one half."""
    wide = conv(network, source, 2 * draw(st.integers(1, 2)), 1)
    batch, channels, rows, columns = network.shape(wide)
    shape = batch, channels // 2, rows, columns
    halves = list(network.split(wide, [shape, shape], 1))
    if draw(st.booleans()):
        halves[0] = conv(network, halves[0], shape[1], 3)
    if draw(st.booleans()):
        return network.add(draw(st.sampled_from(("Add", "Mul"))), halves, shape)
    parts = [*halves, wide][: draw(st.integers(2, 3))]
    together = sum(network.shape(name)[1] for name in parts)
    whole = network.add("Concat", parts, (batch, together, rows, columns), (), {"axis": 1})
    return conv(network, whole, draw(st.integers(1, 2)), 3)


def _gated(draw: st.DrawFn, network: Network, source: str, kind: str) -> str:
    """Draw a product of the map with a gate of one pixel per channel (squeeze-and-excite), or of one channel."""
    batch, channels, rows, columns = network.shape(source)
    if kind == "Gate":
        gate = network.add("GlobalAveragePool", [source], (batch, channels, 1, 1))
        gate = conv(network, gate, channels, 1) if draw(st.booleans()) else gate
    else:
        gate = conv(network, source, 1, draw(st.sampled_from((1, 3))))
    names = [source, gate] if draw(st.booleans()) else [gate, source]
    return network.add("Mul", names, (batch, channels, rows, columns))


def _drawn_window(draw: st.DrawFn, network: Network, source: str) -> str | None:
    groups = draw(st.sampled_from((1, network.shape(source)[1])))
    return convolution(
        network,
        source,
        groups * draw(st.integers(1, 2)),
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        stride=draw(st.integers(1, 3)),
        dilation=draw(st.integers(1, 2)),
        groups=groups,
        pads=draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)),
        bias=draw(st.booleans()),
        is_fused=draw(st.booleans()),
    )


@st.composite
def cuts(draw: st.DrawFn, network: FusableNetwork) -> Cut:
    """Draw any legal stacks, in any tiles."""
    spans, start = legal_spans(network), 0
    found: list[tuple[Stack, Tiling]] = []
    while start < len(network.layers):
        span = draw(st.sampled_from([one for one in spans if one.start == start]))
        stack = stack_of(network, span)
        columns = draw(st.integers(1, stack.output.columns))
        rows = draw(st.integers(1, stack.output.rows))
        found.append((stack, Tiling(columns, rows, draw(st.sampled_from(OverlapMode)))))
        start = span.stop
    return tuple(found)


@st.composite
def tiled_graphs(draw: st.DrawFn) -> tuple[Graph, Cut, Graph]:
    """Draw a graph with its Splits replaced, stacks and tiles of all its layers, and the graph of these tiles."""
    graph = draw(graphs())
    try:
        network = fusable_of(graph)
        cut = draw(cuts(network))
        return SplitsApart()(graph), cut, graph_in_tiles(graph, network, cut)
    except InputError as error:
        assume("nothing but padding" not in error.what and "leaves no input" not in error.what)
        raise


def in_one_stack(graph: Graph, columns: int, rows: int, mode: OverlapMode) -> Graph:
    """Return all layers in one stack with such tiles."""
    network = fusable_of(graph)
    output = network.layers[-1].output
    stack = Stack(network.inputs, network.layers)
    return graph_in_tiles(graph, network, [(stack, Tiling(columns, rows, mode).within(output.columns, output.rows))])


OPERATOR = "op"
ROOMY = (Memory("sram", 2**40),)


def split_to_share(whole: Graph, share: float, *, is_model: bool, name: str = OPERATOR) -> Graph:
    """Split for a scratchpad with `share` of the need of the operator `name`, which must then be in tiles."""
    need = operator_need(Problem(whole, ROOMY), whole.operator[name]).need_bytes
    problem = Problem(whole, (Memory("sram", int(share * need)),))
    tiled = tiled_to_fit(problem, is_model=is_model)
    assert sum(one.tile is not None and one.tile.operator == name for one in tiled.operators) > 1
    return tiled


def difference_in_tiles(tiled: Graph, whole: Graph, path: Path) -> float:
    """Return the greatest relative difference of the network's outputs from those of onnxruntime."""
    kernels = OnnxTileKernels(tiled, whole, OnnxKernels(whole, path, Bindings()))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.with_role(Role.INPUT)}
    outputs = run_in_given_order(Problem(tiled, ROOMY), kernels, inputs).outputs
    return kernels.difference_from_whole_model(inputs, outputs)


def tiles_that_read_too_little(graph: Graph, path: Path) -> Iterator[tuple[Range, ...]]:
    """Yield the tiles of `op` whose outputs change with input elements outside of the region that the tile reads."""
    operator, kernels = graph.operator[OPERATOR], OnnxKernels(graph, path, Bindings())
    geometry = geometry_of(operator, graph, is_model=True)
    assert geometry is not None
    assert any(axis.size > 1 for axis in geometry.axes)
    contents = {name: kernels.network_input(graph.tensor[name]) for name in operator.inputs}
    expected = kernels.run(operator, contents)
    for tile in _some_tiles(geometry):
        reads = [access for access in geometry.reads if access.tensor in contents]
        given = dict(contents)
        for name in contents:
            regions = [one.region(tile, geometry.axes) for one in reads if one.tensor == name]
            given[name] = _spoilt(contents[name], graph.tensor[name], [one for one in regions if one is not None])
        found = kernels.run(operator, given)
        if any(_differs(found, expected, graph, write, tile, geometry) for write in geometry.writes):
            yield tile


def _some_tiles(geometry: Geometry) -> Iterator[tuple[Range, ...]]:
    """Yield tiles of one position along some axes, all of others, and all of the reduced axis."""

    def pieces(size: int) -> list[Range]:
        return sorted({(0, size), (0, 1), (size // 2, size // 2 + 1), (size - 1, size)})

    yield from product(*([(0, axis.size)] if axis.is_reduction else pieces(axis.size) for axis in geometry.axes))


def _differs(
    found: Mapping[str, Bytes],
    expected: Mapping[str, Bytes],
    graph: Graph,
    write: OperandAccess,
    tile: tuple[Range, ...],
    geometry: Geometry,
) -> bool:
    shape, region = graph.tensor[write.tensor].shape or (), write.region(tile, geometry.axes)
    assert region is not None
    after, before = (bytes_of_region(one[write.tensor], shape, region) for one in (found, expected))
    return not np.array_equal(after, before)


def _spoilt(content: Bytes, tensor: Tensor, kept: list[Region]) -> Bytes:
    """Return the bytes of a tensor with other values everywhere except in some regions."""
    dtype = {32: np.float32, 64: np.int64}[tensor.bits or 0]
    whole = content.view(dtype).reshape(tensor.shape or ())
    other = (1 - whole).astype(dtype)
    for region in kept:
        here = tuple(slice(*each) for each in region)
        other[here] = whole[here]
    return np.ascontiguousarray(other).reshape(-1).view(np.uint8)


def whole_tensor_differences(graph: Graph, whole: Graph, seed: int = 0) -> tuple[str, ...]:
    """Return the tensors of the tiled `graph` whose values differ from their regions of the tensors of `whole`."""
    kernels, whole_kernels = ArithmeticKernels(graph, seed), ArithmeticKernels(whole, seed)
    found = values_in_given_order(graph, kernels, _inputs(graph, kernels))
    expected = values_in_given_order(whole, whole_kernels, _inputs(whole, whole_kernels))
    differing = []
    for tensor in graph.tensors:
        base, region = place_of(tensor)
        if tensor.name in found and base in expected:
            content = bytes_of_region(expected[base], whole.tensor[base].shape or (), region)
            if not np.array_equal(found[tensor.name], content):
                differing.append(tensor.name)
    return tuple(differing)


def _inputs(graph: Graph, kernels: ArithmeticKernels) -> dict[str, Bytes]:
    return {tensor.name: kernels.network_input(tensor) for tensor in graph.with_role(Role.INPUT)}


def tiled_to_fit(problem: Problem, *, is_model: bool = False) -> Graph:
    """Return the graph with single operators in tiles, until all fit or those that do not fit have finest tiles."""
    geometries = counted_geometries(problem, is_model=is_model)
    waiting = {name: tilings_of(geometry) for name, geometry in geometries.items() if geometry is not None}
    tiles: dict[str, OperatorTiles] = {}
    graph = problem.graph
    while True:
        tiled = Problem(graph, problem.memories, count=problem.count)
        misfits = (graph.operators[at] for at in operators_that_do_not_fit(IndexedProblem.of(tiled)))
        names = dict.fromkeys(one.name if one.tile is None else one.tile.operator for one in misfits)
        found = {name: more for name in names if (more := next(waiting.get(name, iter(())), None)) is not None}
        if not found:
            return graph
        tiles |= found
        graph = with_tiles(problem, tiles, is_model=is_model)
