"""Recurrent layers, rows, signals and transposed convolutions in tiles: their values are those of the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from onchip.api.networks import read_network
from onchip.ir.graph import Graph
from onchip.ops.entries import geometry_of
from onchip.ops.pointwise import JOINED
from onchip.ops.sequences import SEQUENCES
from support.onnx_networks import integers, make_node, model, value
from support.tiled import difference_in_tiles, split_to_share, tiles_that_read_too_little, whole_tensor_differences

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")
Network = tuple[onnx.NodeProto, dict[str, list[int]], list[TensorProto]]
WHOLE_ROWS = {"CumSum of rows": 0.6, "STFT": 0.4}


def floats(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.random.default_rng(3).normal(size=shape).astype(np.float32), name)


def scalar(name: str, number: int) -> TensorProto:
    return numpy_helper.from_array(np.asarray(number, np.int64), name)


def node(kind: str, *inputs: str, outputs: tuple[str, ...] = ("y",), **attributes: object) -> onnx.NodeProto:
    return make_node(kind, inputs, outputs, name="op", **attributes)  # type: ignore[arg-type]


MAP = {"x": [1, 4, 7, 6]}
NETWORKS: dict[str, Network] = {
    "ConvTranspose by its kernel": (
        node("ConvTranspose", "x", "w", "b", strides=[2, 2]),
        MAP,
        [floats("w", 4, 3, 2, 2), floats("b", 3)],
    ),
    "ConvTranspose that overlaps": (
        node("ConvTranspose", "x", "w", strides=[2, 3], pads=[1, 2, 1, 0], dilations=[2, 1]),
        MAP,
        [floats("w", 4, 3, 3, 5)],
    ),
    "ConvTranspose with gaps": (
        node("ConvTranspose", "x", "w", strides=[3, 4], output_padding=[2, 1]),
        MAP,
        [floats("w", 4, 2, 2, 3)],
    ),
    "ConvTranspose in groups": (
        node("ConvTranspose", "x", "w", group=2, strides=[2, 1], pads=[0, 1, 1, 0]),
        MAP,
        [floats("w", 4, 3, 3, 3)],
    ),
    "ConvTranspose of the same size": (
        node("ConvTranspose", "x", "w", strides=[2, 2], auto_pad="SAME_UPPER"),
        MAP,
        [floats("w", 4, 3, 5, 3)],
    ),
    "LSTM in both directions": (
        node("LSTM", "x", "w", "r", "", "", "h", outputs=("y", "s", "c"), hidden_size=3, direction="bidirectional"),
        {"x": [5, 6, 4], "h": [2, 6, 3]},
        [floats("w", 2, 12, 4), floats("r", 2, 12, 3)],
    ),
    "GRU's last state": (
        node("GRU", "x", "w", "r", outputs=("", "y"), hidden_size=3),
        {"x": [5, 6, 4]},
        [floats("w", 1, 9, 4), floats("r", 1, 9, 3)],
    ),
    "RNN of as many samples as it keeps": (
        node("RNN", "x", "w", "r", "", "", "h", hidden_size=6),
        {"x": [5, 6, 6], "h": [1, 6, 6]},
        [floats("w", 1, 6, 6), floats("r", 1, 6, 6)],
    ),
    "TopK of rows": (node("TopK", "x", "k", outputs=("y", "i"), axis=1), {"x": [6, 9, 4]}, [integers("k", [3])]),
    "CumSum of rows": (node("CumSum", "x", "a"), {"x": [8, 6, 5]}, [scalar("a", 1)]),
    "Hardmax": (node("Hardmax", "x"), {"x": [8, 6]}, []),
    "STFT": (node("STFT", "x", "step", "window"), {"x": [1, 100, 1]}, [scalar("step", 4), floats("window", 12)]),
    "GatherElements": (node("GatherElements", "x", "i", axis=-1), {"x": [8, 6, 5], "i": [6, 6, 9]}, []),
    "Concat around a constant": (node("Concat", "x", "w", "x", axis=1), MAP, [floats("w", 1, 2, 7, 6)]),
    "MaxPool with places": (node("MaxPool", "x", outputs=("y", "i"), kernel_shape=[2, 2]), {"x": [1, 4, 8, 8]}, []),
}
ONLY_AS_MODELS = ("Concat around a constant", "MaxPool with places", "ConvTranspose of the same size")
"""Kinds that need a model: a graph omits the position of constants; pools write one output, pads are stated."""
MADE_UP = [name for name in NETWORKS if name not in ONLY_AS_MODELS]


def whole_network(name: str, folder: Path) -> tuple[Graph, Path]:
    one, inputs, parameters = NETWORKS[name]
    path = folder / "network.onnx"
    types = {"i": TensorProto.INT64}
    given = [value(each, shape, types.get(each, TensorProto.FLOAT)) for each, shape in inputs.items()]
    network = model([one], given, [each for each in one.output if each], parameters)
    path.write_bytes(network.SerializeToString())
    return read_network(str(path)), path


def test_every_kind_is_among_them() -> None:
    kinds = {one.op_type for one, _, _ in NETWORKS.values()}
    here = {kind for kind in {**SEQUENCES, **JOINED} if "." not in kind} | {"ConvTranspose"}
    assert here - kinds == {"Split", "CONCATENATION", "LpNormalization", "Attention"}


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "GatherElements"])
def test_a_tile_of_a_row_depends_on_nothing_but_what_it_reads(name: str, tmp_path: Path) -> None:
    """Indices of a gather have to be valid: others would address no element."""
    graph, path = whole_network(name, tmp_path)
    assert list(tiles_that_read_too_little(graph, path)) == []


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "GatherElements"])
def test_tiles_of_rows_and_signals_give_what_the_model_gives(name: str, tmp_path: Path) -> None:
    whole, path = whole_network(name, tmp_path)
    tiled = split_to_share(whole, WHOLE_ROWS.get(name, 0.7), is_model=True)
    assert difference_in_tiles(tiled, whole, path) < 1e-6


@pytest.mark.parametrize("name", MADE_UP)
def test_tiles_of_rows_and_signals_give_the_made_up_values_of_the_whole(name: str, tmp_path: Path) -> None:
    whole, _ = whole_network(name, tmp_path)
    assert whole_tensor_differences(split_to_share(whole, 0.8, is_model=False), whole) == ()


@pytest.mark.parametrize(("opset", "is_cut"), [(12, False), (13, True)])
def test_pixels_of_a_softmax_are_cut_where_its_version_is_about_one_axis(
    opset: int, is_cut: bool, tmp_path: Path
) -> None:
    path = tmp_path / "network.onnx"
    network = model([node("Softmax", "x", axis=1)], [value("x", [4, 6, 20])], ["y"], opset=opset)
    path.write_bytes(network.SerializeToString())
    whole = read_network(str(path))
    geometry = geometry_of(whole.operator["op"], whole, is_model=True)
    assert geometry is not None
    assert [axis.size for axis in geometry.axes] == [4, 1, 20 if is_cut else 1]
    assert list(tiles_that_read_too_little(whole, path)) == []
    assert difference_in_tiles(split_to_share(whole, 0.5, is_model=True), whole, path) < 1e-6
