"""A strategy's tiles as operators: they read their inputs, compute the costed elements, and give correct values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Order, Problem
from onchip.answer.program import Plan
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.api.run import network_inputs
from onchip.arch.memory import Memory
from onchip.errors import GraphError
from onchip.formats.own.graph_json import read_graph, write_graph
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Region, size_of, whole_region
from onchip.ir.window import integers
from onchip.model.capacity.bounds import compulsory_bytes, greatest_need
from onchip.ops.fusable import AxisName, Stack, TileClass, tiled_axis
from onchip.ops.fusable_reading import fusable_of
from onchip.simulate.arithmetic_kernels import ArithmeticKernels, values_in_given_order
from onchip.simulate.machine import MachineRun, run_in_given_order, run_plan_on_machine
from onchip.transform.groups.stack_in_tiles import graph_in_tiles
from onchip.transform.groups.stacks import LayerSpan, stack_of
from onchip.transform.slices.bands import place_of, untiled
from support.series import HALVES, series
from support.tiled import (
    Cut,
    Network,
    classifier,
    conv,
    crop,
    in_one_stack,
    leaving,
    residual,
    tiled_graphs,
    transposed,
    unpadded,
    whole_tensor_differences,
)

NETWORKS = {"residual": residual(8), "unpadded": unpadded(9), "transposed": transposed(5), "classifier": classifier()}
TILES = ((1, 1), (2, 3), (4, 2), (100, 1), (100, 100))
Pixel = tuple[int, ...]


def region_of(graph: Graph, operator: Operator) -> Region:
    """Return the region of the whole output that the operator writes."""
    tile = operator.tile
    return tile.regions[0] if tile else whole_region(graph.tensor[operator.outputs[0]].shape or ())


def original_of(operator: Operator) -> str:
    tile = operator.tile
    return tile.operator if tile else operator.name


def elements_of(tensor: Tensor) -> Iterator[tuple[str, Pixel]]:
    base, region = place_of(tensor)
    return ((base, pixel) for pixel in product(*(range(*each) for each in region)))


def least_plan(tiled: Graph) -> tuple[Problem, Plan]:
    """Return a plan in a scratchpad in which the largest operator just fits."""
    roomy = Problem(tiled, (Memory("sram", 2**30),), order=Order.GIVEN)
    problem = replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes),))
    result = plan_problem(problem, "belady")
    assert result.answer is not None
    return problem, result.answer


def executed(problem: Problem, plan: Plan, kernels: ArithmeticKernels) -> tuple[MachineRun, float | None]:
    inputs = network_inputs(problem.graph, kernels, {})
    run = run_plan_on_machine(problem, plan, kernels, inputs, run_in_given_order(problem, kernels, inputs))
    return run, kernels.difference_from_whole_model(inputs, run.outputs)


@HALVES
@settings(max_examples=50, deadline=None)
@given(tiled_graphs(), st.integers(0, 2))
def test_tiles_give_the_values_of_the_network(half: int, case: tuple[Graph, Cut, Graph], seed: int) -> None:
    graph, _, tiled = case
    assert whole_tensor_differences(tiled, graph, seed) == ()


def counted(stack: Stack, tiling: Tiling) -> Iterator[tuple[TileClass, TileClass, int]]:
    """Return classes of equal tiles along rows and columns, with the number of tiles in each pair of classes."""
    rows = tiled_axis(stack, AxisName.ROWS, tiling.rows, cached=tiling.mode.caches_rows)
    columns = tiled_axis(stack, AxisName.COLUMNS, tiling.columns, cached=tiling.mode.caches_columns)
    for (down, high), (across, wide) in product(Counter(rows.order).items(), Counter(columns.order).items()):
        yield rows.classes[down], columns.classes[across], high * wide


@settings(max_examples=40, deadline=None)
@given(tiled_graphs())
def test_counted_classes_of_tiles_have_the_totals_of_the_emitted_operators(case: tuple[Graph, Cut, Graph]) -> None:
    """The test counts the pixels that each layer computes, and those that it reads from maps directly."""
    graph, cut, tiled = case
    written, read = Counter[str](), Counter[tuple[str, str]]()
    for operator in tiled.operators:
        written[original_of(operator)] += size_of(region_of(tiled, operator))
        for tensor in (tiled.tensor[name] for name in operator.inputs):
            read[original_of(operator), place_of(tensor)[0]] += prod(tensor.shape or ())
    for stack, tiling in cut:
        computed, seen = Counter[str](), Counter[tuple[str, str]]()
        channels = {one.name: one.channels for one in (*stack.inputs, *(layer.output for layer in stack.layers))}
        for down, across, times in counted(stack, tiling):
            for at, layer in enumerate(stack.layers):
                name = layer.output.name
                pixels = times * down.maps[name].computed * across.maps[name].computed
                scale = prod(graph.tensor[name].shape or ()) // layer.output.elements
                computed[layer.name] += pixels * channels[name] * scale
                uses = zip(layer.reads, down.reads[at], across.reads[at], strict=True)
                if pixels and len({one.source for one in layer.reads}) == len(layer.reads):
                    for one, high, wide in uses:
                        seen[layer.name, one.source] += times * high.seen * wide.seen * channels[one.source]
        assert computed == {layer.name: written[layer.name] for layer in stack.layers}
        own = {(name, source) for name, source in seen if source in graph.operator[name].inputs}
        assert {key: seen[key] for key in own} == {key: read[key] for key in own}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(tiled_graphs())
def test_what_leaves_a_stack_and_what_is_cached_is_computed_once(case: tuple[Graph, Cut, Graph]) -> None:
    graph, cut, tiled = case
    computed = Counter(
        (original_of(operator), pixel)
        for operator in tiled.operators
        for pixel in product(*(range(*each) for each in region_of(tiled, operator)))
    )
    for stack, tiling in cut:
        once = {stack.layers[-1].name}
        if tiling.mode is OverlapMode.FULLY_CACHED:
            once |= {layer.name for layer in stack.layers}
        assert {times for (name, _), times in computed.items() if name in once} == {1}
        last = graph.operator[stack.layers[-1].name]
        assert sum(name == last.name for name, _ in computed) == prod(graph.tensor[last.outputs[0]].shape or ())


@pytest.mark.parametrize("mode", OverlapMode)
def test_a_slice_reads_from_its_first_to_its_last_pixel(mode: OverlapMode) -> None:
    tiled = in_one_stack(unpadded(), 2, 2, mode)
    for operator in tiled.operators:
        if operator.kind != "Slice":
            continue
        starts, steps = (integers(operator, name, (0, 0)) for name in ("starts", "steps"))
        seen = [
            range(low * step + start, (high - 1) * step + start + 1)
            for (low, high), start, step in zip(region_of(tiled, operator)[2:], starts, steps, strict=True)
        ]
        read = (element for name in operator.inputs for element in elements_of(tiled.tensor[name]))
        assert {pixel[2:] for _, pixel in read} == set(product(*seen))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(tiled_graphs())
def test_the_network_is_told_from_its_tiles(case: tuple[Graph, Cut, Graph]) -> None:
    graph, _, tiled = case
    found = untiled(tiled)
    if found is None:
        assert tiled == graph
    else:
        assert set(found.operators) == set(graph.operators)
        assert set(found.tensors) == set(graph.tensors)


@pytest.mark.parametrize("mode", series(OverlapMode, 1))
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_plan_at_the_least_capacity_gives_the_values_of_the_network(
    name: str, tile: tuple[int, int], mode: OverlapMode
) -> None:
    graph = NETWORKS[name]
    tiled = in_one_stack(graph, *tile, mode)
    problem, plan = least_plan(tiled)
    run, difference = executed(problem, plan, ArithmeticKernels(tiled, 1, graph))
    assert run.difference is None
    assert run.loads + run.write_backs >= compulsory_bytes(problem)
    assert difference == 0


def test_a_wrong_window_is_found_out() -> None:
    graph = residual()
    tiled = in_one_stack(graph, 3, 2, OverlapMode.FULLY_CACHED)
    wrong = replace(
        tiled,
        operators=tuple(
            replace(one, attributes={**one.attributes, "dilations": [1, 1], "auto_pad": "SAME_LOWER"})
            if original_of(one) == "conv4"
            else one
            for one in tiled.operators
        ),
    )
    with pytest.raises(GraphError, match="is read, and only"):
        whole_tensor_differences(wrong, graph)


def test_tiles_run_row_by_row_through_all_layers() -> None:
    tiled = in_one_stack(residual(), 3, 3, OverlapMode.RECOMPUTE)
    layers = ("conv0", "conv1", "conv2", "add3", "conv4", "maxpool5")
    assert [one.name for one in tiled.operators] == [f"{name}#{at}" for at in range(4) for name in layers]
    assert region_of(tiled, tiled.operator["maxpool5#1"]) == ((0, 1), (0, 4), (0, 3), (3, 6))


def test_tiles_that_compute_pixels_again_share_nothing_but_input_and_output() -> None:
    tiled = in_one_stack(residual(), 3, 3, OverlapMode.RECOMPUTE)
    for tensor in tiled.tensors:
        users = {name.partition("#")[2] for name in _users(tiled, tensor.name)}
        assert len(users) == 1 or tensor.role in (Role.INPUT, Role.PARAMETER)
    beside = in_one_stack(residual(), 3, 3, OverlapMode.H_CACHED)
    shared = {
        frozenset(name.partition("#")[2] for name in _users(beside, tensor.name))
        for tensor in beside.with_role(Role.ACTIVATION)
    }
    assert {"0", "1"} in shared
    assert all(len({int(tile) // 2 for tile in tiles}) == 1 for tiles in shared)


def _users(graph: Graph, name: str) -> Iterator[str]:
    yield from (one.name for one in graph.readers[name])
    if name in graph.producer:
        yield graph.producer[name].name


def test_what_is_compulsory_stays_the_same() -> None:
    graph = residual()
    (memory,) = (Memory("sram", 2**20),)
    expected = compulsory_bytes(Problem(graph, (memory,)))
    for mode in OverlapMode:
        assert compulsory_bytes(Problem(in_one_stack(graph, 2, 2, mode), (memory,))) == expected


def test_caching_needs_less_room_than_recomputing_all_at_once() -> None:
    graph = residual()
    (memory,) = (Memory("sram", 2**20),)
    whole = greatest_need(Problem(graph, (memory,))).need_bytes
    tiled = Problem(in_one_stack(graph, 2, 2, OverlapMode.FULLY_CACHED), (memory,))
    assert greatest_need(tiled).need_bytes < whole / 2


def test_one_tile_is_the_network_itself() -> None:
    for name in ("residual", "transposed", "classifier"):
        assert in_one_stack(NETWORKS[name], 100, 100, OverlapMode.RECOMPUTE) == NETWORKS[name]


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    tiled = in_one_stack(unpadded(), 2, 2, OverlapMode.H_CACHED)
    write_graph(tiled, tmp_path / "tiled.json.gz")
    assert read_graph(tmp_path / "tiled.json.gz") == tiled
    assert read_network(str(tmp_path / "tiled.json.gz")) == tiled


def test_a_bundled_network_has_its_values_in_tiles_of_several_stacks() -> None:
    graph = read_network("lenet5").with_bits(8)
    network = fusable_of(graph)
    tilings = {(0, 2): Tiling(5, 4, OverlapMode.H_CACHED), (2, 3): Tiling(3, 1, OverlapMode.FULLY_CACHED)}
    spans = [LayerSpan(*ends) for ends in ((0, 2), (2, 3), (3, 4), (4, 5))]
    alone = Tiling(1, 1, OverlapMode.RECOMPUTE)
    stacks = [(stack_of(network, span), tilings.get((span.start, span.stop), alone)) for span in spans]
    tiled = graph_in_tiles(graph, network, stacks)
    assert whole_tensor_differences(tiled, graph) == ()
    assert {name.partition("#")[2] for name in tiled.operator} >= {"", "0", "20"}


@pytest.mark.parametrize("mode", OverlapMode)
def test_a_view_is_made_in_every_tile_that_reads_it_and_whole_where_it_leaves(mode: OverlapMode) -> None:
    network = Network(8)
    source = conv(network, network.input(1, 1, 9, 9), 2, 3)
    view = crop(network, source, 1, 1)
    both = network.add("Add", [network.add("Relu", [view], (1, 2, 7, 7)), view], (1, 2, 7, 7))
    last = network.add("Add", [view, both], (1, 2, 7, 7))
    network.add("Flatten", [last], (1, 98))
    graph = leaving(network.graph(), [view])
    fusable = fusable_of(graph)
    spans = (LayerSpan(0, 1), LayerSpan(1, 3), LayerSpan(3, 4))
    stacks = [(stack_of(fusable, span), Tiling(3, 4, mode)) for span in spans]
    tiled = graph_in_tiles(graph, fusable, stacks)
    assert whole_tensor_differences(tiled, graph) == ()
    assert [tensor.name for tensor in tiled.with_role(Role.OUTPUT)] == [view, graph.operators[-1].outputs[0]]
    views = Counter(original_of(one) for one in tiled.operators if one.kind in ("Slice", "Flatten"))
    assert views == {"slice1": 2 * 6 + 1, "flatten5": 1}
    found = untiled(tiled)
    assert found is not None
    assert found.with_role(Role.OUTPUT) == graph.with_role(Role.OUTPUT)


@pytest.mark.parametrize("mode", OverlapMode)
def test_views_of_views_leave_whole_before_tiles_read_parts_of_them(mode: OverlapMode) -> None:
    """A crop of the network's input and a crop of that crop leave, listed in reverse order; both are read."""
    network = Network(8)
    outer = crop(network, network.input(1, 2, 9, 9), 1, 1)
    inner = crop(network, outer, 1, 1)
    network.add("Add", [network.add("Relu", [inner], (1, 2, 5, 5)), inner], (1, 2, 5, 5))
    graph = leaving(network.graph(), [outer, inner])
    graph = replace(graph, tensors=graph.tensors[::-1])
    tiled = in_one_stack(graph, 2, 3, mode)
    assert whole_tensor_differences(tiled, graph) == ()
    assert {tensor.name for tensor in tiled.with_role(Role.OUTPUT)} >= {outer, inner}
    found = untiled(tiled)
    assert found is not None
    assert found.with_role(Role.OUTPUT) == graph.with_role(Role.OUTPUT)


@pytest.mark.parametrize("tile", TILES)
def test_a_crop_that_leaves_the_network_begins_and_ends_within_tiles(tile: tuple[int, int]) -> None:
    """The crop leaves alone, and as a vector of its elements."""
    network = Network(8)
    inner = crop(network, crop(network, conv(network, network.input(1, 1, 9, 9), 2, 3), 1, 1), 1, 2)
    network.add("Flatten", [inner], (1, prod(network.shape(inner))))
    graph = leaving(network.graph(), [inner])
    tiled = in_one_stack(graph, *tile, OverlapMode.FULLY_CACHED)
    assert whole_tensor_differences(tiled, graph) == ()
    assert tiled.with_role(Role.OUTPUT) == graph.with_role(Role.OUTPUT)


def test_a_transposed_convolution_scatters_its_input() -> None:
    graph = transposed(3)
    kernels = ArithmeticKernels(graph)
    held = values_in_given_order(graph, kernels, {"x0": kernels.network_input(graph.tensor["x0"])})

    def array(name: str) -> npt.NDArray[np.uint8]:
        content = held[name] if name in held else kernels.parameter(graph.tensor[name])
        return content.reshape(graph.tensor[name].shape or ())

    last = graph.operators[-1]
    source, weight, bias = (array(name) for name in (*last.inputs, *last.parameters))
    expected = np.zeros((2, 8, 8), np.int64) + bias.reshape(2, 1, 1)
    for depth, row, column in product(range(3), range(3), range(3)):
        scattered = source[0, depth, row, column].astype(np.int64) * weight[depth]
        expected[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += scattered
    assert np.array_equal(array(last.outputs[0])[0], expected[:, 1:7, 1:7] % 256)


def test_what_cannot_run_in_parts_is_refused() -> None:
    network = Network(8)
    pooled = network.add("LpPool", [network.input(1, 1, 6, 6)], (1, 1, 5, 5), (), {"kernel_shape": [2, 2]})
    network.add("Relu", [pooled], (1, 1, 5, 5))
    with pytest.raises(GraphError, match=r"operator 'lppool0' cannot run in parts \(LpPool\)"):
        in_one_stack(network.graph(), 2, 2, OverlapMode.RECOMPUTE)
    assert len(in_one_stack(network.graph(), 5, 5, OverlapMode.RECOMPUTE).operators) == 2


@pytest.mark.parametrize("mode", OverlapMode)
def test_an_output_that_is_read_is_written_once_and_read_by_the_next_stack(mode: OverlapMode) -> None:
    graph = leaving(residual(8), ["add3.out"])
    network = fusable_of(graph)
    stacks = [(stack_of(network, span), Tiling(3, 2, mode)) for span in (LayerSpan(0, 4), LayerSpan(4, 6))]
    tiled = graph_in_tiles(graph, network, stacks)
    assert whole_tensor_differences(tiled, graph) == ()
    bands = [tensor for tensor in tiled.with_role(Role.OUTPUT) if tensor.part_of == "add3.out"]
    assert sum(prod(band.shape or ()) for band in bands) == prod(graph.tensor["add3.out"].shape or ())
    assert any(tiled.readers[band.name] for band in bands)
