"""Groups of matrices, and of images with shuffled channels: tiles, values and bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.check_schedule import check_schedule_document
from onchip.api.run import RunValues, execution_of
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision, multiplies_rows
from onchip.transform.groups.tile_graph import with_all_parameters
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.rewrite.channel_orders import as_images
from onchip.verify.schedule.nests import multiplies_rows as verifier_finds_rows
from support.random_schedules import (
    Case,
    assert_bound_holds,
    assert_values_are_equal,
    factors_case,
    grouped_case,
    heads_case,
    matrix_case,
    parts_case,
    shuffled_case,
    tiles_that_agree,
)
from support.series import series
from support.small_schedules import chip
from transform.test_tile_graph import assert_both_agree


def product(
    kind: str, source: tuple[int, ...], weight: tuple[int, ...], written: tuple[int, ...], **stated: str
) -> Graph:
    """Return a network of one product of an input with a parameter."""
    shapes = {"x": (source, Role.INPUT), "w": (weight, Role.PARAMETER), "y": (written, Role.OUTPUT)}
    tensors = tuple(Tensor.of_shape(name, shape, 8, role) for name, (shape, role) in shapes.items())
    return Graph("one", tensors, (Operator("f", kind, ("x",), ("y",), ("w",), dict(stated)),))


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (product("MatMul", (4, 3), (3, 5), (4, 5)), True),
        (product("MatMul", (2, 4, 3), (3, 5), (2, 4, 5)), True),
        (product("MatMul", (3, 5), (4, 3), (4, 5)), False),
        (product("MatMul", (3,), (3, 5), (5,)), False),
        (product("MatMul", (3, 3), (3, 3), (3, 3)), False),
        (product("MatMul", (3, 3), (3, 3), (3, 3), weight_factor="right"), True),
        (product("FULLY_CONNECTED", (3, 3), (3, 3), (3, 3)), True),
        (product("Gemm", (4, 3), (5, 3), (4, 5), transB="1"), True),
    ],
)
def test_a_product_is_cut_by_rows_only_if_its_input_is_the_left_factor(graph: Graph, expected: bool) -> None:
    (operator,) = graph.operators
    shapes = {tensor.name: tensor.shape or () for tensor in graph.tensors}
    assert multiplies_rows(graph, operator) is expected
    assert verifier_finds_rows(operator, shapes) is expected


@pytest.mark.parametrize("seed", series(range(400), 24))
def test_tiles_of_matrices_are_what_the_verifier_derives(seed: int) -> None:
    for _ in tiles_that_agree(matrix_case(seed).network, seed, 4):
        pass


@pytest.mark.parametrize("seed", series(range(400), 24))
def test_tiles_of_heads_are_what_the_verifier_derives(seed: int) -> None:
    network = heads_case(seed).network
    for tiles in tiles_that_agree(network, seed, 12):
        assert_values_are_equal(network, with_all_parameters(tiles, network))


@pytest.mark.parametrize("seed", series(range(400), 24))
def test_tiles_of_parts_of_rows_are_what_the_verifier_derives(seed: int) -> None:
    network = parts_case(seed).network
    for tiles in tiles_that_agree(network, seed, 12):
        assert_values_are_equal(network, with_all_parameters(tiles, network))


@pytest.mark.parametrize("seed", series(range(400), 24))
def test_tiles_of_repeated_heads_are_what_the_verifier_derives(seed: int) -> None:
    network = grouped_case(seed).network
    for tiles in tiles_that_agree(network, seed, 12):
        assert_values_are_equal(network, with_all_parameters(tiles, network))


OF_MATRICES = [
    matrix_case,
    partial(heads_case, is_tiny=True),
    parts_case,
    factors_case,
    partial(grouped_case, is_tiny=True),
]


@pytest.mark.parametrize("objective", ["traffic", "energy"])
@pytest.mark.parametrize("seed", series(range(120), 4))
@pytest.mark.parametrize("made", OF_MATRICES, ids=["matrices", "heads", "parts", "factors", "repeated"])
def test_no_schedule_of_matrices_is_below_the_bound(made: Callable[[int], Case], seed: int, objective: str) -> None:
    assert_bound_holds(made(seed), objective)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_group_of_matrices_in_tiles_gives_the_values_of_the_network(rows: int, tmp_path: Path) -> None:
    shapes = {"x": (2, 5, 4), "a": (2, 5, 6), "b": (2, 5, 6), "c": (2, 5, 3), "v": (4, 6), "w": (6, 3)}
    roles = {"x": "input", "c": "output", "v": "parameter", "w": "parameter"}
    steps: list[tuple[str, str, str, list[str]]] = [
        ("a", "MatMul", "x", ["v"]),
        ("b", "Relu", "a", []),
        ("c", "MatMul", "b", ["w"]),
    ]
    network = {
        "format": "onchip-graph", "version": 1, "name": "rows",
        "tensors": [
            {"name": name, "shape": shape, "bits": 8, "role": roles.get(name, "activation")}
            for name, shape in shapes.items()
        ],
        "operators": [
            {"name": name, "kind": kind, "inputs": [source], "outputs": [name], "parameters": [*parameters]}
            for name, kind, source, parameters in steps
        ],
    }  # fmt: skip
    (tmp_path / "rows.json").write_text(json.dumps(network))
    source = str(tmp_path / "rows.json")
    options = ScheduleOptions("one", (1, rows), OverlapMode.RECOMPUTE)
    found = schedule_network(
        ScheduleRequest(source, chip(), options=replace(options, uses_cache=False), reading=Reading(bits=8))
    ).document
    assert found is not None
    (stack,) = found.answer.stacks
    assert stack.tiling == Tiling(1, rows, OverlapMode.RECOMPUTE)
    run = execution_of(check_schedule_document(found, source), source, RunValues(7))
    assert run.is_right
    assert run.relative_difference == 0


def test_a_softmax_in_tiles_of_heads_reads_no_concatenation_that_is_not_made() -> None:
    shapes = {"x": (1, 4, 3, 3), "a": (1, 2, 3, 3), "b": (1, 2, 3, 3), "c": (1, 4, 3, 3), "y": (1, 4, 3, 3)}
    roles = {"x": Role.INPUT, "y": Role.OUTPUT, "v": Role.PARAMETER, "w": Role.PARAMETER}
    sizes = {**shapes, "v": (2, 4, 1, 1), "w": (2, 4, 1, 1)}
    tensors = [Tensor.of_shape(name, size, 8, roles.get(name, Role.ACTIVATION)) for name, size in sizes.items()]
    operators = (
        Operator("a", "Conv", ("x",), ("a",), ("v",), {"kernel_shape": [1, 1]}),
        Operator("b", "Conv", ("x",), ("b",), ("w",), {"kernel_shape": [1, 1]}),
        Operator("c", "Concat", ("a", "b"), ("c",), attributes={"axis": 1}),
        Operator("y", "Softmax", ("c",), ("y",), attributes={"axis": -1}),
    )
    network = Graph("joined", tuple(tensors), operators)
    stacks = [ScheduledStack((one.name,)) for one in operators[:3]]
    tiled = ScheduledStack(("y",), Tiling(2, 3, OverlapMode.RECOMPUTE))
    with pytest.raises(ScheduleError, match="matrices with heads are no maps joined along channels"):
        tile_graph(network, (*stacks, tiled), Precision(8), {"c"})
    assert len(tile_graph(network, (*stacks, tiled), Precision(8)).graph.operators) == 5
    cut = ScheduledStack(("a",), Tiling(3, 2, OverlapMode.RECOMPUTE))
    rows = ScheduledStack(("y",), Tiling(4, 2, OverlapMode.RECOMPUTE))
    with pytest.raises(ScheduleError, match="no maps joined"):
        tile_graph(network, (cut, *stacks[1:], rows), Precision(8), {"c"})


@pytest.mark.parametrize("seed", series(range(400), 24))
def test_tiles_of_shuffles_and_concatenations_are_what_the_verifier_derives(seed: int) -> None:
    network = shuffled_case(seed).network
    for tiles in tiles_that_agree(network, seed, 4):
        assert_values_are_equal(network, with_all_parameters(tiles, network))


@pytest.mark.parametrize("objective", ["traffic", "energy"])
@pytest.mark.parametrize("seed", series(range(200), 6))
def test_no_schedule_with_shuffles_is_below_the_bound(seed: int, objective: str) -> None:
    assert_bound_holds(shuffled_case(seed), objective)


@pytest.mark.parametrize("seed", series(range(60), 8))
def test_groups_with_shuffles_give_the_values_of_the_network(seed: int, tmp_path: Path) -> None:
    case = shuffled_case(seed)
    source = tmp_path / "shuffled.json"
    source.write_text(case.network_text)
    options = ScheduleOptions("one", (1, 1), OverlapMode.FULLY_CACHED)
    found = schedule_network(
        ScheduleRequest(str(source), chip(), options=replace(options, uses_cache=False), reading=Reading(bits=8))
    ).document
    assert found is not None
    run = execution_of(check_schedule_document(found, str(source)), str(source), RunValues(7))
    assert run.is_right
    assert run.relative_difference == 0


def shuffling(read: tuple[int, ...], perm: list[int]) -> Graph:
    """Return a convolution, a Transpose that reads its output as `read`, and a convolution that reads an image."""
    image = (1, 6, 4, 5)
    written = tuple(read[at] for at in perm)
    shapes: dict[str, tuple[int, ...]] = {"x": image, "a": image, "y": image, "t": written, "v": (6, 6, 1, 1)}
    roles = {"x": Role.INPUT, "y": Role.OUTPUT, "v": Role.PARAMETER}
    tensors = tuple(Tensor.of_shape(name, one, 8, roles.get(name, Role.ACTIVATION)) for name, one in shapes.items())
    convolution: dict[str, AttributeValue] = {"kernel_shape": [1, 1]}
    operators = (
        Operator("a", "Conv", ("x",), ("a",), ("v",), convolution),
        Operator("t", "Transpose", ("a",), ("t",), attributes={"perm": [*perm], "seen_shapes": [[*read]]}),
        Operator("y", "Conv", ("t",), ("y",), ("v",), {**convolution, "seen_shapes": [[*image]]}),
    )
    return Graph("shuffling", tensors, operators)


def test_a_shuffle_of_channels_writes_the_image_that_its_reader_sees() -> None:
    found = as_images(shuffling((1, 2, 3, 4, 5), [0, 2, 1, 3, 4]))
    assert found.tensor["t"].shape == (1, 6, 4, 5)
    assert "seen_shapes" not in found.operator["y"].attributes
    stacks = [ScheduledStack(("a", "t", "y"), Tiling(5, 2, OverlapMode.FULLY_CACHED))]
    assert_both_agree(found, stacks, tile_graph(found, stacks, Precision(8)), 24)


@pytest.mark.parametrize(
    ("read", "perm"),
    [((1, 2, 3, 4, 5), [0, 1, 3, 2, 4]), ((1, 6, 2, 2, 5), [0, 2, 1, 3, 4]), ((1, 3, 4, 2, 5), [0, 3, 1, 2, 4])],
)
def test_a_transpose_that_moves_pixels_stays_as_it_is(read: tuple[int, ...], perm: list[int]) -> None:
    network = shuffling(read, perm)
    assert as_images(network) == network
