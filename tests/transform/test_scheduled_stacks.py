"""Stacks of a schedule: special operators in and between tiles, and refusals with their reasons."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision, layers_of
from onchip.transform.groups import tiled as transform
from onchip.transform.groups.tile_graph import with_all_parameters
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.slices.bands import place_of
from onchip.verify.schedule.nests import NestDerivation
from onchip.verify.schedule.tiles import verify_tiles
from support.onnx_networks import LIGHT_MODELS
from support.small_schedules import all_whole, tiled, whole
from support.tiled import (
    Attributes,
    Network,
    classifier,
    conv,
    crop,
    in_one_stack,
    leaving,
    pool,
    residual,
    transposed,
    unpadded,
    whole_tensor_differences,
)

NETWORKS = {"residual": residual(8), "unpadded": unpadded(9), "transposed": transposed(5), "classifier": classifier()}
EIGHT = Precision(8)


def differences(graph: Graph, stacks: list[ScheduledStack]) -> tuple[str, ...]:
    """Return the tensors in tiles whose values differ from the network's."""
    return whole_tensor_differences(with_all_parameters(tile_graph(graph, stacks, EIGHT), graph), graph)


@pytest.mark.parametrize("mode", OverlapMode)
@pytest.mark.parametrize("tile", [(1, 1), (2, 3), (100, 1), (100, 100)])
@pytest.mark.parametrize("name", NETWORKS)
def test_one_stack_has_the_tiles_that_its_strategy_has(name: str, tile: tuple[int, int], mode: OverlapMode) -> None:
    graph = NETWORKS[name]
    rows, columns = (graph.tensor[graph.operators[-1].outputs[0]].shape or ())[2:] or (1, 1)
    scale = 2 if name == "transposed" else 1
    tiling = Tiling(tile[0], tile[1], mode).within(columns // scale, rows // scale)
    tiles = tile_graph(graph, [ScheduledStack(tuple(graph.operator), tiling)], EIGHT)
    expected = in_one_stack(graph, *tile, mode)
    made = with_all_parameters(tiles, graph)
    assert [replace(one, in_place=()) for one in made.operators] == list(expected.operators)
    assert set(made.tensors) == set(expected.tensors)


@pytest.mark.parametrize("mode", OverlapMode)
@pytest.mark.parametrize("tile", ["1x1", "2x1", "3x2", "5x5"])
def test_tiles_of_a_transposed_convolution_multiply_its_taps_one_by_one(tile: str, mode: OverlapMode) -> None:
    """The oracle counts for each output pixel the taps of a kernel of 3 at distances that the stride of 2 divides."""
    graph = transposed(5)
    tiles = tile_graph(graph, [tiled("conv0 convtranspose1", tile, mode)], EIGHT)
    seen = 0
    for operator in tiles.graph.operators:
        made = tiles.operators[operator.name]
        if made.operator != "convtranspose1":
            continue
        region = operator.tile.regions[0] if operator.tile else ((0, 1), (0, 2), (0, 10), (0, 10))
        pixels = product(range(*region[2]), range(*region[3]))
        taps = [
            (row, column)
            for pixel in pixels
            for row, column in product(range(3), repeat=2)
            if (pixel[0] + 1 - row) % 2 == (pixel[1] + 1 - column) % 2 == 0
        ]
        assert sum(layer.macs for layer in made.nests) == len(taps) * 2 * 3
        assert sum(layer.p * layer.q for layer in made.nests) == prod(stop - start for start, stop in region[2:])
        seen += 1
    assert seen == len(list(product(range(-(-5 // int(tile[0]))), range(-(-5 // int(tile[2]))))))
    nests = tile_graph(graph, all_whole(graph), EIGHT).operators["convtranspose1"].nests
    found = layers_of(graph).layers
    assert len(nests) == 4
    assert nests == tuple(EIGHT.of(layer) for name, layer in found.items() if name.startswith("convtranspose1"))


@pytest.mark.parametrize("tile", ["1x1", "3x3", "4x9"])
@pytest.mark.parametrize("mode", OverlapMode)
def test_what_a_transposed_convolution_writes_is_cut_at_its_readers_lines(tile: str, mode: OverlapMode) -> None:
    network = Network(8)
    source = conv(network, network.input(1, 1, 5, 5), 3, 3)
    attributes: Attributes = {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1], "kernel_shape": [3, 3]}
    weights = [network.parameter(3, 2, 3, 3), network.parameter(2)]
    doubled = network.add("ConvTranspose", [source], (1, 2, 10, 10), weights, attributes)
    conv(network, doubled, 2, 3)
    stacks = [tiled("conv0 convtranspose1", "2x1", mode), tiled("conv2", tile, mode)]
    assert differences(network.graph(), stacks) == ()


@pytest.mark.parametrize("mode", OverlapMode)
def test_an_operator_between_tiled_stacks_lists_every_band_that_it_reads_and_writes(mode: OverlapMode) -> None:
    network = Network(8)
    first = conv(network, network.input(1, 2, 6, 6), 2, 3)
    added = network.add("Add", [first, first], (1, 2, 6, 6))
    whole_map = network.add("Softmax", [added], (1, 2, 6, 6))
    conv(network, whole_map, 2, 3)
    graph = network.graph()
    stacks = [tiled("conv0", "2x3", mode), *whole("add1", "softmax2"), tiled("conv3", "6x2", mode)]
    tiles = tile_graph(graph, stacks, EIGHT)
    assert differences(graph, stacks) == ()
    add, softmax = tiles.graph.operator["add1"], tiles.graph.operator["softmax2"]
    assert len(add.inputs) == len(set(add.inputs)) == 6
    assert (add.outputs, softmax.inputs) == (("add1.out",), ("add1.out",))
    assert add.tile is not None
    assert add.tile.regions == (((0, 1), (0, 2), (0, 6), (0, 6)),)
    assert len(softmax.outputs) > 1
    assert {place_of(tiles.graph.tensor[name])[0] for name in softmax.outputs} == {"softmax2.out"}
    assert tiles.operators["softmax2"].nests == ()
    assert [layer.g for layer in tiles.operators["add1"].nests] == [72]
    assert tiles.operators["add1"].operands is not None


@pytest.mark.parametrize("mode", OverlapMode)
def test_a_view_is_made_in_its_readers_stack_or_stands_alone(mode: OverlapMode) -> None:
    network = Network(8)
    source = conv(network, network.input(1, 1, 9, 9), 2, 3)
    view = crop(network, source, 1, 1)
    network.add("Add", [network.add("Relu", [view], (1, 2, 7, 7)), view], (1, 2, 7, 7))
    graph = network.graph()
    inside = [tiled("conv0", "3x4", mode), tiled("slice1 relu2 add3", "3x4", mode)]
    alone = [tiled("conv0", "3x4", mode), *whole("slice1"), tiled("relu2 add3", "3x4", mode)]
    for stacks in (inside, alone):
        assert differences(graph, stacks) == ()
    made = tile_graph(graph, inside, EIGHT).operators
    assert sum(one.operator == "slice1" for one in made.values()) == 6
    assert {one.nests for one in made.values() if one.operator == "slice1"} == {()}
    assert tile_graph(graph, alone, EIGHT).operators["slice1"].stack == 1


def test_stacks_may_run_in_another_order_than_the_networks() -> None:
    network = Network(8)
    image = network.input(1, 2, 6, 6)
    for _ in range(2):
        pool(network, conv(network, image, 2, 3), "MaxPool", 2, 2, 0)
    graph = network.graph()
    mode = OverlapMode.FULLY_CACHED
    stacks = [tiled("conv2 maxpool3", "2x1", mode), tiled("conv0 maxpool1", "1x3", mode)]
    assert differences(graph, stacks) == ()
    assert [one.stack for one in tile_graph(graph, stacks, EIGHT).operators.values()] == [0] * 12 + [1] * 6


def test_a_parameter_that_is_a_weight_here_and_a_bias_there_is_read_where_it_is_a_weight() -> None:
    network = Network(8)
    source = network.input(1, 4)
    shared, bias = network.parameter(4, 4), network.parameter(4)
    first = network.add("Gemm", [source], (1, 4), [shared, bias])
    network.add("Gemm", [first], (1, 4), [network.parameter(4, 4), shared])
    tiles = tile_graph(network.graph(), all_whole(network.graph()), EIGHT)
    assert [operator.parameters for operator in tiles.graph.operators] == [(shared,), ("w4",)]
    assert tiles.not_counted == (bias,)


def test_an_operator_without_a_nest_keeps_all_its_parameters() -> None:
    network = Network(8)
    parameters = [network.parameter(3) for _ in range(4)]
    network.add("GroupNormalization", [network.input(1, 3, 4, 4)], (1, 3, 4, 4), parameters)
    tiles = tile_graph(network.graph(), all_whole(network.graph()), EIGHT)
    assert tiles.graph == network.graph()
    assert (tiles.not_counted, tiles.operators["groupnormalization0"].nests) == ((), ())


def test_tensors_in_bytes_and_several_outputs_stand_as_they_are() -> None:
    tensors = (Tensor("x", 7, Role.INPUT), Tensor("a", 3, Role.OUTPUT), Tensor("b", 4, Role.OUTPUT))
    graph = Graph("split", tensors, (Operator("split", "Split", ("x",), ("a", "b")),))
    assert tile_graph(graph, whole("split"), Precision(4)).graph == graph


def test_tensors_in_bytes_keep_these_beside_others_that_get_other_bits() -> None:
    tensors = Tensor("x", 7, Role.INPUT), Tensor.of_shape("a", (5,), 32, Role.OUTPUT)
    graph = Graph("read", tensors, (Operator("read", "Cast", ("x",), ("a",)),))
    assert [one.size_bytes for one in tile_graph(graph, whole("read"), Precision(4)).graph.tensors] == [7, 3]


@pytest.mark.parametrize("mode", OverlapMode)
def test_a_fully_connected_layer_in_a_tile_has_the_nest_that_it_has_whole(mode: OverlapMode) -> None:
    graph = classifier()
    names = list(graph.operator)
    stacks = [tiled(names[:2], "2x1", mode), tiled(names[2:4], "1x1", mode), *whole(names[4])]
    assert differences(graph, stacks) == ()
    tiles = tile_graph(graph, stacks, EIGHT)
    (gemm,) = (operator for operator in tiles.graph.operators if tiles.operators[operator.name].operator == names[3])
    assert gemm.tile is not None
    assert tiles.operators[gemm.name].nests == (EIGHT.of(layers_of(graph).layers[names[3]]),)


def test_elements_have_the_bits_that_are_asked_for() -> None:
    graph = residual(8)
    tiles = tile_graph(graph, [tiled(tuple(graph.operator), "2x2")], Precision(16, 40))
    assert {tensor.bits for tensor in tiles.graph.tensors} == {16}
    for layer in (one for made in tiles.operators.values() for one in made.nests):
        assert (layer.input_bits, layer.weight_bits, layer.output_bits, layer.partial_bits) == (16, 16, 16, 40)


@pytest.mark.parametrize("path", LIGHT_MODELS, ids=lambda path: path.stem)
def test_a_light_model_whole_has_its_layers_as_nests(path: object) -> None:
    from onchip.api.networks import read_network

    graph = read_network(str(path))
    tiles = tile_graph(graph, all_whole(graph), EIGHT)
    assert [operator.name for operator in tiles.graph.operators] == list(graph.operator)
    nests = [layer for made in tiles.operators.values() for layer in made.nests]
    assert nests == [EIGHT.of(layer) for layer in layers_of(graph).layers.values()]
    for name, made in tiles.operators.items():
        weights = sum(tiles.graph.tensor[one].size_bytes for one in tiles.graph.operator[name].parameters)
        if made.nests and made.operands and made.operands.weight in graph.operator[name].parameters:
            assert weights == sum(layer.elements("weight") for layer in made.nests)


def branching() -> Graph:
    """Return conv0 -> relu1 -> add3 <- conv2 <- conv0."""
    network = Network(8)
    first = conv(network, network.input(1, 2, 6, 6), 2, 3)
    network.add("Add", [network.add("Relu", [first], (1, 2, 6, 6)), conv(network, first, 2, 3)], (1, 2, 6, 6))
    return network.graph()


@pytest.mark.parametrize(
    ("stacks", "message"),
    [
        (whole("conv0", "relu1", "conv2"), "small: stacks: operator 'add3' is in no stack"),
        ([*whole("conv0", "relu1", "conv2", "add3"), tiled("conv2")], "small: stacks: operator 'conv2' is in 2 stacks"),
        (whole("conv0", "other"), "small: stack 1 ('other'): operator 'other' is unknown"),
        (
            whole("conv0", "add3", "relu1", "conv2"),
            "small: stack 1 ('add3'): 'add3' runs before 'relu1', which it reads",
        ),
        (
            [tiled("relu1 conv0 conv2 add3")],
            "small: stack 0 ('relu1' to 'add3'): 'relu1' runs before 'conv0', which it reads",
        ),
        (
            [tiled("conv0 relu1"), *whole("conv2", "add3")],
            "stack 0 ('conv0' to 'relu1'): 'conv0.out', which 'conv0' writes, is read outside by 'conv2'",
        ),
        (
            [tiled("conv0 relu1 add3"), *whole("conv2")],  # not convex: conv0, conv2, add3
            "stack 0 ('conv0' to 'add3'): 'conv0.out', which 'conv0' writes, is read outside by 'conv2'",
        ),
        ([tiled("conv0 relu1 conv2 add3", "7x2")], "cannot run in tiles: feature map 'add3.out': a tile of 7x2"),
    ],
)
def test_stacks_that_are_none_of_the_network_are_refused(stacks: list[ScheduledStack], message: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        tile_graph(branching(), stacks, EIGHT)
    assert message in str(raised.value)


def test_an_inner_output_that_leaves_the_network_is_refused() -> None:
    graph = leaving(residual(8), ["add3.out"])
    with pytest.raises(ScheduleError, match=r"'add3\.out', which 'add3' writes, is an output of the network"):
        tile_graph(graph, [tiled(tuple(graph.operator))], EIGHT)


def test_an_inner_output_that_nobody_reads_is_refused() -> None:
    tensors = [Tensor.of_shape(name, (1, 1, 4, 4), 8, Role.ACTIVATION) for name in ("a", "b")]
    tensors += [Tensor.of_shape("x", (1, 1, 4, 4), 8, Role.INPUT)]
    operators = Operator("one", "Relu", ("x",), ("a",)), Operator("two", "Relu", ("x",), ("b",))
    with pytest.raises(ScheduleError, match="'a', which 'one' writes, is read by nobody"):
        tile_graph(Graph("g", tuple(tensors), operators), [tiled("one two")], EIGHT)


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        (
            "Softmax",
            {"axis": 1},
            "cannot run in tiles: Softmax 'softmax0': its kind is no loop nest of multiply-accumulates",
        ),
        ("Flatten", {}, "cannot run in tiles: no operator is a layer"),
        ("LpPool", {"kernel_shape": [1, 1]}, "cannot run in tiles: operator 'lppool0' cannot run in parts (LpPool)"),
    ],
)
def test_an_operator_that_cannot_run_in_tiles_is_named(kind: str, attributes: Attributes, message: str) -> None:
    network = Network(8)
    network.add(kind, [network.input(1, 1, 4, 4)], (1, 16) if kind == "Flatten" else (1, 1, 4, 4), (), attributes)
    with pytest.raises(ScheduleError) as raised:
        tile_graph(network.graph(), [tiled(f"{kind.lower()}0")], EIGHT)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"small: stack 0 ('{kind.lower()}0')")


def test_a_view_that_leaves_a_stack_in_tiles_is_refused() -> None:
    network = Network(8)
    crop(network, conv(network, network.input(1, 1, 9, 9), 2, 3), 1, 1)
    with pytest.raises(ScheduleError, match="operator 'slice1': a view leaves the stack"):
        tile_graph(network.graph(), [tiled("conv0 slice1")], EIGHT)


def test_more_tile_operators_than_the_space_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = residual(8)
    stacks = [tiled(tuple(graph.operator), "2x2")]
    count = len(tile_graph(graph, stacks, EIGHT).operators)
    monkeypatch.setattr(transform, "MOST_TILE_OPERATORS", count)
    assert len(tile_graph(graph, stacks, EIGHT).operators) == count
    monkeypatch.setattr(transform, "MOST_TILE_OPERATORS", count - 1)
    with pytest.raises(ScheduleError, match=f"small: stacks has {count} tile operators"):
        tile_graph(graph, stacks, EIGHT)


def test_views_in_tiles_count_among_tile_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = unpadded(9)
    stacks = [tiled(tuple(graph.operator), "2x2")]
    count = len(tile_graph(graph, stacks, EIGHT).operators)
    monkeypatch.setattr(transform, "MOST_TILE_OPERATORS", count - 1)
    with pytest.raises(ScheduleError, match=f"has {count} tile operators"):
        tile_graph(graph, stacks, EIGHT)


@pytest.mark.parametrize("is_tile_first", [True, False])
def test_an_operator_that_has_the_name_of_anothers_tile_is_refused(*, is_tile_first: bool) -> None:
    image = Tensor.of_shape("x", (1, 1, 4, 4), 8, Role.INPUT)
    outputs = [Tensor.of_shape(name, (1, 1, 4, 4), 8, Role.OUTPUT) for name in ("a", "b")]
    operators = Operator("relu", "Relu", ("x",), ("a",)), Operator("relu#0", "Softmax", ("x",), ("b",))
    graph = Graph("g", (image, *outputs), operators)
    stacks = [tiled("relu", "2x2"), *whole("relu#0")]
    with pytest.raises(ScheduleError, match=r"operator 'relu#0': .*a tile of another operator has this name"):
        tile_graph(graph, stacks if is_tile_first else stacks[::-1], EIGHT)


def test_a_million_tiles_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(transform, "emitted")
    network = Network(8)
    conv(network, network.input(1, 1, 1000, 1000), 1, 1)
    with pytest.raises(ScheduleError, match=r"has 1,000,000 tile operators"):
        tile_graph(network.graph(), [tiled("conv0")], EIGHT)


def normalised_in_primitives() -> Graph:
    """Return an RMS normalisation in primitives, and a product with weights."""
    network = Network(8)
    shape, narrow = (1, 12, 6), (1, 12, 1)
    source = network.input(*shape)
    square = network.add("Mul", [source, source], shape)
    mean = network.add("ReduceMean", [square], narrow, attributes={"axes": [-1], "keepdims": 1})
    root = network.add("Sqrt", [mean], narrow)
    scaled = network.add("Div", [source, root], shape)
    network.add("MatMul", [scaled], (1, 12, 4), [network.parameter(6, 4)])
    return network.graph()


@pytest.mark.parametrize("rows", [1, 5, 12])
def test_rows_of_a_normalisation_in_primitives_run_in_tiles(rows: int) -> None:
    """Each row of the mean needs its row alone; the verifier finds the same nests and regions."""
    graph = normalised_in_primitives()
    stack = tiled(tuple(graph.operator), f"1x{rows}")
    tiles = tile_graph(graph, [stack], EIGHT)
    means = [one for one in tiles.graph.operators if one.kind == "ReduceMean"]
    assert len(means) == -(-12 // rows)
    assert [layer.macs for one in means for layer in tiles.operators[one.name].nests][-1] == 6 * rows
    assert differences(graph, [stack]) == ()
    derived = NestDerivation(graph, EIGHT.sum_bits)
    assert verify_tiles(graph, tiles.graph, [stack], derived) == ()
    for one in means:
        (region,) = one.tile.regions if one.tile is not None else [None]
        found = derived.of(graph.operator["reducemean1"], region)
        assert found is not None
        assert found.layers == tiles.operators[one.name].nests
