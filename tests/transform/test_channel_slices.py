"""Groups in slices of channels: tiles, their values, and what the verifier derives and refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, StrategyError, Tiling
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Region
from onchip.ops.channel_slices import whole_inputs
from onchip.ops.layers_of import Precision
from onchip.ops.views import views_that_join
from onchip.transform.groups.tile_graph import TileGraph, with_all_parameters
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.slices.bands import band_of_tensor
from onchip.verify.rules import Rule
from onchip.verify.schedule.nests import NestDerivation
from onchip.verify.schedule.tiles import verify_tiles
from support.random_schedules import (
    Case,
    assert_values_are_equal,
    joining_case,
    random_slices,
    shuffled_case,
    small_case,
    tiny_case,
)
from support.series import series
from support.small_schedules import all_whole
from support.tiled import Network, conv, convolution, pool
from transform.test_tile_graph import assert_both_agree


def residual_block() -> Graph:
    """Return a convolution to six channels, an addition, two pools, and a gate with an element per channel."""
    network = Network(8)
    source, beside = network.input(1, 3, 4, 4), network.input(1, 6, 4, 4)
    widened = conv(network, source, 6, 3)
    added = network.add("Add", [widened, beside], network.shape(widened))
    scaled = network.add("Mul", [added], network.shape(added), [network.parameter(6, 1, 1)])
    pooled = pool(network, scaled, "MaxPool", 3, 1, 1)
    assert pooled is not None
    network.add("GlobalAveragePool", [pooled], (1, 6, 1, 1))
    return network.graph()


def in_slices(graph: Graph, channels: int) -> tuple[ScheduledStack, ...]:
    """Return all operators as one group in slices of channels."""
    shape = graph.tensor[graph.operators[-1].outputs[0]].shape or ()
    tiling = Tiling(shape[3], shape[2], OverlapMode.RECOMPUTE, channels)
    return (ScheduledStack(tuple(graph.operator), tiling),)


def assert_tiles_are_right(graph: Graph, stacks: tuple[ScheduledStack, ...], tiles: TileGraph) -> None:
    """Check the tiles by the verifier's derivation, and by their values."""
    assert_both_agree(graph, stacks, tiles, 24)
    assert_values_are_equal(graph, with_all_parameters(tiles, graph))


@pytest.mark.parametrize("channels", range(1, 7))
def test_a_convolution_and_operators_on_its_channels_run_in_slices(channels: int) -> None:
    graph = residual_block()
    stacks = in_slices(graph, channels)
    tiles = tile_graph(graph, stacks, Precision(8))
    assert_tiles_are_right(graph, stacks, tiles)
    slices = -(-6 // channels)
    assert len(tiles.graph.operators) == slices * len(graph.operators)
    if slices > 1:
        first = tiles.graph.operators[0]
        rest = 6 % channels or channels
        assert (first.inputs, first.parameters) == (("x0",), (f"w2[0:{rest},:,:,:]",))
    assert sum(tensor.size_bytes for tensor in tiles.graph.with_role(Role.PARAMETER)) == 6 * 3 * 9 + 6


def random_case(seed: int) -> Case:
    """Return one of four kinds of random networks."""
    return (tiny_case, small_case, joining_case, shuffled_case)[seed % 4](seed)


@pytest.mark.parametrize("seed", series(range(400), 40))
def test_random_groups_in_slices_have_the_values_of_the_network(seed: int) -> None:
    network, chance = random_case(seed).network, Random(seed)
    for _ in range(8):
        stacks = random_slices(network, chance)
        views = frozenset(name for name in views_that_join(network) if chance.random() < 0.7)
        try:
            tiles = tile_graph(network, stacks, Precision(8), views)
        except ScheduleError:
            continue
        assert_tiles_are_right(network, stacks, tiles)
        assert_inputs_are_whole(network, stacks, tiles)


def with_parameter(chance: Random) -> tuple[Graph, int]:
    """Return an operator with a parameter that may have an element per channel, and the number of its channels."""
    network = Network(8)
    source = network.input(1, *(chance.choice((1, 2, 3, 4)) for _ in range(3)))
    shape = network.shape(source)
    kind = chance.choice(("Conv", "BatchNormalization", "PRelu", "Add", "Mul"))
    if kind == "Conv":
        conv(network, source, chance.randint(2, 4), 1)
    elif kind == "BatchNormalization":
        network.add(kind, [source], shape, [network.parameter(shape[1]) for _ in range(4)])
    else:
        alike = tuple(chance.choice((1, size, size)) for size in shape)
        network.add(kind, [source], shape, [network.parameter(*alike[chance.randint(0, 3) :])])
    graph = network.graph()
    return graph, (graph.tensor[graph.operators[0].outputs[0]].shape or ())[1]


def test_a_slice_reads_the_parameters_that_the_verifier_derives() -> None:
    """Another band of a parameter, or all of it, is refused."""
    cut = 0
    for seed in range(200):
        chance = Random(seed)
        graph, count = with_parameter(chance)
        stacks = in_slices(graph, chance.randint(1, count))
        try:
            tiles = tile_graph(graph, stacks, Precision(8))
        except ScheduleError:
            continue
        assert_both_agree(graph, stacks, tiles, 24)
        first = tiles.graph.operators[0]
        for at, name in enumerate(first.parameters):
            whole = graph.tensor[tiles.graph.tensor[name].part_of or name]
            if name == whole.name:
                continue
            cut += 1
            parameters = (*first.parameters[:at], whole.name, *first.parameters[at + 1 :])
            changed = (replace(first, parameters=parameters), *tiles.graph.operators[1:])
            other = Graph("other", (*tiles.graph.tensors, whole), changed)
            found = verify_tiles(graph, other, stacks, NestDerivation(graph, 24))
            assert Rule.PARAMETERS_DIFFER in {one.rule for one in found}, f"seed {seed}"
    assert cut > 30


def channels_of(network: Graph, stack: ScheduledStack) -> int:
    """Return the channels of the last output of a group."""
    return (network.tensor[network.operator[stack.operators[-1]].outputs[0]].shape or (0, 0))[1]


def assert_inputs_are_whole(network: Graph, stacks: tuple[ScheduledStack, ...], tiles: TileGraph) -> None:
    """Check that slices read all channels of the inputs that `whole_inputs` names, which groups do not compute."""
    for operator in tiles.graph.operators:
        made = tiles.operators[operator.name]
        stack, original = stacks[made.stack], network.operator[made.operator]
        if stack.tiling is None or stack.tiling.channels in (None, channels_of(network, stack)):
            continue  # a group in one slice is a group in one tile
        bare = tile_graph(network, all_whole(network), Precision(8)).graph
        whole = whole_inputs(bare, bare.operator[original.name])
        assert whole is not None
        assert whole.isdisjoint(written for name in stack.operators for written in network.operator[name].outputs)
        parts = operator.tile.joined if operator.tile else ()
        bands = {tiles.graph.tensor[name].part_of or name: 0 for name in operator.inputs}
        for name in operator.inputs:
            bands[tiles.graph.tensor[name].part_of or name] += tiles.graph.tensor[name].size_bytes
        for name in whole - {one.whole for one in parts}:
            assert bands[name] == network.tensor[name].size_bytes


def with_a_convolution_in_the_middle() -> Graph:
    network = Network(8)
    conv(network, conv(network, network.input(1, 2, 3, 3), 4, 1), 4, 1)
    return network.graph()


def with_a_view() -> Graph:
    network = Network(8)
    source = conv(network, network.input(1, 2, 3, 3), 4, 1)
    padded = network.add("Pad", [source], (1, 4, 5, 5), (), {"pads": [0, 0, 1, 1, 0, 0, 1, 1]})
    pool(network, padded, "MaxPool", 3, 1, 0)
    return network.graph()


def with_groups() -> Graph:
    network = Network(8)
    assert convolution(network, network.input(1, 4, 3, 3), 6, (1, 1), groups=2) is not None
    return network.graph()


def with_matrices() -> Graph:
    network = Network(8)
    network.add("Softmax", [network.input(1, 4, 3, 3)], (1, 4, 3, 3), (), {"axis": -1})
    return network.graph()


@pytest.mark.parametrize(
    ("made", "channels", "why"),
    [
        (with_a_convolution_in_the_middle, 2, "a slice needs more than its own channels of 'conv0.out'"),
        (with_a_view, 2, "its slices of channels are not known"),
        (with_groups, 2, "its loop nest cannot be cut along these channels"),
        (with_matrices, 2, "its maps are matrices"),
        (residual_block, 7, "has no tiles of 7 channels"),
    ],
)
def test_other_groups_have_no_slices(made: Callable[[], Graph], channels: int, why: str) -> None:
    graph = made()
    with pytest.raises(ScheduleError, match=why):
        tile_graph(graph, in_slices(graph, channels), Precision(8))


def test_groups_of_channels_stay_whole_in_slices() -> None:
    graph = with_groups()
    tiles = tile_graph(graph, in_slices(graph, 3), Precision(8))
    assert [operator.inputs for operator in tiles.graph.operators] == [("x0[:,0:2,:,:]",), ("x0[:,2:4,:,:]",)]
    assert_tiles_are_right(graph, in_slices(graph, 3), tiles)


def test_slices_have_all_pixels() -> None:
    graph = residual_block()
    names = tuple(graph.operator)[:2]
    stacks = (ScheduledStack(names, Tiling(2, 4, OverlapMode.RECOMPUTE, 3)), ScheduledStack(tuple(graph.operator)[2:3]))
    with pytest.raises(ScheduleError, match="slices of channels have a part of the pixels"):
        tile_graph(graph, (*stacks, *(ScheduledStack((name,)) for name in tuple(graph.operator)[3:])), Precision(8))


def test_slices_do_not_overlap() -> None:
    with pytest.raises(StrategyError, match="they do not overlap"):
        Tiling(4, 4, OverlapMode.FULLY_CACHED, 2)


def rules_of(change: Callable[[Operator], Operator], *more: Tensor) -> list[Rule]:
    """Return the rules that the residual block in slices of three channels breaks after a change of its first tile."""
    graph = residual_block()
    stacks = in_slices(graph, 3)
    tiles = tile_graph(graph, stacks, Precision(8)).graph
    operators = (change(tiles.operators[0]), *tiles.operators[1:])
    changed = Graph(tiles.name, (*tiles.tensors, *more), operators)
    return [one.rule for one in verify_tiles(graph, changed, stacks, NestDerivation(graph, 24))]


def weights(region: Region) -> Tensor:
    """Return a band of the first convolution's weights."""
    return band_of_tensor(residual_block().tensor["w2"], region)


@pytest.mark.parametrize("channels", [(0, 2), (1, 3), (3, 6)])
def test_a_slice_reads_the_weights_of_its_channels(channels: tuple[int, int]) -> None:
    band = weights((channels, (0, 3), (0, 3), (0, 3)))
    more = () if channels == (3, 6) else (band,)
    rules = rules_of(lambda operator: replace(operator, parameters=(band.name,)), *more)
    assert Rule.PARAMETERS_DIFFER in rules


def test_a_slice_reads_each_of_its_weights_once() -> None:
    band = weights(((0, 2), (0, 3), (0, 3), (0, 3)))
    rules = rules_of(lambda operator: replace(operator, parameters=(*operator.parameters, band.name)), band)
    assert Rule.PARAMETERS_DIFFER in rules


def test_a_slice_of_a_map_outside_is_a_band_for_its_other_readers() -> None:
    """A pool in rows reads a map that a convolution wrote in slices of channels."""
    network = Network(8)
    wide = conv(network, network.input(1, 2, 4, 4), 5, 3)
    pool(network, wide, "MaxPool", 3, 1, 1)
    graph = network.graph()
    stacks = (
        ScheduledStack(("conv0",), Tiling(4, 4, OverlapMode.RECOMPUTE, 2)),
        ScheduledStack(("maxpool1",), Tiling(4, 2, OverlapMode.RECOMPUTE)),
    )
    tiles = tile_graph(graph, stacks, Precision(8))
    assert_tiles_are_right(graph, stacks, tiles)
    assert len(tiles.graph.operators) == 5
