"""Operators that gather elements from other positions, in tiles: real and made-up values equal the whole's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from onchip.answer.bindings import Bindings
from onchip.answer.problem import Problem
from onchip.api.networks import read_network
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Region
from onchip.model.capacity.bounds import greatest_need
from onchip.ops.entries import geometry_of
from onchip.ops.pointwise import PLACED
from onchip.simulate.kernels.onnx_kernels import OnnxKernels, OnnxTileKernels
from onchip.simulate.machine import run_in_given_order
from onchip.transform.slices.bands import Bytes, bytes_of_region
from support.onnx_networks import integers, make_node, model, value
from support.tiled import tiled_to_fit, whole_tensor_differences

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")
IMAGE = [1, 4, 12, 10]
HEADS = [2, 6, 4, 5]
"""The shape in which an Expand of heads is read."""
SHARES = {"Resize by another factor": 0.8, "Pad that mirrors": 0.8, "Tile": 0.8}
"""Share of the network's need in the scratchpad; above one half if a tile reads much of its input whole."""


def floats(name: str, *content: float) -> TensorProto:
    return numpy_helper.from_array(np.asarray(content, np.float32), name)


def node(kind: str, *operands: str, **attributes: object) -> onnx.NodeProto:
    return make_node(kind, ["x", *operands], ["y"], name="op", **attributes)  # type: ignore[arg-type]


NETWORKS: dict[str, tuple[onnx.NodeProto, list[int], list[TensorProto]]] = {
    "Softmax along rows": (node("Softmax", axis=-1), [1, 6, 20], []),
    "Softmax of channels": (node("Softmax", axis=1), [4, 6, 20], []),
    "LogSoftmax without an axis": (node("LogSoftmax"), [24, 20], []),
    "LayerNormalization": (node("LayerNormalization", "s"), [24, 8], [floats("s", *range(8))]),
    "InstanceNormalization": (
        node("InstanceNormalization", "s", "b"),
        IMAGE,
        [floats("s", 1, 2, 3, 4), floats("b", 4, 3, 2, 1)],
    ),
    "LRN": (node("LRN", size=3), IMAGE, []),
    "ReduceMean that keeps": (node("ReduceMean", "a", keepdims=1), IMAGE, [integers("a", [2, 3])]),
    "ReduceMax that drops": (node("ReduceMax", "a", keepdims=0), IMAGE, [integers("a", [1])]),
    "ArgMax": (node("ArgMax", axis=1, keepdims=0), IMAGE, []),
    "Slice in steps": (
        node("Slice", "from", "to", "axes", "by"),
        IMAGE,
        [integers("from", [1, -9]), integers("to", [11, 2**62]), integers("axes", [2, -1]), integers("by", [3, 2])],
    ),
    "Pad with zeros": (node("Pad", "p"), IMAGE, [integers("p", [0, 0, 3, 2, 0, 0, 1, 4])]),
    "Pad of some axes": (node("Pad", "p", "", "a"), IMAGE, [integers("p", [2, 1]), integers("a", [-2])]),
    "Pad that mirrors": (node("Pad", "p", mode="reflect"), IMAGE, [integers("p", [0, 0, 0, 3, 0, 0, 0, 2])]),
    "Pad that mirrors little": (node("Pad", "p", mode="reflect"), IMAGE, [integers("p", [0, 0, 1, 0, 0, 0, 2, 1])]),
    "Pad that repeats its edge": (node("Pad", "p", mode="edge"), IMAGE, [integers("p", [0, 0, 3, 1, 0, 0, 4, 2])]),
    "Pad that crops": (node("Pad", "p"), IMAGE, [integers("p", [0, 0, -2, 1, 0, 0, 0, -3])]),
    "Resize up, nearest": (node("Resize", "", "f", mode="nearest"), IMAGE, [floats("f", 1, 1, 3, 2)]),
    "Resize up, linear": (node("Resize", "", "f", mode="linear"), IMAGE, [floats("f", 1, 1, 2, 4)]),
    "Resize up, cubic": (node("Resize", "", "f", mode="cubic"), IMAGE, [floats("f", 1, 1, 2, 1)]),
    "Resize down": (node("Resize", "", "f", mode="linear"), IMAGE, [floats("f", 1, 1, 0.25, 0.5)]),
    "Resize by another factor": (node("Resize", "", "", "to"), IMAGE, [integers("to", [1, 4, 17, 10])]),
    "Expand of heads": (
        node("Expand", "to"),
        [2, 3, 1, 4, 5],
        [integers("to", [2, 3, 2, 4, 5]), integers("heads", HEADS)],
    ),
    "Expand": (node("Expand", "to"), [12, 1], [integers("to", [3, 12, 9])]),
    "Tile": (node("Tile", "n"), IMAGE, [integers("n", [1, 1, 2, 1])]),
    "Gather": (node("Gather", "i", axis=2), IMAGE, [integers("i", [3, 1, 4, 1, 5, 9])]),
    "DepthToSpace": (node("DepthToSpace", blocksize=2), IMAGE, []),
    "SpaceToDepth": (node("SpaceToDepth", blocksize=2), IMAGE, []),
}


def whole_graph(name: str, folder: Path) -> tuple[Graph, Path]:
    one, shape, parameters = NETWORKS[name]
    after = make_node("Identity" if one.op_type == "ArgMax" else "Neg", ["y"], ["z"], name="after")
    between = []
    if any(each.name == "heads" for each in parameters):
        between, after.input[0] = [make_node("Reshape", ["y", "heads"], ["v"])], "v"
    path = folder / "network.onnx"
    path.write_bytes(model([one, *between, after], [value("x", shape)], ["z"], parameters).SerializeToString())
    return read_network(str(path)), path


def test_repeated_heads_are_written_as_they_are_read(tmp_path: Path) -> None:
    whole, _ = whole_graph("Expand of heads", tmp_path)
    assert whole.tensor["y"].shape == tuple(HEADS)
    geometry = geometry_of(whole.operator["op"], whole, is_model=True)
    assert geometry is not None
    (read, *_) = geometry.reads
    assert [(span.axis, span.per) for span in read.spans] == [(0, 1), (1, 2), (None, 1), (2, 1), (3, 1)]


def test_every_kind_has_a_network() -> None:
    alike = {"LogSoftmax", "RMSNormalization", "GroupNormalization", "Upsample"}
    assert {*PLACED, "LRN", "ReduceMax"} - alike <= {one.op_type for one, _, _ in NETWORKS.values()}


def in_tiles(whole: Graph, share: float, *, is_model: bool) -> Graph:
    """Split for a scratchpad with this share of the network's need."""
    need = greatest_need(Problem(whole, (Memory("sram", 2**40),))).need_bytes
    problem = Problem(whole, (Memory("sram", int(share * need)),))
    tiled = tiled_to_fit(problem, is_model=is_model)
    assert sum(one.tile is not None for one in tiled.operators) > 1
    return tiled


def spoilt(content: Bytes, tensor: Tensor, region: Region | None) -> Bytes:
    """Return the bytes of a tensor with other values everywhere but in a region."""
    whole = content.view(np.float32 if tensor.bits == 32 else np.int64).reshape(tensor.shape or ()).copy()
    kept = whole.copy()
    whole[...] = 1 - whole
    if region is not None:
        here = tuple(slice(*each) for each in region)
        whole[here] = kept[here]
    return np.ascontiguousarray(whole).reshape(-1).view(np.uint8)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_tile_depends_on_nothing_but_what_it_reads(name: str, tmp_path: Path) -> None:
    """The tile's region of the output stays the same for any values in the unread part of an input."""
    graph, path = whole_graph(name, tmp_path)
    operator, kernels = graph.operator["op"], OnnxKernels(graph, path, Bindings())
    geometry = geometry_of(operator, graph, is_model=True)
    assert geometry is not None
    source, output = graph.tensor["x"], graph.tensor[operator.outputs[0]]
    content = kernels.network_input(source)
    expected = kernels.run(operator, {"x": content})[output.name]
    sizes = [axis.size for axis in geometry.axes]
    tiles = [
        tuple(cut if other == at else (0, size) for other, size in enumerate(sizes))
        for at, size in enumerate(sizes)
        if not geometry.axes[at].is_reduction  # a partial sum is not the sum
        for cut in ((0, 1), (size // 2, size // 2 + 1), (size // 3, size // 3 + 2), (size - 1, size))
        if cut[1] <= size
    ]
    assert any(size > 1 for size in sizes)
    for tile in tiles:
        (write,) = geometry.writes
        read = next(one for one in geometry.reads if one.tensor == "x").region(tile, geometry.axes)
        found = kernels.run(operator, {"x": spoilt(content, source, read)})[output.name]
        region = write.region(tile, geometry.axes)
        assert region is not None
        shape = output.shape or ()
        assert np.array_equal(bytes_of_region(found, shape, region), bytes_of_region(expected, shape, region))


@pytest.mark.parametrize("name", NETWORKS)
def test_tiles_give_what_the_model_gives(name: str, tmp_path: Path) -> None:
    whole, path = whole_graph(name, tmp_path)
    tiled = in_tiles(whole, SHARES.get(name, 0.5), is_model=True)
    kernels = OnnxTileKernels(tiled, whole, OnnxKernels(whole, path, Bindings()))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.with_role(Role.INPUT)}
    problem = Problem(tiled, (Memory("sram", 2**40),))
    outputs = run_in_given_order(problem, kernels, inputs).outputs
    assert kernels.difference_from_whole_model(inputs, outputs) < 1e-6


@pytest.mark.parametrize("name", NETWORKS)
def test_tiles_give_the_made_up_values_of_the_whole(name: str, tmp_path: Path) -> None:
    whole, _ = whole_graph(name, tmp_path)
    assert whole_tensor_differences(in_tiles(whole, SHARES.get(name, 0.5), is_model=False), whole) == ()


def test_an_operator_whose_attributes_say_too_little_is_not_split(tmp_path: Path) -> None:
    whole, _ = whole_graph("Slice in steps", tmp_path)
    operator = replace(whole.operator["op"], attributes={})
    assert geometry_of(operator, whole, is_model=True) is None


def through_a_view(kind: str, stored: list[int], seen: list[int], other: list[int], folder: Path) -> Graph:
    """Return an operator of two operands; the second is a view of another operator's output."""
    nodes = [
        make_node("Neg", ["x"], ["n"], name="before"),
        make_node("Reshape", ["n", "shape"], ["v"], name="view"),
        make_node(kind, ["m", "v"], ["y"], name="op"),
    ]
    path = folder / "network.onnx"
    network = model(nodes, [value("x", stored), value("m", other)], ["y"], [integers("shape", seen)])
    path.write_bytes(network.SerializeToString())
    return read_network(str(path))


@pytest.mark.parametrize("kind", ["Mul", "Less", "Pow"])
def test_what_is_read_through_a_view_lies_along_the_axes_that_are_seen(kind: str, tmp_path: Path) -> None:
    """The map has as many channels as columns: by its stored shape the factor would lie along the columns."""
    graph = through_a_view(kind, [1, 6], [1, 6, 1, 1], [1, 6, 5, 6], tmp_path)
    geometry = geometry_of(graph.operator["op"], graph, is_model=True)
    assert geometry is not None
    (read,) = (one for one in geometry.reads if one.tensor == "n")
    assert [span.axis for span in read.spans] == [None, 1]


def test_of_a_view_whose_rows_cross_those_that_are_stored_all_is_read(tmp_path: Path) -> None:
    graph = through_a_view("Mul", [6, 4], [4, 6], [4, 6], tmp_path)
    geometry = geometry_of(graph.operator["op"], graph, is_model=True)
    assert geometry is not None
    (read,) = (one for one in geometry.reads if one.tensor == "n")
    assert [span.axis for span in read.spans] == [None, None]
