"""A decomposed Split: Slices have the values of its outputs, and layers in tiles read through them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.stacks import OverlapMode
from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES
from onchip.ops.fusable_reading import fusable_of, partly_fusable_of
from onchip.transform.rewrite.attention_apart import SplitsApart
from support.tiled import Network, Shape, conv, in_one_stack, whole_tensor_differences

SHAPE = (1, 5, 6, 7)


def split_of(shape: Shape, sizes: tuple[int, ...], axis: int) -> Graph:
    """Return a map of one operator, cut along an axis into parts of these sizes, each read by an operator."""
    network = Network(8)
    source = network.add("Abs", [network.input(*shape)], shape)
    parts = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    for name, part in zip(network.split(source, parts, axis), parts, strict=True):
        network.add("Neg", [name], part)
    return network.graph()


def halves_and_all(size: int = 6) -> Graph:
    """Return a network that joins both halves of a map, a convolution of one half, and the map for a convolution."""
    network = Network(8)
    wide = conv(network, network.input(1, 2, size, size), 4, 1)
    halves = network.split(wide, [(1, 2, size, size)] * 2, 1)
    parts = [*halves, conv(network, halves[1], 3, 3), wide]
    joined = network.add("Concat", parts, (1, 11, size, size), (), {"axis": 1})
    conv(network, joined, 2, 3)
    return network.graph()


@pytest.mark.parametrize(("sizes", "axis"), [((2, 3), 1), ((1, 3, 1), 1), ((2, 4), 2), ((3, 3, 1), 3), ((1, 4), -3)])
def test_its_slices_have_the_values_of_its_outputs(sizes: tuple[int, ...], axis: int) -> None:
    graph = split_of(SHAPE, sizes, axis % 4)
    (operator,) = [one for one in graph.operators if one.kind == "Split"]
    told = replace(operator, attributes={"axis": axis})
    graph = replace(graph, operators=tuple(told if one is operator else one for one in graph.operators))
    apart = SplitsApart()(graph)
    slices = [one for one in apart.operators if one.kind == "Slice"]
    assert [one.name for one in slices] == [f"{operator.name} ({at})" for at in range(len(sizes))]
    assert tuple(name for one in slices for name in one.outputs) == operator.outputs
    assert whole_tensor_differences(apart, graph) == ()
    assert apart.tensors == graph.tensors


def test_it_stays_where_nothing_says_what_its_parts_are() -> None:
    graph = split_of(SHAPE, (2, 3), 1)
    name = next(one.name for one in graph.operators if one.kind == "Split")
    assert SplitsApart({name})(graph) == graph
    for changed in (
        replace(graph.operator[name], attributes={"axis": 2}),
        replace(graph.operator[name], attributes={"axis": 1, SEEN_SHAPES: [[5, 42]]}),
        replace(graph.operator[name], kind="TopK"),
    ):
        other = replace(graph, operators=tuple(changed if one.name == name else one for one in graph.operators))
        assert SplitsApart()(other) == other


def test_layers_see_some_channels_of_a_map_through_it() -> None:
    network = fusable_of(halves_and_all())
    sliced, last = network.layers[1:]
    assert [(read.source, read.channels) for read in sliced.reads] == [("conv0.out", 2)]
    assert [read.channels for read in last.reads] == [2, 2, None, None]
    assert [read.channels_seen(network.maps[read.source].channels) for read in last.reads] == [2, 2, 3, 4]
    assert last.joins


def test_taken_apart_before_or_not_a_network_has_the_same_layers() -> None:
    graph = halves_and_all()
    assert partly_fusable_of(SplitsApart()(graph)).network == partly_fusable_of(graph).network


@pytest.mark.parametrize("mode", OverlapMode)
@pytest.mark.parametrize("tile", [(1, 1), (2, 3), (5, 4), (6, 6)])
def test_fused_through_it_tiles_have_the_values_of_the_network(tile: tuple[int, int], mode: OverlapMode) -> None:
    graph = halves_and_all()
    assert whole_tensor_differences(in_one_stack(graph, *tile, mode), graph) == ()


def test_maps_of_which_some_channels_are_seen_together_are_joined_before() -> None:
    """A concatenation is read through only if all its parts are read alike."""
    network = Network(8)
    source = network.input(1, 2, 6, 6)
    parts = [conv(network, source, 2, 3), conv(network, source, 2, 1)]
    joined = network.add("Concat", parts, (1, 4, 6, 6), (), {"axis": 1})
    taken = network.split(joined, [(1, 1, 6, 6), (1, 3, 6, 6)], 1)
    conv(network, taken[1], 2, 3)
    found = partly_fusable_of(network.graph())
    assert [one.operator for one in found.outside] == [joined.removesuffix(".out")]
    assert found.network.layers[-1].reads[0].channels == 3
