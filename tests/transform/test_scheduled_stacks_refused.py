"""Stacks that no schedule of the network may have, each refused in one line with its place."""

from __future__ import annotations

import pytest

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision
from onchip.transform.groups import tiled as transform
from onchip.transform.groups.tiled import tile_graph
from support.small_schedules import tiled, whole
from support.tiled import Attributes, Network, conv, crop, leaving, residual, unpadded

EIGHT = Precision(8)


def branching() -> Graph:
    """Return conv0 -> relu1 -> add3 <- conv2 <- conv0."""
    network = Network(8)
    first = conv(network, network.input(1, 2, 6, 6), 2, 3)
    network.add("Add", [network.add("Relu", [first], (1, 2, 6, 6)), conv(network, first, 2, 3)], (1, 2, 6, 6))
    return network.graph()


@pytest.mark.parametrize(
    ("stacks", "message"),
    [
        (
            whole("conv0", "relu1", "conv2"),
            "small: stacks: operator 'add3' is in no stack; expected each operator in one",
        ),
        (
            [*whole("conv0", "relu1", "conv2", "add3"), tiled("conv2")],
            "small: stacks: operator 'conv2' is in 2 stacks; expected each operator in one",
        ),
        (whole("conv0", "other"), "small: stack 1 ('other'): operator 'other' is unknown; expected operators of the"),
        (
            whole("conv0", "add3", "relu1", "conv2"),
            "small: stack 1 ('add3'): 'add3' runs before 'relu1', which it reads; expected stacks, and operators in",
        ),
        (
            [tiled("relu1 conv0 conv2 add3")],
            "small: stack 0 ('relu1' to 'add3'): 'relu1' runs before 'conv0', which it reads",
        ),
        (
            [tiled("conv0 relu1"), *whole("conv2", "add3")],
            "stack 0 ('conv0' to 'relu1'): 'conv0.out', which 'conv0' writes, is read outside by 'conv2'; expected onl",
        ),
        (
            [tiled("conv0 relu1 add3"), *whole("conv2")],  # not convex: conv0, conv2, add3
            "stack 0 ('conv0' to 'add3'): 'conv0.out', which 'conv0' writes, is read outside by 'conv2'",
        ),
        (
            [tiled("conv0 relu1 conv2 add3", "7x2")],
            "it cannot run in tiles: feature map 'add3.out': 7x2 is no tile of it; expected at most 6x6",
        ),
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
            "it cannot run in tiles: Softmax 'softmax0': its kind is no loop nest of multiply-accumulates",
        ),
        ("Flatten", {}, "it cannot run in tiles: no operator is a layer; expected at least one beside views"),
        (
            "LpPool",
            {"kernel_shape": [1, 1]},
            "it cannot run in tiles: operator 'lppool0': it cannot run in parts (LpPool); expected convolutions",
        ),
    ],
)
def test_an_operator_that_cannot_run_in_tiles_is_named(kind: str, attributes: Attributes, message: str) -> None:
    network = Network(8)
    network.add(kind, [network.input(1, 1, 4, 4)], (1, 16) if kind == "Flatten" else (1, 1, 4, 4), (), attributes)
    with pytest.raises(ScheduleError) as raised:
        tile_graph(network.graph(), [tiled(f"{kind.lower()}0")], EIGHT)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"small: stack 0 ('{kind.lower()}0'): ")


def test_a_view_that_leaves_a_stack_in_tiles_is_refused() -> None:
    network = Network(8)
    crop(network, conv(network, network.input(1, 1, 9, 9), 2, 3), 1, 1)
    with pytest.raises(ScheduleError, match="operator 'slice1': a view leaves the stack; expected a stack of its own"):
        tile_graph(network.graph(), [tiled("conv0 slice1")], EIGHT)


def test_more_tile_operators_than_the_space_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = residual(8)
    stacks = [tiled(tuple(graph.operator), "2x2")]
    count = len(tile_graph(graph, stacks, EIGHT).operators)
    monkeypatch.setattr(transform, "MOST_TILE_OPERATORS", count)
    assert len(tile_graph(graph, stacks, EIGHT).operators) == count
    monkeypatch.setattr(transform, "MOST_TILE_OPERATORS", count - 1)
    with pytest.raises(
        ScheduleError, match=f"small: stacks: it has {count} tile operators; expected at most {count - 1}"
    ):
        tile_graph(graph, stacks, EIGHT)


def test_views_in_tiles_count_among_tile_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = unpadded(9)
    stacks = [tiled(tuple(graph.operator), "2x2")]
    count = len(tile_graph(graph, stacks, EIGHT).operators)
    monkeypatch.setattr(transform, "MOST_TILE_OPERATORS", count - 1)
    with pytest.raises(ScheduleError, match=f"it has {count} tile operators"):
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
    with pytest.raises(ScheduleError, match=r"it has 1,000,000 tile operators; expected at most 50,000: larger tiles"):
        tile_graph(network.graph(), [tiled("conv0")], EIGHT)
