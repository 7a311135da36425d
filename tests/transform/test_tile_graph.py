"""The network in tiles: values, loop nests, and the derivation by the verifier."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adversary.fusing import ODD_KINDS, graph_file, random_network, reads_less_than_its_padding
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.networks import read_network
from onchip.errors import InputError
from onchip.formats.own.graph_json import graph_from_json
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Region, whole_region
from onchip.ir.window import integers, windows_of
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.ops.layers_of import Precision, layers_of
from onchip.transform.groups.stack_in_tiles import graph_in_tiles
from onchip.transform.groups.stacks import stack_of
from onchip.transform.groups.tile_graph import TileGraph, with_all_parameters
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.slices.bands import place_of, untiled
from onchip.verify.schedule.nests import NestDerivation
from onchip.verify.schedule.tiles import joins_left_out, verify_stacks, verify_tiles
from support.onnx_networks import LIGHT_MODELS
from support.small_schedules import VIEWS, all_whole, tile_graphs, tiled
from support.stacks import legal_spans
from support.tiled import Cut, Network, conv, crop, tiled_graphs, transposed, whole_tensor_differences

Case = tuple[Graph, tuple[ScheduledStack, ...], TileGraph]
Pixel = tuple[int, ...]


def region_of(graph: Graph, operator: Operator) -> Region:
    """Return the region of the whole output that a tile operator writes."""
    return operator.tile.regions[0] if operator.tile else whole_region(graph.tensor[operator.outputs[0]].shape or ())


def elements_of(tensor: Tensor) -> Iterator[tuple[str, Pixel]]:
    base, region = place_of(tensor)
    return ((base, pixel) for pixel in product(*(range(*each) for each in region)))


def original_of(tiles: TileGraph, network: Graph, name: str) -> Operator:
    return network.operator[tiles.operators[name].operator]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(tile_graphs(), st.integers(0, 2))
def test_tiles_of_any_stacks_give_the_values_of_the_network(case: Case, seed: int) -> None:
    graph, _, tiles = case
    assert whole_tensor_differences(with_all_parameters(tiles, graph), graph, seed) == ()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(tile_graphs())
def test_each_map_between_stacks_is_partitioned_by_its_bands(case: Case) -> None:
    graph, stacks, tiles = case
    inside = {name for stack in stacks for one in stack.operators[:-1] for name in graph.operator[one].outputs}
    times = Counter(element for tensor in tiles.graph.tensors for element in elements_of(tensor))
    left_out = joins_left_out(graph, tiles.graph)
    for tensor in graph.tensors:
        if tensor.name in inside or tensor.name in tiles.not_counted or tensor.name in left_out:
            continue
        assert all(times[tensor.name, pixel] == 1 for pixel in product(*map(range, tensor.shape or ())))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(tile_graphs())
def test_stacks_run_one_after_another_tile_by_tile_and_each_operator_computes_all_its_pixels(case: Case) -> None:
    graph, stacks, tiles = case
    order = [tiles.operators[operator.name] for operator in tiles.graph.operators]
    assert [one.stack for one in order] == sorted(one.stack for one in order)
    assert all(one.operator in stacks[one.stack].operators for one in order)
    numbers: list[tuple[int, int]] = []
    computed: dict[str, set[Pixel]] = {}
    for operator in tiles.graph.operators:
        made = tiles.operators[operator.name]
        computed.setdefault(made.operator, set()).update(
            product(*(range(*each) for each in region_of(tiles.graph, operator)))
        )
        if stacks[made.stack].tiling is None:
            assert operator.name == made.operator
        elif operator.name != made.operator:
            numbers.append((made.stack, int(operator.name.removeprefix(f"{made.operator}#").split(".")[0])))
    assert numbers == sorted(numbers)
    for stack in stacks:
        last = graph.operator[stack.operators[-1]]
        if last.outputs[0] in joins_left_out(graph, tiles.graph):
            assert last.name not in computed
            continue
        assert len(computed[last.name]) == prod(graph.tensor[last.outputs[0]].shape or ())


@settings(max_examples=40, deadline=None)
@given(tile_graphs())
def test_a_tile_reads_the_pixels_from_its_first_to_its_last_tap_and_its_nest_as_many(case: Case) -> None:
    """The oracle visits every tap of every output pixel, one by one."""
    graph, _, tiles = case
    for operator in tiles.graph.operators:
        original = original_of(tiles, graph, operator.name)
        if original.kind not in ("Conv", "MaxPool", "AveragePool"):
            continue
        read = Counter(element for name in operator.inputs for element in elements_of(tiles.graph.tensor[name]))
        assert set(read.values()) == {1}
        region = region_of(tiles.graph, operator)
        taps = [taps_of(graph, original, axis, region[2 + axis]) for axis in (0, 1)]
        sizes = (graph.tensor[original.inputs[0]].shape or ())[2:]
        nests = tiles.operators[operator.name].nests
        if not nests:  # all taps lie in the padding
            assert any(not set(range(size)).intersection(one) for size, one in zip(sizes, taps, strict=True))
            continue
        (layer,) = nests
        for axis, size in enumerate(sizes):
            stored = range(max(min(taps[axis]), 0), min(max(taps[axis]), size - 1) + 1)
            if operator.name != original.name:
                assert {pixel[2 + axis] for _, pixel in read} == set(stored)
            assert layer.axes[axis].size == len(stored)
            assert layer.axes[axis].padding == max(-min(taps[axis]), 0)
            assert layer.padding[2 + axis] == max(max(taps[axis]) - size + 1, 0)


def taps_of(graph: Graph, operator: Operator, axis: int, outputs: tuple[int, int]) -> list[int]:
    """Return the input positions, some in the padding, that a range of outputs along one axis reads."""
    source, written = (graph.tensor[name].shape or () for name in (operator.inputs[0], operator.outputs[0]))
    weight = graph.tensor[operator.parameters[0]].shape if operator.parameters else None
    kernel = weight[2:] if weight else integers(operator, "kernel_shape", (1, 1))
    window = windows_of(operator, kernel, source[2:], written[2:])[axis]
    return [
        output * window.stride - window.pad + tap * window.dilation
        for output in range(*outputs)
        for tap in range(window.kernel)
    ]


@settings(max_examples=40, deadline=None)
@given(tile_graphs())
def test_nests_multiply_what_their_tiles_compute(case: Case) -> None:
    """An output element takes the same products in a tile as in the whole operator; views take none."""
    graph, _, tiles = case
    macs = Counter[str]()
    for name, layer in layers_of(graph).layers.items() if any(layers_there(graph)) else ():
        macs[name.split(" (")[0]] += layer.macs
    for operator in tiles.graph.operators:
        original = original_of(tiles, graph, operator.name)
        written = prod(graph.tensor[original.outputs[0]].shape or ())
        size = prod(stop - start for start, stop in region_of(tiles.graph, operator))
        nests = tiles.operators[operator.name].nests
        if original.kind in VIEWS:
            assert nests == ()
        assert sum(layer.macs for layer in nests) * written == macs[original.name] * size


def layers_there(graph: Graph) -> Iterator[bool]:
    try:
        yield bool(layers_of(graph).layers)
    except InputError:
        yield False


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(tile_graphs())
def test_the_same_network_without_tiling_is_itself_without_what_no_nest_reads(case: Case) -> None:
    graph, _, _ = case
    tiles = tile_graph(graph, all_whole(graph), Precision(graph.tensors[0].bits or 8))
    assert tiles.graph.tensors == tuple(one for one in graph.tensors if one.name not in tiles.not_counted)
    assert apart(with_all_parameters(tiles, graph)) == graph.operators
    for operator in tiles.graph.operators:
        kept = graph.operator[operator.name].parameters
        if not tiles.operators[operator.name].nests:
            assert operator.parameters == kept
        else:
            assert len(operator.parameters) <= 1
    read = {name for operator in tiles.graph.operators for name in operator.parameters}
    assert set(tiles.not_counted) == {one.name for one in graph.with_role(Role.PARAMETER)} - read


def apart(graph: Graph) -> tuple[Operator, ...]:
    """Return the operators without results in the bytes of their inputs."""
    return tuple(replace(one, in_place=()) for one in graph.operators)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(tiled_graphs())
def test_stacks_of_layers_have_the_tiles_that_their_strategy_has(case: tuple[Graph, Cut, Graph]) -> None:
    graph, cut, expected = case
    stack_of = {layer.name: number for number, (stack, _) in enumerate(cut) for layer in stack.layers}
    for operator in reversed(graph.operators):
        if operator.kind in VIEWS:
            (written,) = operator.outputs
            readers = {stack_of[one.name] for one in graph.readers[written]}
            assume(len(readers) == 1 and graph.tensor[written].role is not Role.OUTPUT)
            stack_of[operator.name] = readers.pop()
    stacks = [
        ScheduledStack(tuple(name for name in graph.operator if stack_of[name] == number), tiling)
        for number, (_, tiling) in enumerate(cut)
    ]
    tiles = with_all_parameters(tile_graph(graph, stacks, Precision(8)), graph)
    assert apart(tiles) == expected.operators
    assert set(tiles.tensors) == set(expected.tensors)


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


MODES = tuple(OverlapMode)


def in_random_tiles(graph: Graph, random: Random) -> Graph:
    """Return any legal stacks, in any tiles; a layer that runs alone is in one tile."""
    network, start = partly_fusable_of(graph).network, 0
    cut = []
    while start < len(network.layers):
        span = random.choice([one for one in legal_spans(network) if one.start == start])
        stack = stack_of(network, span)
        columns, rows = random.randint(1, stack.output.columns), random.randint(1, stack.output.rows)
        cut.append((stack, Tiling(columns, rows, random.choice(MODES))))
        start = span.stop
    return graph_in_tiles(graph, network, cut)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30))
def test_tiles_beside_operators_that_run_whole_give_the_values_of_the_network(seed: int) -> None:
    random = Random(seed)
    facts = random_network(random, ODD_KINDS)
    assume(not reads_less_than_its_padding(facts))
    graph = graph_from_json(json.dumps(graph_file(facts)).encode(), "graph.json")
    try:
        tiled = in_random_tiles(graph, random)
    except InputError as error:
        assume("nothing but padding" not in error.what)
        raise
    assert whole_tensor_differences(tiled, graph, seed % 3) == ()
    whole = untiled(tiled) or tiled
    assert {one.name: one for one in whole.operators} == {one.name: one for one in graph.operators}


def test_an_operator_of_several_outputs_reads_all_bands_and_a_view_is_made_whole_for_it() -> None:
    shape = (1, 2, 6, 6)
    crop: dict[str, AttributeValue] = {"axes": [2, 3], "starts": [1, 1], "ends": [5, 5]}
    cropped, half = (1, 2, 4, 4), (1, 1, 4, 4)
    shapes = {"x": shape, "a": shape, "v": cropped, "s": half, "t": half, "y": (1, 1, 1, 1), "z": half}
    roles = {"x": Role.INPUT, "y": Role.OUTPUT, "z": Role.OUTPUT, "v": Role.OUTPUT}
    graph = Graph(
        "split",
        tuple(Tensor.of_shape(name, size, 8, roles.get(name, Role.ACTIVATION)) for name, size in shapes.items()),
        (
            Operator("a", "Exp", ("x",), ("a",)),
            Operator("v", "Slice", ("a",), ("v",), (), crop),
            Operator("s", "Split", ("v",), ("s", "t"), (), {"axis": 1}),
            Operator("y", "GlobalMaxPool", ("s",), ("y",)),
            Operator("z", "Abs", ("t",), ("z",)),
        ),
    )
    network = partly_fusable_of(graph).network
    assert [one.name for one in network.moved] == ["s"]
    tiles = Tiling(3, 2, OverlapMode.RECOMPUTE)
    stacks = [stack_of(network, span) for span in legal_spans(network) if span.length == 1]
    cut = [(stack, tiles.within(stack.output.columns, stack.output.rows)) for stack in stacks]
    tiled = graph_in_tiles(graph, network, cut)
    split = tiled.operator["s"]
    assert split.tile is not None
    assert [tiled.tensor[name].part_of for name in split.outputs] == [None] + ["t"] * 4
    assert whole_tensor_differences(tiled, graph) == ()
