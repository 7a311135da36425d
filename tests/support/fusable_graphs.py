"""Small graphs whose operators can be fused, and ways to run them in tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from onchip.answer.stacks import OverlapMode, Tiling
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.ops.fusable import FusableNetwork, Stack
from onchip.ops.fusable_reading import fusable_of
from onchip.transform.groups.stack_in_tiles import graph_in_tiles
from onchip.transform.groups.stacks import legal_spans, stack_of
from onchip.transform.rewrite.attention_apart import SplitsApart
from support.tiled import Attributes, Network, convolution, pool

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
        last = _drawn(draw, network, last)
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


def _drawn(draw: st.DrawFn, network: Network, source: str) -> str:
    shape = network.shape(source)
    kind = draw(st.sampled_from(_KINDS))
    if kind == "Conv":
        return _drawn_convolution(draw, network, source) or source
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


def _drawn_convolution(draw: st.DrawFn, network: Network, source: str) -> str | None:
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
