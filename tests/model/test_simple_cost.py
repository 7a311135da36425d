"""The simple rule for compute cycles, compared with published figures and by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from math import ceil, prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Count, Problem
from onchip.api.networks import read_network
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory
from onchip.errors import AcceleratorError, GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.mac_count import MacCount, SimpleCost
from onchip.ops.layers_of import layers_of_operator
from support.tiled import Network, convolution, networks, problem_of, split_to_share, tiled_to_fit

ARRAY = ComputeArray({"K": 32, "C": 2, "OX": 4, "OY": 4})


def accelerator(array: ComputeArray | None) -> Accelerator:
    return Accelerator("chip", (Memory("sram", 1024),), array=array)


def one_operator(
    kind: str, reads: list[list[int]], written: list[int], weight: list[int] | None = None, **attributes: AttributeValue
) -> Graph:
    inputs = [Tensor.of_shape(f"x{i}", tuple(shape), 8, Role.INPUT) for i, shape in enumerate(reads)]
    weights = [Tensor.of_shape("w", tuple(weight), 8, Role.PARAMETER)] if weight else []
    output = Tensor.of_shape("y", tuple(written), 8, Role.OUTPUT)
    read, stored = (tuple(tensor.name for tensor in tensors) for tensors in (inputs, weights))
    return Graph("one", (*inputs, *weights, output), (Operator("op", kind, read, ("y",), stored, attributes),))


def macs_and_cycles(graph: Graph, array: ComputeArray = ARRAY) -> tuple[int, int]:
    (operator,) = graph.operators
    return MacCount(graph).macs(operator), SimpleCost(graph, accelerator(array)).cycles(operator)


def test_a_convolution_of_a_reshaped_input_counts_as_its_loop_nest() -> None:
    """The first convolution of micro_speech reads a row of 1960 elements as 49 x 40 pixels."""
    graph = read_network(str(Path(__file__).parents[1] / "data/tflite/micro_speech_quantized.tflite"))
    first = next(one for one in graph.operators if one.kind == "Conv")
    nests = layers_of_operator(graph, first).values()
    assert MacCount(graph).macs(first) == sum(nest.macs for nest in nests) == 25 * 20 * 8 * 10 * 8


@pytest.mark.parametrize(
    ("network", "published"),
    [("resnet50", 4.09), ("densenet121", 2.83), ("resnext50_32x4d", 4.23), ("s3d", 17.98), ("vit_b_16", 17.56)],
)
def test_multiply_accumulates_are_those_torchvision_publishes(network: str, published: float) -> None:
    """Counts are in 10^9 (https://docs.pytorch.org/vision/stable/models.html calls them GFLOPS), to two digits."""
    graph = read_network(network)
    assert round(sum(map(MacCount(graph).macs, graph.operators)) / 1e9, 2) == published


def test_a_convolution_loses_what_does_not_fill_the_array() -> None:
    graph = one_operator("Conv", [[1, 3, 14, 14]], [1, 40, 6, 6], [40, 3, 3, 3], kernel_shape=[3, 3])
    # K: 40 over 32 is 2 turns, C: 3 over 2 is 2, 6 over 4 is 2 in height and width, 9 window positions.
    assert macs_and_cycles(graph) == (40 * 3 * 36 * 9, 2 * 2 * 2 * 2 * 9)


def test_free_units_lose_only_the_last_turn() -> None:
    graph = one_operator("Conv", [[1, 3, 14, 14]], [1, 40, 6, 6], [40, 3, 3, 3])
    assert macs_and_cycles(graph, ComputeArray(free=1000)) == (38_880, 39)


def test_groups_are_done_one_after_the_other() -> None:
    depthwise = one_operator("Conv", [[1, 32, 8, 8]], [1, 32, 8, 8], [32, 1, 1, 1], group=32)
    assert macs_and_cycles(depthwise) == (32 * 64, 32 * 2 * 2)


def test_a_third_dimension_of_space_counts_with_the_height() -> None:
    graph = one_operator("Conv", [[1, 2, 5, 4, 4]], [1, 32, 5, 4, 4], [32, 2, 1, 1, 1], kernel_shape=[1, 1, 1])
    assert macs_and_cycles(graph) == (32 * 2 * 80, 5)


def test_a_transposed_convolution_multiplies_each_pixel_it_reads() -> None:
    graph = one_operator("ConvTranspose", [[1, 2, 4, 4]], [1, 32, 8, 8], [2, 32, 2, 2], kernel_shape=[2, 2])
    assert macs_and_cycles(graph) == (2 * 16 * 32 * 4, 4)


def test_a_product_reads_the_elements_of_a_row_whatever_view_it_reads() -> None:
    assert macs_and_cycles(one_operator("Gemm", [[10, 6]], [10, 64], [64, 6]))[0] == 10 * 6 * 64
    assert macs_and_cycles(one_operator("Gemm", [[1, 2, 10, 3]], [10, 64], [64, 6]))[0] == 10 * 6 * 64
    assert macs_and_cycles(one_operator("MatMul", [[10, 6], [5, 6, 64]], [5, 10, 64]))[0] == 5 * 10 * 6 * 64


def test_attention_multiplies_each_query_with_each_key_twice() -> None:
    graph = one_operator("Attention", [[1, 8, 10, 64], [1, 8, 7, 64], [1, 8, 7, 64]], [1, 8, 10, 64])
    assert macs_and_cycles(graph)[0] == 2 * 8 * 10 * 7 * 64


def test_other_kinds_take_a_unit_for_an_element() -> None:
    assert macs_and_cycles(one_operator("Add", [[1, 1025], [1, 1025]], [1, 1025])) == (0, 2)
    assert macs_and_cycles(one_operator("MaxPool", [[1, 64, 8, 8]], [1, 64, 4, 4], kernel_shape=[2, 2])) == (0, 4)
    assert macs_and_cycles(one_operator("GlobalAveragePool", [[1, 64, 8, 8]], [1, 64, 1, 1])) == (0, 4)


def test_without_shapes_bytes_are_elements() -> None:
    tensors = (Tensor("x", 4000, Role.INPUT), Tensor("y", 3000, Role.OUTPUT))
    assert macs_and_cycles(Graph("g", tensors, (Operator("op", "Conv", ("x",), ("y",)),))) == (0, 3)


def test_an_accelerator_without_array_is_refused() -> None:
    with pytest.raises(AcceleratorError, match="has no array"):
        SimpleCost(one_operator("Add", [[1]], [1]), accelerator(None))


@given(
    st.lists(st.integers(1, 7), min_size=4, max_size=4),
    st.dictionaries(st.sampled_from(["lane", "row", "K", "OX"]), st.integers(1, 5), min_size=1),
    st.dictionaries(st.just("lane"), st.lists(st.sampled_from("KCQS"), min_size=1, max_size=3, unique=True)),
)
def test_a_dimension_of_another_name_unrolls_the_loop_that_saves_most(
    sizes: list[int], dimensions: dict[str, int], listed: dict[str, list[str]]
) -> None:
    k, c, q, s = sizes
    graph = one_operator("Conv", [[1, c, 1, q + s - 1]], [1, k, 1, q], [k, c, 1, s], kernel_shape=[1, s])
    unrolls = {name: tuple(loops) for name, loops in listed.items() if name in dimensions}
    _, found = macs_and_cycles(graph, ComputeArray(dimensions, unrolls=unrolls))
    own = {"K": "K", "OX": "Q"}
    least = min(
        prod(
            ceil(size / prod(units for to, units in zip(chosen, dimensions.values(), strict=True) if to == loop))
            for loop, size in zip("KCQS", sizes, strict=True)
        )
        for chosen in product(*(own.get(name, unrolls.get(name, "NKCPQRSG")) for name in dimensions))
    )
    assert found == least


def per_operator(graph: Graph, what: Callable[[Operator], int]) -> dict[str, int]:
    """Return the sum of `what` per operator, with tiles added to their operator."""
    sums = Counter[str]()
    for operator in graph.operators:
        tile = operator.tile
        sums[operator.name if tile is None else tile.operator] += what(operator)
    return dict(sums)


def in_tiles(problem: Problem) -> Graph:
    """Return the graph with some operators in tiles."""
    graph = tiled_to_fit(problem)
    assert graph != problem.graph
    return graph


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("share", [0.6, 0.3])
def test_tiles_of_a_transposed_convolution_add_up_to_it(share: float, groups: int) -> None:
    attributes: dict[str, AttributeValue] = {
        "kernel_shape": [3, 3],
        "strides": [2, 2],
        "pads": [1, 1, 1, 1],
        "group": groups,
    }
    whole = one_operator("ConvTranspose", [[1, 8, 5, 7]], [1, 8, 9, 13], [8, 8 // groups, 3, 3], **attributes)
    tiles = split_to_share(whole, share, is_model=False)
    assert sum(map(MacCount(tiles).macs, tiles.operators)) == MacCount(whole).macs(whole.operator["op"])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(1, 12), st.sampled_from(Count))
def test_an_operator_s_tiles_multiply_and_visit_what_it_does(graph: Graph, twelfths: int, count: Count) -> None:
    most = max(sum(graph.tensor[name].size_bytes for name in (*one.reads, *one.outputs)) for one in graph.operators)
    try:
        tiles = tiled_to_fit(problem_of(graph, max(1, most * twelfths // 12), count=count))
    except GraphError:
        return
    assert per_operator(tiles, MacCount(tiles).macs) == per_operator(graph, MacCount(graph).macs)
    # One unit rounds nothing up: cycles of operators without MACs add up, too.
    whole, cut = (SimpleCost(one, accelerator(ComputeArray(free=1))) for one in (graph, tiles))
    assert per_operator(tiles, cut.cycles) == per_operator(graph, whole.cycles)


@pytest.mark.parametrize(
    ("network", "capacity_bytes"), [("lenet5", 40_000), ("minerva", 20_000), ("resnet50", 500_000)]
)
def test_tiles_of_bundled_networks_multiply_what_the_networks_do(network: str, capacity_bytes: int) -> None:
    graph = read_network(network)
    tiles = in_tiles(problem_of(graph, capacity_bytes))

    sums = per_operator(tiles, MacCount(tiles).macs)

    assert sums == per_operator(graph, MacCount(graph).macs)


def test_a_tile_of_some_groups_has_these_groups() -> None:
    network = Network(bits=8)
    convolution(network, network.input(1, 4, 6, 6), 8, (1, 1), groups=4)
    tiles = in_tiles(problem_of(network.graph(), 120))
    count = MacCount(tiles)

    loops = [count.loops(operator) or {} for operator in tiles.operators]

    assert all(each["C"] == 1 and each["K"] * each["G"] <= 8 for each in loops)
    assert sum(map(count.macs, tiles.operators)) == 8 * 36
