"""Operators of a model in parts of their sums: integers exactly, floats up to the order of adding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from onchip.api.networks import read_network
from onchip.ir.graph import Graph
from onchip.ir.tile import SumPart
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import AFFINE, COMPARED, MULTIPLIED, SUMMED, has_partial_results
from support.onnx_networks import integers, make_node, model, value
from support.tiled_values import difference_in_tiles, split_to_share, whole_tensor_differences

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")
Network = tuple[onnx.NodeProto, dict[str, list[int]], list[TensorProto]]
TOLERANCE = 2e-6


def floats(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.random.default_rng(3).normal(size=shape).astype(np.float32), name)


def node(kind: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return make_node(kind, inputs, ["y"], name="op", **attributes)  # type: ignore[arg-type]


def reduced(kind: str, axes: list[int], **attributes: object) -> Network:
    return node(kind, "x", "a", **attributes), {"x": [2, 50, 3]}, [integers("a", axes)]


NETWORKS: dict[str, Network] = {
    "ReduceSum of all": reduced("ReduceSum", [0, 1, 2]),
    "ReduceSum of rows": (node("ReduceSum", "x", "a", keepdims=0), {"x": [1, 300, 8]}, [integers("a", [1])]),
    "ReduceMean": reduced("ReduceMean", [1]),
    "ReduceL1": reduced("ReduceL1", [1, 2], keepdims=0),
    "ReduceSumSquare": reduced("ReduceSumSquare", [1], keepdims=0),
    "ReduceProd": reduced("ReduceProd", [1]),
    "ReduceMax": reduced("ReduceMax", [1]),
    "ReduceMin of all": reduced("ReduceMin", [0, 1, 2], keepdims=0),
    "GlobalAveragePool": (node("GlobalAveragePool", "x"), {"x": [1, 2, 40, 3]}, []),
    "MatMul": (node("MatMul", "x", "w"), {"x": [1, 90]}, [floats("w", 90, 2)]),
    "MatMul of two inputs": (node("MatMul", "x", "z"), {"x": [2, 90], "z": [90, 2]}, []),
    "Gemm with a bias": (node("Gemm", "x", "w", "b"), {"x": [1, 90]}, [floats("w", 90, 2), floats("b", 2)]),
    "Gemm that adds an input": (node("Gemm", "x", "w", "c"), {"x": [1, 90], "c": [1, 2]}, [floats("w", 90, 2)]),
    "Conv with a bias": (node("Conv", "x", "w", "b"), {"x": [1, 60, 1, 1]}, [floats("w", 2, 60, 1, 1), floats("b", 2)]),
    "ConvTranspose": (node("ConvTranspose", "x", "w"), {"x": [1, 60, 1, 1]}, [floats("w", 60, 2, 2, 2)]),
}
ONLY_AS_MODELS = ("ConvTranspose", "Gemm that adds an input")
INTEGERS = ["ReduceSum of all", "ReduceProd", "ReduceMax", "ReduceMin of all"]


def whole_network(name: str, folder: Path, element_type: int = TensorProto.FLOAT) -> tuple[Graph, Path]:
    one, inputs, parameters = NETWORKS[name]
    path = folder / "network.onnx"
    given = [value(each, shape, element_type) for each, shape in inputs.items()]
    path.write_bytes(model([one], given, ["y"], parameters).SerializeToString())
    return read_network(str(path)), path


def in_parts(whole: Graph, *, is_model: bool = True) -> Graph:
    """Split for so little room that the smallest tile of the output does not fit with all of its terms."""
    tiled = split_to_share(whole, 0.1, is_model=is_model)
    parts = {one.tile.part for one in tiled.operators if one.tile is not None}
    assert {SumPart.START, SumPart.MIDDLE, SumPart.END} <= parts
    return tiled


def test_every_kind_that_has_parts_is_among_them() -> None:
    assert {one.op_type for one, _, _ in NETWORKS.values()} == AFFINE | SUMMED | COMPARED | MULTIPLIED


@pytest.mark.parametrize("name", NETWORKS)
def test_parts_of_a_models_sum_give_the_sum(name: str, tmp_path: Path) -> None:
    whole, path = whole_network(name, tmp_path)
    assert difference_in_tiles(in_parts(whole), whole, path) < TOLERANCE


@pytest.mark.parametrize("name", INTEGERS)
def test_parts_of_a_sum_of_integers_give_it_exactly(name: str, tmp_path: Path) -> None:
    whole, path = whole_network(name, tmp_path, TensorProto.INT64)
    assert difference_in_tiles(in_parts(whole), whole, path) == 0


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in ONLY_AS_MODELS])
def test_parts_of_a_sum_without_a_model_give_the_made_up_values_of_the_whole(name: str, tmp_path: Path) -> None:
    whole, _ = whole_network(name, tmp_path)
    assert whole_tensor_differences(in_parts(whole, is_model=False), whole) == ()


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean", "ReduceMax"])
@pytest.mark.parametrize(("stored", "seen"), [([50, 12], [1, 100, 6]), ([50, 6], [1, 100, 3]), ([200, 3], [1, 100, 6])])
def test_parts_of_what_is_seen_through_a_view_count_no_row_twice(
    kind: str, stored: list[int], seen: list[int], tmp_path: Path
) -> None:
    """A stored row may hold the end of one part and the beginning of the next."""
    nodes = [make_node("Reshape", ["x", "shape"], ["v"], name="view"), node(kind, "v", "a", keepdims=0)]
    path = tmp_path / "network.onnx"
    network = model(nodes, [value("x", stored)], ["y"], [integers("shape", seen), integers("a", [1])])
    path.write_bytes(network.SerializeToString())
    whole = read_network(str(path))
    assert difference_in_tiles(in_parts(whole), whole, path) < TOLERANCE


def test_a_sum_that_goes_on_is_the_same_to_the_bit(tmp_path: Path) -> None:
    whole, path = whole_network("ReduceSum of rows", tmp_path)
    assert difference_in_tiles(in_parts(whole), whole, path) == 0


def test_of_a_model_no_sum_is_taken_apart_where_another_split_fits(tmp_path: Path) -> None:
    whole, _ = whole_network("MatMul of two inputs", tmp_path)
    tiled = split_to_share(whole, 0.7, is_model=True)
    assert {one.tile.part for one in tiled.operators if one.tile is not None} == {SumPart.WHOLE}


def test_what_follows_a_sum_in_the_same_operator_needs_all_of_it(tmp_path: Path) -> None:
    whole, _ = whole_network("MatMul", tmp_path)
    operator = whole.operator["op"]
    assert has_partial_results(operator, whole)
    assert not has_partial_results(replace(operator, members=("op", "relu")), whole)
    assert not has_partial_results(replace(operator, attributes={"fused_activation": "RELU"}), whole)
    narrow = replace(
        whole, tensors=tuple(replace(each, bits=8, size_bytes=each.size_bytes // 4) for each in whole.tensors)
    )
    assert not has_partial_results(operator, narrow)
    geometry = geometry_of(replace(operator, members=("op", "relu")), whole, is_model=True)
    assert geometry is not None
    assert geometry.reduction is None
