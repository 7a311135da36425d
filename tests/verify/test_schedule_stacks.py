"""The part of a stack's output that each tile computes, and the limits of tile sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Region
from onchip.verify.rules import Rule
from onchip.verify.schedule.tiles import pixel_of, tile_regions, verify_stacks
from support.schedule_cases import FORK, tensor

RELU = Operator("f", "Relu", ("x",), ("y",))
UP = replace(RELU, kind="ConvTranspose", parameters=("w",), attributes={"strides": [2, 3], "kernel_shape": [2, 3]})


def regions(operator: Operator, shape: tuple[int, ...], stack: ScheduledStack) -> list[Region]:
    """Return the regions of the tiles of one operator, whose input has the shape of its output."""
    return tile_regions(network(operator, shape, shape), stack)


def stack(columns: int, rows: int) -> ScheduledStack:
    return ScheduledStack(("f",), Tiling(columns, rows, OverlapMode.RECOMPUTE))


def pixels(rows: tuple[int, int], columns: tuple[int, int]) -> Region:
    return ((0, 1), (0, 8), rows, columns)


def test_tiles_go_from_left_to_right_then_down_and_the_first_is_smaller() -> None:
    assert regions(RELU, (1, 8, 5, 7), stack(3, 2)) == [
        pixels(rows, columns) for rows in ((0, 1), (1, 3), (3, 5)) for columns in ((0, 1), (1, 4), (4, 7))
    ]


def test_tiles_that_fill_the_map_are_alike() -> None:
    assert regions(RELU, (1, 8, 4, 6), stack(6, 2)) == [pixels((0, 2), (0, 6)), pixels((2, 4), (0, 6))]


def test_a_pixel_of_a_transposed_convolution_is_a_square_of_outputs() -> None:
    assert regions(UP, (1, 8, 6, 8), stack(2, 2)) == [
        pixels(rows, columns) for rows in ((0, 2), (2, 6)) for columns in ((0, 3), (3, 8))
    ]


@pytest.mark.parametrize("shape", [(1, 4), (8,), (1, 8, 2, 2, 2)])
def test_what_has_no_rows_and_columns_is_one_tile(shape: tuple[int, ...]) -> None:
    assert regions(RELU, shape, stack(1, 1)) == [tuple((0, size) for size in shape)]


@pytest.mark.parametrize("batch", [(), (1,), (3,)])
def test_matrices_are_tiled_by_rows(batch: tuple[int, ...]) -> None:
    whole = tuple((0, size) for size in batch)
    expected = [(*whole, rows, (0, 4)) for rows in ((0, 2), (2, 5))]
    assert regions(RELU, (*batch, 5, 4), stack(1, 3)) == expected


def test_without_a_tiling_there_is_one_tile() -> None:
    assert regions(RELU, (1, 8, 5, 7), ScheduledStack(("f",))) == [pixels((0, 5), (0, 7))]


def network(operator: Operator, source: tuple[int, ...], output: tuple[int, ...]) -> Graph:
    weights = [tensor("w", (8, 8, 2, 3), Role.PARAMETER)] if operator.parameters else []
    return Graph("one", (tensor("x", source, Role.INPUT), *weights, tensor("y", output, Role.OUTPUT)), (operator,))


@pytest.mark.parametrize(
    ("made", "largest"),
    [
        (network(RELU, (1, 8, 5, 7), (1, 8, 5, 7)), (7, 5)),
        (network(UP, (1, 8, 3, 3), (1, 8, 6, 8)), (3, 3)),
        (network(RELU, (8, 4), (8, 4)), (1, 8)),
        (network(RELU, (1, 8, 9), (1, 8, 9)), (1, 8)),
    ],
)
def test_a_tile_may_be_as_large_as_the_map(made: Graph, largest: tuple[int, int]) -> None:
    columns, rows = largest
    assert verify_stacks(made, [stack(columns, rows)]) == ()
    for larger in (stack(columns + 1, rows), stack(columns, rows + 1)):
        (violation,) = verify_stacks(made, [larger])
        assert violation.rule is Rule.TILE_EXCEEDS_MAP
        assert f"in a map of {columns} x {rows}" in violation.detail


def test_what_is_read_outside_names_the_stack_by_its_last_operator() -> None:
    names = ("f", "g", "h")
    stacks = [ScheduledStack(names, Tiling(1, 1, OverlapMode.RECOMPUTE)), ScheduledStack(("add",))]
    (violation,) = verify_stacks(FORK, stacks)
    assert (violation.rule, violation.subject) == (Rule.OVER_A_BRANCH, "f")
    assert violation.detail == "'add' reads 'a' outside the stack that ends with 'h'"


def test_a_transposed_convolution_that_says_no_stride_has_pixels_of_one_output() -> None:
    made = network(Operator("f", "ConvTranspose", ("x",), ("y",), ("w",)), (1, 8, 4, 4), (1, 8, 6, 6))
    assert pixel_of(made.operator["f"]) == (1, 1)
    assert verify_stacks(made, [stack(6, 6)]) == ()
    assert [one.rule for one in verify_stacks(made, [stack(7, 6)])] == [Rule.TILE_EXCEEDS_MAP]
    assert [one.rule for one in verify_stacks(made, [stack(6, 7)])] == [Rule.TILE_EXCEEDS_MAP]


def test_what_has_no_shape_is_one_tile() -> None:
    tensors = (Tensor("x", 8, Role.INPUT), Tensor("y", 8, Role.OUTPUT))
    made = Graph("in bytes", tensors, (Operator("f", "Odd", ("x",), ("y",)),))
    assert verify_stacks(made, [stack(1, 1)]) == ()
    (violation,) = verify_stacks(made, [stack(2, 1)])
    assert violation.detail == "tiles of 2 x 1 in a map of 1 x 1"


def test_what_nobody_reads_leaves_no_stack_from_inside() -> None:
    tensors = (tensor("x", (4,), Role.INPUT), *(tensor(name, (4,)) for name in "ab"), tensor("y", (4,), Role.OUTPUT))
    operators = (Operator("f", "Split", ("x",), ("a", "b")), Operator("g", "Relu", ("a",), ("y",)))
    made = Graph("unread", tensors, operators)
    assert verify_stacks(made, [ScheduledStack(("f",)), ScheduledStack(("g",))]) == ()
    together = ScheduledStack(("f", "g"), Tiling(1, 1, OverlapMode.RECOMPUTE))
    (violation,) = verify_stacks(made, [together])
    assert (violation.rule, violation.subject) == (Rule.OUTPUT_LOST, "f")
    assert violation.detail == "'b' leaves the network"
