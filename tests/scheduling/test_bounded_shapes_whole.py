"""Operators on tensors whose shape is known only when they run stay whole, with the reason; others around are cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto

from onchip.answer.document import Reading
from onchip.answer.problem import Problem
from onchip.api.networks import read_network
from onchip.api.plan import tiled_one_by_one
from onchip.arch.memory import Memory
from onchip.errors import UntiledError
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import operator_need
from onchip.ops.entries import geometry_of
from support.onnx_networks import make_node, model, value
from support.tiled import difference_in_tiles, tiled_to_fit

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Graph, Path]:
    """Save a network that picks rows by a mask, so that their number depends on values."""
    inputs = ["x", "x1", "x2", "x3"]
    nodes = [
        make_node("Sum", inputs, ["s"], name="sum"),
        make_node("Compress", ["s", "mask"], ["p"], name="picked", axis=0),
        make_node("Neg", ["p"], ["y"], name="after"),
    ]
    path = tmp_path / "network.onnx"
    given = [*(value(one, [8, 16]) for one in inputs), value("mask", [8], TensorProto.BOOL)]
    path.write_bytes(model(nodes, given, ["y"]).SerializeToString())
    return read_network(str(path)), path


def problem_of(whole: Graph, excess_bytes: int) -> Problem:
    """Return a problem with `excess_bytes` more than the mask's reader needs."""
    need = operator_need(Problem(whole, (Memory("sram", 2**40),)), whole.operator["picked"]).need_bytes
    return Problem(whole, (Memory("sram", need + excess_bytes),))


def test_what_reads_or_writes_a_bounded_shape_is_cut_along_no_axis(places: tuple[Graph, Path]) -> None:
    whole, _ = places
    found = {one.name: geometry_of(one, whole, is_model=True) is not None for one in whole.operators}
    assert found == {"sum": True, "picked": False, "after": False}


def test_it_is_named_with_the_reason(places: tuple[Graph, Path]) -> None:
    whole, path = places
    reason = "operator 'picked' does not fit in any tiling: .* cannot be split, because its shapes depend on values"
    with pytest.raises(UntiledError, match=reason):
        tiled_one_by_one(problem_of(whole, -1), str(path), Reading())


def test_operators_before_it_in_tiles_give_it_what_the_model_does(places: tuple[Graph, Path]) -> None:
    whole, path = places
    tiled = tiled_to_fit(problem_of(whole, 0), is_model=True)
    counts = [sum(one.kind == kind for one in tiled.operators) for kind in ("Sum", "Compress", "Neg")]
    assert counts[0] > 1
    assert counts[1:] == [1, 1]
    assert difference_in_tiles(tiled, whole, path) == 0
