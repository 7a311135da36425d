"""Tile graphs compared with the verifier's own derivation, which was written from the text alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode
from onchip.api.networks import read_network
from onchip.ir.graph import Graph
from onchip.ops.layers_of import Precision
from onchip.transform.groups.tile_graph import TileGraph
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.schedule.nests import NestDerivation
from onchip.verify.schedule.tiles import verify_stacks, verify_tiles
from support.onnx_networks import LIGHT_MODELS
from support.small_schedules import all_whole, tile_graphs, tiled
from support.tiled import Network, conv, crop, transposed


def assert_both_agree(network: Graph, stacks: Sequence[ScheduledStack], tiles: TileGraph, partial_bits: int) -> None:
    """Check that stacks and tiles are legal, and that the loop nests of each tile operator and their operands agree."""
    derivation = NestDerivation(network, partial_bits)
    assert verify_stacks(network, stacks) == ()
    assert verify_tiles(network, tiles.graph, stacks, derivation) == ()
    for operator in tiles.graph.operators:
        made = tiles.operators[operator.name]
        region = operator.tile.regions[0] if operator.tile else None
        nests = derivation.of(network.operator[made.operator], region)
        assert (nests.layers if nests else ()) == made.nests, operator.name
        if nests and made.operands:
            assert (nests.input, nests.weight) == (made.operands.input, made.operands.weight), operator.name


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(tile_graphs())
def test_stacks_in_tiles_are_what_the_verifier_derives(
    case: tuple[Graph, tuple[ScheduledStack, ...], TileGraph],
) -> None:
    graph, stacks, tiles = case
    bits = graph.tensors[0].bits or 8
    assert_both_agree(graph, stacks, tiles, max(bits, min(bits + 16, 32)))


@pytest.mark.parametrize("mode", OverlapMode)
@pytest.mark.parametrize("tile", ["1x1", "2x1", "3x2", "5x5"])
def test_a_transposed_convolution_in_tiles_is_what_the_verifier_derives(tile: str, mode: OverlapMode) -> None:
    stacks = [tiled("conv0 convtranspose1", tile, mode)]
    assert_both_agree(transposed(5), stacks, tile_graph(transposed(5), stacks, Precision(8)), 24)


@pytest.mark.parametrize("mode", OverlapMode)
def test_several_parts_of_a_view_in_one_tile_are_what_the_verifier_derives(mode: OverlapMode) -> None:
    network = Network(8)
    view = crop(network, network.input(1, 1, 9, 9), 1, 1)
    last = conv(network, network.add("Relu", [view], (1, 1, 7, 7)), 1, 3)
    network.add("Add", [last, view], (1, 1, 7, 7))
    graph = network.graph()
    stacks = [tiled(tuple(graph.operator), "3x3", mode)]
    tiles = tile_graph(graph, stacks, Precision(8))
    assert {"slice0#1", "slice0#1.1"} <= tiles.operators.keys()
    assert_both_agree(graph, stacks, tiles, 24)


@pytest.mark.parametrize("mode", OverlapMode)
def test_joined_maps_and_gates_in_tiles_are_what_the_verifier_derives(mode: OverlapMode) -> None:
    """A tile has its own part of each joined map; a gate of one pixel exists before the stack."""
    network = Network(8)
    source = network.input(1, 2, 9, 7)
    gate = conv(network, network.add("GlobalAveragePool", [source], (1, 2, 1, 1)), 2, 1)
    gated = network.add("Mul", [gate, source], (1, 2, 9, 7))
    joined = network.add("Concat", [gated, conv(network, gated, 3, 3)], (1, 5, 9, 7), (), {"axis": 1})
    last = conv(network, joined, 2, 3)
    network.add("Mul", [conv(network, joined, 1, 1), last], (1, 2, 9, 7))
    graph = network.graph()
    names = tuple(graph.operator)
    stacks = [*all_whole(graph)[:2], tiled(names[2:], "3x4", mode)]
    tiles = tile_graph(graph, stacks, Precision(8))
    assert {"concat4#0", "concat4#8", "mul2#8"} <= tiles.operators.keys()
    assert_both_agree(graph, stacks, tiles, 24)


@pytest.mark.parametrize("name", [*map(str, LIGHT_MODELS), "transformer", "vit_b_16", "lenet5", "fsrcnn-defines"])
def test_a_network_without_tiles_is_what_the_verifier_derives(name: str) -> None:
    network = read_network(name).with_bits(8)
    tiles = tile_graph(network, all_whole(network), Precision(8))
    assert_both_agree(network, all_whole(network), tiles, 24)
