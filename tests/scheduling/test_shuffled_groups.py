"""Groups of images with shuffles of channels, and groups that end in a concatenation."""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.check_schedule import check_schedule_document
from onchip.api.kernels import RunValues
from onchip.api.run_schedule import execution_of
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision
from onchip.transform.groups.tile_graph import with_all_parameters
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.rewrite.channel_orders import as_images
from support.random_schedules import assert_bound_holds, assert_values_are_equal, shuffled_case, tiles_that_agree
from support.series import series
from support.small_schedules import chip
from transform.test_tile_graph_verified import assert_both_agree


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
    found = schedule_network(ScheduleRequest(str(source), chip(), options=options, uses_cache=False, bits=8)).document
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
