"""A quantisation by the scale of the preceding dequantisation is dropped, and no other one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onchip.ir.graph import Graph
from onchip.ir.operator import SEEN_SHAPES, AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.transform.rewrite.quantisation import QuantisationFold, SameScaleFold

fold = SameScaleFold()
MAP, FLAT = (1, 4, 1, 1), (1, 4)
Change = Callable[[Graph], Graph]


def again(shape: tuple[int, ...] = MAP, scales: tuple[int, ...] = ()) -> Graph:
    """Return a network whose map is dequantised, reshaped, quantised by the same scale, and read."""
    tensors = (
        Tensor.of_shape("x", MAP, 8, Role.INPUT),
        Tensor.of_shape("q", MAP, 8, Role.ACTIVATION),
        Tensor.of_shape("f", MAP, 32, Role.ACTIVATION),
        Tensor.of_shape("again", shape, 8, Role.ACTIVATION),
        Tensor.of_shape("y", shape, 8, Role.OUTPUT),
        Tensor.of_shape("s", scales, 32, Role.PARAMETER),
        Tensor.of_shape("t", scales, 32, Role.PARAMETER),
    )
    seen: dict[str, AttributeValue] = {} if shape == MAP else {SEEN_SHAPES: [list(shape)]}
    operators = (
        Operator("first", "MaxPool", ("x",), ("q",)),
        Operator("d", "DequantizeLinear", ("q",), ("f",), ("s",)),
        Operator("a", "QuantizeLinear", ("f",), ("again",), ("s",), seen),
        Operator("last", "MaxPool", ("again",), ("y",)),
    )
    return Graph("network", tensors, operators)


def changed(graph: Graph, name: str, **fields: object) -> Graph:
    operators = tuple(replace(one, **fields) if one.name == name else one for one in graph.operators)  # type: ignore[arg-type]
    return replace(graph, operators=operators)


def with_tensor(graph: Graph, name: str, **fields: object) -> Graph:
    tensors = tuple(replace(one, **fields) if one.name == name else one for one in graph.tensors)  # type: ignore[arg-type]
    return replace(graph, tensors=tensors)


def names(graph: Graph) -> list[str]:
    return [operator.name for operator in graph.operators]


def test_its_readers_read_the_integers_that_there_were() -> None:
    folded = fold(again())
    assert folded.operator["last"].inputs == ("q",)
    assert "again" not in folded.tensor
    assert names(QuantisationFold()(again())) == ["first", "last"]


def test_through_a_view_readers_list_the_shape_that_they_see() -> None:
    folded = fold(again(FLAT))
    assert folded.operator["last"].inputs == ("q",)
    assert folded.operator["last"].attributes == {SEEN_SHAPES: [list(FLAT)]}


def test_several_scales_are_the_same_where_no_view_stands_between() -> None:
    assert "a" not in names(fold(again(MAP, (4,))))
    assert "a" in names(fold(again(FLAT, (4,))))


def test_stated_as_a_number_the_scale_is_one_too() -> None:
    stated = {"scale": 0.5, "zero_point": 3}
    graph = changed(changed(again(), "d", parameters=(), attributes=stated), "a", parameters=(), attributes=stated)
    assert "a" not in names(fold(graph))
    assert "a" in names(fold(changed(graph, "a", attributes={"scale": 0.5, "zero_point": 4})))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda one: changed(one, "a", parameters=("t",)), id="another scale"),
        pytest.param(lambda one: changed(one, "d", members=("d", "relu")), id="an activation after the first"),
        pytest.param(lambda one: changed(one, "a", members=("a", "relu")), id="an activation after the second"),
        pytest.param(lambda one: changed(one, "d", attributes={"axis": 0}), id="another axis"),
        pytest.param(
            lambda one: changed(changed(one, "a", parameters=()), "d", parameters=()), id="scales that nobody states"
        ),
        pytest.param(lambda one: changed(one, "d", kind="Cast"), id="no dequantisation"),
        pytest.param(lambda one: with_tensor(one, "again", bits=16, size_bytes=8), id="wider integers"),
    ],
)
def test_any_other_stays(change: Change) -> None:
    graph = change(again())
    assert fold(graph) == graph


def test_an_output_of_the_network_stays() -> None:
    graph = with_tensor(again(), "again", role=Role.OUTPUT)
    graph = replace(graph, operators=graph.operators[:-1], tensors=tuple(t for t in graph.tensors if t.name != "y"))
    assert fold(graph) == graph
