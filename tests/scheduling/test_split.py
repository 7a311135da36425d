"""Operators in tiles: bands partition, everything fits, nothing is split without need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onchip.answer.document import Granularity, Reading, Split
from onchip.answer.problem import Count, Problem
from onchip.api.networks import read_network
from onchip.errors import UnsplitError
from onchip.formats.own.graph_json import graph_from_json, graph_sha256, graph_to_json
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import SumPart, size_of
from onchip.model.capacity.bounds import compulsory_bytes, greatest_need
from onchip.model.capacity.room import SplitRoom, items_of
from onchip.scheduling.candidates import search
from onchip.scheduling.candidates.split import cap_tensors, split_operators
from support.series import with_slow
from support.tiled import Network, convolution, gemm, networks, pool, problem_of, specialised

SMAUG = ("elu_cifar100", "large_elu", "lenet5", "lstm", "minerva", "resnet50_smaug", "smaug_cnn", "vgg_cifar")


@pytest.fixture(scope="module", autouse=True)
def short_searches() -> Iterator[None]:
    """That nothing fits takes the longest to find out, and is of no interest here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_MOST_WORK", 5_000)
        yield


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    graph = draw(networks())
    capacities = draw(st.lists(st.integers(60, 600), min_size=1, max_size=3))
    if draw(st.sampled_from((True, False, False))):
        return specialised(graph, capacities[0])
    count = draw(st.sampled_from(Count))
    return problem_of(graph, *capacities, alignment_bytes=draw(st.sampled_from((1, 4, 16))), count=count)


def split(problem: Problem, when: Split = Split.AUTO) -> Problem:
    """The problem of the tiles; of no interest where some operator cannot be split."""
    try:
        return replace(problem, graph=split_operators(problem, when))
    except UnsplitError:
        assume(False)
        raise


def bands_of(graph: Graph) -> dict[str, list[Tensor]]:
    found: dict[str, list[Tensor]] = {}
    for tensor in graph.tensors:
        if tensor.part_of is not None:
            found.setdefault(tensor.part_of, []).append(tensor)
    return found


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(problems(), st.sampled_from((Split.AUTO, Split.ALWAYS)))
def test_bands_partition_the_tensor_they_are_part_of(problem: Problem, when: Split) -> None:
    tiled = split(problem, when)
    for base, bands in bands_of(tiled.graph).items():
        whole = problem.graph.tensor[base]
        assert sum(band.size_bytes for band in bands) == whole.size_bytes
        assert {(band.role, band.bits) for band in bands} == {(whole.role, whole.bits)}
        elements = [element for band in bands for element in product(*(range(*each) for each in band.region or ()))]
        assert sorted(elements) == sorted(product(*map(range, whole.shape or ())))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(problems(), st.sampled_from((Split.AUTO, Split.ALWAYS)))
def test_every_operator_fits(problem: Problem, when: Split) -> None:
    tiled = split(problem, when)
    room = SplitRoom.of(problem.memories)
    assert all(room.holds(items_of(tiled, operator)) for operator in tiled.graph.operators)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(problems())
def test_an_operator_that_fits_is_left_whole(problem: Problem) -> None:
    tiled = split(problem)
    room = SplitRoom.of(problem.memories)
    for operator in problem.graph.operators:
        fits = room.holds(items_of(problem, operator))
        bands_fit = operator.name in tiled.graph.operator
        assert not fits or bands_fit or problem.memories[0].alignment_bytes > 1


@settings(max_examples=20, deadline=None)
@given(problems(), st.sampled_from((Split.AUTO, Split.ALWAYS)))
def test_what_is_compulsory_stays_the_same(problem: Problem, when: Split) -> None:
    assert compulsory_bytes(split(problem, when)) == compulsory_bytes(problem)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(problems(), st.sampled_from((Split.AUTO, Split.ALWAYS)))
def test_splitting_twice_changes_nothing_and_is_the_same_each_time(problem: Problem, when: Split) -> None:
    tiled = split(problem, when)
    assert split_operators(tiled, when) is tiled.graph
    assert graph_sha256(split_operators(problem, when)) == graph_sha256(tiled.graph)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(problems())
def test_a_graph_file_keeps_tiles_and_bands(problem: Problem) -> None:
    graph = split(problem).graph
    read = graph_from_json(graph_to_json(graph), "tiles.json")
    assert read == graph
    assert [operator.tile for operator in read.operators] == [operator.tile for operator in graph.operators]


@settings(max_examples=20, deadline=None)
@given(problems())
def test_tiles_write_each_band_once_and_sums_end_once(problem: Problem) -> None:
    graph = split(problem).graph
    regions: dict[str, int] = {}
    for operator in graph.operators:
        tile = operator.tile
        if tile is not None and tile.part.is_complete:
            for name, region in zip(tile.outputs, tile.regions, strict=True):
                regions[name] = regions.get(name, 0) + size_of(region)
        if tile is not None and not tile.part.is_complete:
            (reader,) = graph.readers[operator.outputs[0]]
            following = reader.tile
            assert following is not None
            assert following.regions == tile.regions
    for name, elements in regions.items():
        tensor = problem.graph.tensor[name]
        assert elements * (tensor.bits or 0) // 8 == tensor.size_bytes


def test_an_image_is_split_along_rows_with_halo() -> None:
    network = Network(8)
    convolution(network, network.input(1, 1, 16, 8), 1, (3, 3), pads=(1, 1, 1, 1))
    graph = split_operators(problem_of(network.graph(), 160), Split.AUTO)
    rows = [
        [tensor.region[2] for name in operator.inputs if (tensor := graph.tensor[name]).region]
        for operator in graph.operators
    ]
    assert len(rows) > 1
    for before, after in pairwise(rows):
        assert before[-1][1] - after[0][0] == 2


def test_rows_that_no_window_sees_are_read_all_the_same() -> None:
    network = Network(8)
    pool(network, network.input(1, 1, 8, 8), "MaxPool", 1, 3, 0)
    problem = problem_of(network.graph(), 30)
    tiled = replace(problem, graph=split_operators(problem, Split.AUTO))
    assert len(tiled.graph.operators) > 1
    assert all(tiled.graph.readers[tensor.name] for tensor in tiled.graph.with_role(Role.INPUT))
    assert compulsory_bytes(tiled) == compulsory_bytes(problem)


def test_the_features_of_a_product_are_split_where_one_row_of_weights_is_too_much() -> None:
    network = Network(8)
    gemm(network, network.input(1, 64), 2, is_fused=True)
    graph = split_operators(problem_of(network.graph(), 20), Split.AUTO)
    tiles = [operator.tile for operator in graph.operators]
    assert {tile.part for tile in tiles if tile is not None} == {SumPart.START, SumPart.MIDDLE, SumPart.END}


def test_sums_are_not_split_where_a_models_nodes_run() -> None:
    network = Network(8)
    gemm(network, network.input(1, 64), 2)
    with pytest.raises(UnsplitError, match="operator 'gemm0': no split of it fits: its operands take 194 bytes"):
        split_operators(problem_of(network.graph(), 20), Split.AUTO, is_model=True)


def test_an_operator_that_cannot_be_split_is_named() -> None:
    network = Network(8)
    source = network.input(4, 10)
    network.add("Softmax", [source], (4, 10))
    message = (
        r"operator 'softmax0': no split of it fits: its operands take 80 bytes \(Softmax\), "
        "and it is cut along no axis; expected .* 50 of 's0'"
    )
    with pytest.raises(UnsplitError, match=message):
        split_operators(problem_of(network.graph(), 50), Split.AUTO)


def test_elements_of_less_than_a_byte_are_not_split() -> None:
    network = Network(4)
    network.add("Relu", [network.input(4, 10)], (4, 10))
    with pytest.raises(UnsplitError, match="no split of it fits"):
        split_operators(problem_of(network.graph(), 30), Split.AUTO)


@pytest.mark.parametrize("batches", [(), (2,), (2, 3)])
@pytest.mark.parametrize("own", [True, False])
def test_where_either_of_two_squares_may_stand_on_the_left_batches_alone_are_cut(
    batches: tuple[int, ...], *, own: bool
) -> None:
    network = Network(8)
    weight = network.parameter(*(batches if own else ()), 4, 4)
    network.add("MatMul", [network.input(*batches, 4, 4)], (*batches, 4, 4), [weight])
    problem = problem_of(network.graph(), 48)
    tiles = [operator.tile for operator in split_operators(problem, Split.AUTO).operators]
    assert [tile and tile.regions[0][-2:] for tile in tiles] == [((0, 4), (0, 4)) if batches else None] * prod(batches)
    with pytest.raises(UnsplitError, match="no split of it fits"):
        split_operators(problem_of(network.graph(), 47), Split.AUTO)


@pytest.mark.parametrize("rows", [3, 4])
def test_other_products_are_cut_along_rows_and_columns(rows: int) -> None:
    """Of two inputs, and of matrices of other shapes, the order is known."""
    network = Network(8)
    parameters = [network.parameter(4, 4)] if rows == 3 else []
    network.add("MatMul", [network.input(rows, 4) for _ in range(2 - len(parameters))], (rows, 4), parameters)
    graph = split_operators(problem_of(network.graph(), 20), Split.AUTO)
    assert len(graph.operators) > 1


def test_never_is_the_graph_itself() -> None:
    network = Network(8)
    network.add("Relu", [network.input(4, 10)], (4, 10))
    graph = network.graph()
    assert split_operators(problem_of(graph, 1), Split.NEVER) is graph


def test_always_leaves_room_for_the_next_tile() -> None:
    network = Network(8)
    network.add("Relu", [network.input(4, 10)], (4, 10))
    problem = problem_of(network.graph(), 80)
    assert split_operators(problem, Split.AUTO) is problem.graph
    tiled = replace(problem, graph=split_operators(problem, Split.ALWAYS))
    assert greatest_need(tiled).need_bytes <= 40


def test_what_no_split_brings_below_half_stays_if_it_fits() -> None:
    network = Network(8)
    network.add("Softmax", [network.input(4, 10)], (4, 10))
    problem = problem_of(network.graph(), 80)
    assert split_operators(problem, Split.ALWAYS) is problem.graph


def test_an_operator_that_is_not_split_lists_the_bands_of_its_operands() -> None:
    network = Network(8)
    pool(network, network.input(1, 2, 8, 8), "MaxPool", 2, 2, 0)
    network.add("Softmax", [network.operators[-1].outputs[0]], (1, 2, 4, 4))
    graph = split_operators(problem_of(network.graph(), 100), Split.AUTO)
    softmax = graph.operator["softmax1"]
    assert len(softmax.inputs) > 1
    assert {graph.tensor[name].part_of for name in softmax.inputs} == {"maxpool0.out"}


def test_parameters_that_are_not_planned_stay_whole() -> None:
    network = Network(8)
    gemm(network, network.input(1, 64), 64)
    graph = split_operators(problem_of(network.graph(), 70, count=Count.ACTIVATIONS), Split.AUTO)
    assert len(graph.operators) > 1
    assert [tensor.part_of for tensor in graph.with_role(Role.PARAMETER)] == [None]


def test_larger_tensors_are_capped_at_the_scratchpad() -> None:
    network = Network(8)
    gemm(network, network.input(1, 64), 2)
    capped = cap_tensors(network.graph(), 64)
    assert [(tensor.size_bytes, tensor.shape) for tensor in capped.tensors] == [(64, (1, 64)), (64, None), (2, (1, 2))]


@pytest.mark.parametrize("granularity", Granularity)
@pytest.mark.parametrize("name", with_slow(SMAUG, {"large_elu", "resnet50_smaug"}.__contains__))
def test_the_thesis_networks_fit_three_scratchpads_of_32_kib(name: str, granularity: Granularity) -> None:
    problem = problem_of(read_network(name, Reading(granularity=granularity)), *[32768] * 3)
    tiled = replace(problem, graph=split_operators(problem, Split.AUTO))
    room = SplitRoom.of(problem.memories)
    assert all(room.holds(items_of(tiled, operator)) for operator in tiled.graph.operators)
    assert max(tensor.size_bytes for tensor in tiled.graph.tensors) <= 32768
    assert compulsory_bytes(tiled) == compulsory_bytes(problem)
