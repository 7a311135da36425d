"""Operators that read through views, in tiles: their values are those of the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onchip.answer.bindings import Bindings
from onchip.answer.problem import Count, Problem
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.networks import read_network
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import VIEWS
from onchip.ir.tensor import Role
from onchip.model.capacity.bounds import greatest_need
from onchip.ops.layers_of import Precision
from onchip.simulate.kernels.onnx_kernels import OnnxKernels, OnnxTileKernels
from onchip.simulate.machine import run_in_given_order
from onchip.transform.groups.tiled import tile_graph
from support.onnx_networks import integers, make_node, model, value
from support.tiled import tiled_to_fit, whole_tensor_differences
from transform.test_tile_graph import assert_both_agree

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")


def random_weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.random.default_rng(7).normal(size=shape).astype(np.float32), name)


READERS: dict[str, tuple[list[int], list[int], onnx.NodeProto, list[onnx.TensorProto]]] = {
    "Transpose of channels in groups": (
        [1, 24, 6, 5],
        [1, 4, 6, 6, 5],
        make_node("Transpose", ["v"], ["y"], perm=[0, 2, 1, 3, 4]),
        [],
    ),
    "Conv of groups put together": (
        [1, 6, 4, 6, 5],
        [1, 24, 6, 5],
        make_node("Conv", ["v", "w"], ["y"], group=24, pads=[1, 1, 1, 1]),
        [random_weight("w", 24, 1, 3, 3)],
    ),
    "Conv along rows put together": (
        [1, 3, 8, 6],
        [1, 3, 48],
        make_node("Conv", ["v", "w"], ["y"], strides=[2], pads=[1, 1]),
        [random_weight("w", 4, 3, 5)],
    ),
    "Mul of rows in rows": ([12, 4], [6, 8], make_node("Mul", ["v", "v"], ["y"]), []),
    "Mul of rows in rows that are longer": ([6, 8], [12, 4], make_node("Mul", ["v", "v"], ["y"]), []),
    "Add of rows across rows": ([8, 9], [12, 6], make_node("Add", ["v", "w"], ["y"]), [random_weight("w", 12, 6)]),
    "ReduceMax of groups": (
        [1, 12, 10],
        [1, 3, 4, 10],
        make_node("ReduceMax", ["v", "a"], ["y"], keepdims=0),
        [integers("a", [1])],
    ),
    "Slice of rows": (
        [8, 4, 6],
        [32, 6],
        make_node("Slice", ["v", "from", "to", "on", "by"], ["y"]),
        [integers("from", [3]), integers("to", [31]), integers("on", [0]), integers("by", [2])],
    ),
    "Split of rows": ([8, 4, 6], [32, 6], make_node("Split", ["v"], ["y", "y1"], axis=1, num_outputs=2), []),
    "Concat of rows": ([8, 4, 6], [32, 6], make_node("Concat", ["v", "v"], ["y"], axis=0), []),
    "MatMul of rows": ([4, 6, 8], [24, 8], make_node("MatMul", ["v", "w"], ["y"]), [random_weight("w", 8, 5)]),
    "MaxPool of groups": ([1, 2, 3, 8, 8], [1, 6, 8, 8], make_node("MaxPool", ["v"], ["y"], kernel_shape=[2, 2]), []),
    "Softmax of rows": ([4, 6, 8], [24, 8], make_node("Softmax", ["v"], ["y"], axis=1), []),
}


def network_through_a_view(name: str, folder: Path) -> tuple[Graph, Path]:
    stored, seen, reader, parameters = READERS[name]
    reader.name = "op"
    nodes = [
        make_node("Neg", ["x"], ["n"], name="before"),
        make_node("Reshape", ["n", "shape"], ["v"], name="view"),
        reader,
        make_node("Neg", ["y"], ["z"], name="after"),
    ]
    outputs = ["z", *reader.output[1:]]
    path = folder / "network.onnx"
    network = model(nodes, [value("x", stored)], outputs, [integers("shape", seen), *parameters])
    path.write_bytes(network.SerializeToString())
    return read_network(str(path)), path


def in_tiles(whole: Graph, *, is_model: bool) -> Graph:
    """Split for as little as can be."""
    need = greatest_need(Problem(whole, (Memory("sram", 2**40),))).need_bytes
    problem = Problem(whole, (Memory("sram", int(0.7 * need)),))
    tiled = tiled_to_fit(problem, is_model=is_model)
    assert any(one.tile is not None and one.tile.operator == "op" for one in tiled.operators)
    return tiled


@pytest.mark.parametrize("name", READERS)
def test_tiles_of_what_is_read_through_a_view_give_what_the_model_gives(name: str, tmp_path: Path) -> None:
    whole, path = network_through_a_view(name, tmp_path)
    assert not VIEWS.isdisjoint(whole.operator["op"].attributes)
    tiled = in_tiles(whole, is_model=True)
    kernels = OnnxTileKernels(tiled, whole, OnnxKernels(whole, path, Bindings()))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.with_role(Role.INPUT)}
    outputs = run_in_given_order(Problem(tiled, (Memory("sram", 2**40),)), kernels, inputs).outputs
    assert kernels.difference_from_whole_model(inputs, outputs) < 1e-6


@pytest.mark.parametrize("name", READERS)
def test_tiles_of_what_is_read_through_a_view_give_the_made_up_values_of_the_whole(name: str, tmp_path: Path) -> None:
    whole, _ = network_through_a_view(name, tmp_path)
    assert whole_tensor_differences(in_tiles(whole, is_model=False), whole) == ()


def test_a_parameter_that_is_seen_along_the_channels_is_cut_along_them(tmp_path: Path) -> None:
    """Channels and columns are equally many; the stored shape alone would place the parameter along the columns."""
    nodes = [make_node("Unsqueeze", ["w", "axes"], ["u"]), make_node("Mul", ["x", "u"], ["y"], name="op")]
    path = tmp_path / "network.onnx"
    parameters = [random_weight("w", 6), integers("axes", [1, 2])]
    path.write_bytes(model(nodes, [value("x", [1, 6, 5, 6])], ["y"], parameters).SerializeToString())
    whole = read_network(str(path))
    tiled = in_tiles(whole, is_model=True)
    kernels = OnnxTileKernels(tiled, whole, OnnxKernels(whole, path, Bindings()))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.with_role(Role.INPUT)}
    outputs = run_in_given_order(Problem(tiled, (Memory("sram", 2**40),)), kernels, inputs).outputs
    assert kernels.difference_from_whole_model(inputs, outputs) < 1e-6


@pytest.mark.parametrize("columns", [0, 1, 3, 4])
def test_a_product_of_repeated_heads_runs_in_tiles_of_its_group(columns: int, tmp_path: Path) -> None:
    """Grouped-query attention, as exporters write it: two heads of queries share a head of keys and of values."""
    nodes = [
        make_node("Unsqueeze", ["k", "axis"], ["k5"]),
        make_node("Expand", ["k5", "repeated"], ["ke"], name="keys"),
        make_node("Reshape", ["ke", "heads"], ["k4"]),
        make_node("Transpose", ["k4"], ["kt"], name="turned", perm=[0, 1, 3, 2]),
        make_node("MatMul", ["q", "kt"], ["s"], name="scores"),
        make_node("Cast", ["s"], ["c"], name="same", to=onnx.TensorProto.FLOAT),
        make_node("Softmax", ["c"], ["p"], name="softmax"),
        make_node("Unsqueeze", ["v", "axis"], ["v5"]),
        make_node("Expand", ["v5", "repeated"], ["ve"], name="values"),
        make_node("Reshape", ["ve", "heads"], ["v4"]),
        make_node("MatMul", ["p", "v4"], ["o"], name="context"),
    ]
    sizes = [integers("axis", [2]), integers("repeated", [1, 2, 2, 5, 3]), integers("heads", [1, 4, 5, 3])]
    inputs = [value("q", [1, 4, 6, 3]), value("k", [1, 2, 5, 3]), value("v", [1, 2, 5, 3])]
    group = ScheduledStack(("turned", "scores", "same", "softmax", "context"), Tiling(1, 2, OverlapMode.RECOMPUTE))
    stacks: tuple[ScheduledStack, ...] = (ScheduledStack(("keys",)), ScheduledStack(("values",)), group)
    if columns:
        operators = ("keys", "turned", "scores", "same", "softmax", "values", "context")
        stacks = (ScheduledStack(operators, Tiling(columns, 2, OverlapMode.RECOMPUTE)),)
    assert_groups_run(model(nodes, inputs, ["o"], sizes), stacks, tmp_path)


def test_a_rotary_embedding_runs_in_tiles_of_its_group(tmp_path: Path) -> None:
    """A rotary embedding, as exporters write it: it swaps the halves of each row, and negates one of them."""
    nodes = [
        make_node("Transpose", ["x"], ["h"], name="heads", perm=[0, 2, 1, 3]),
        make_node("Mul", ["h", "cosines"], ["c"], name="mul"),
        make_node("Slice", ["h", "zero", "two", "last"], ["left"], name="left"),
        make_node("Slice", ["h", "two", "end", "last"], ["right"], name="right"),
        make_node("Neg", ["right"], ["n"], name="neg"),
        make_node("Concat", ["n", "left"], ["turned"], name="join", axis=-1),
        make_node("Mul", ["turned", "sines"], ["s"], name="sin"),
        make_node("Add", ["c", "s"], ["r"], name="add"),
        make_node("MatMul", ["r", "k"], ["o"], name="scores"),
    ]
    tables = [random_weight(name, 1, 1, 6, 4) for name in ("cosines", "sines")]
    tables += [integers(name, [one]) for name, one in (("zero", 0), ("two", 2), ("end", 2**62), ("last", 3))]
    network = model(nodes, [value("x", [1, 6, 2, 4]), value("k", [1, 2, 4, 3])], ["o"], tables)
    names = ("heads", "mul", "left", "right", "neg", "join", "sin", "add", "scores")
    assert_groups_run(network, (ScheduledStack(names, Tiling(1, 2, OverlapMode.RECOMPUTE)),), tmp_path)


def assert_groups_run(network: onnx.ModelProto, stacks: tuple[ScheduledStack, ...], folder: Path) -> None:
    """Check that groups have the tiles that the verifier derives, and the values of the network."""
    path = folder / "network.onnx"
    path.write_bytes(network.SerializeToString())
    whole = read_network(str(path))
    tiles = tile_graph(whole, stacks, Precision(None))
    assert_both_agree(whole, stacks, tiles, 32)
    kernels = OnnxTileKernels(tiles.graph, whole, OnnxKernels(whole, path, Bindings()))
    given = {tensor.name: kernels.network_input(tensor) for tensor in tiles.graph.with_role(Role.INPUT)}
    problem = Problem(tiles.graph, (Memory("sram", 2**40),), count=Count.ALL)
    outputs = run_in_given_order(problem, kernels, given).outputs
    assert kernels.difference_from_whole_model(given, outputs) < 1e-6
