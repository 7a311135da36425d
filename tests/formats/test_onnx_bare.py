"""Large weights stay in the file until they are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onchip.errors import InputError
from onchip.formats.networks import read_onnx
from onchip.formats.onnx.file import own_weight, read_without_weights
from support.onnx_networks import make_node, model, value

WEIGHT = np.random.default_rng(0).standard_normal((600, 500)).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Save a model with 1.2 MB of weight, between a small weight and one stated as numbers instead of bytes."""
    small = numpy_helper.from_array(np.ones(500, np.float32), "small")
    numbers = onnx.helper.make_tensor("numbers", onnx.TensorProto.FLOAT, [200, 100], range(20_000))
    nodes = [
        make_node("MatMul", ["x", "large"], ["m"]),
        make_node("Add", ["m", "small"], ["y"]),
        make_node("MatMul", ["z", "numbers"], ["w"]),
    ]
    network = model(
        nodes,
        [value("x", [2, 600]), value("z", [1, 200])],
        ["y", "w"],
        [small, numpy_helper.from_array(WEIGHT, "large"), numbers],
    )
    file = tmp_path / "network.onnx"
    file.write_bytes(network.SerializeToString())
    return file


def test_all_but_the_large_weight_is_as_in_the_file(path: Path) -> None:
    content = read_without_weights(path)
    assert len(content) < path.stat().st_size - WEIGHT.nbytes + 200
    bare, whole = onnx.ModelProto.FromString(content), onnx.load(path)
    tensors = {tensor.name: tensor for tensor in bare.graph.initializer}
    weight = own_weight(path, tensors["large"])
    assert weight is not None
    assert np.array_equal(weight.view(np.float32).reshape(600, 500), WEIGHT)
    assert own_weight(path, tensors["small"]) is None
    for field in ("external_data", "data_location"):
        tensors["large"].ClearField(field)
    tensors["large"].raw_data = weight.tobytes()
    assert bare == whole


def test_the_graph_is_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_bare = read_onnx(path)
    monkeypatch.setattr("onchip.formats.onnx.file._SMALL_FILE_BYTES", 2**30)
    assert read_onnx(path) == from_bare


@pytest.mark.parametrize("length", [1_250_000, 1_100_000, 2**20 + 1])
def test_a_truncated_file_is_refused_as_ever(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match="truncated or not an ONNX file"):
        read_onnx(path)


@pytest.mark.parametrize("content", [b"\xff" * 2**21, b"\x0b" * 2**21, b"\x3a\xff\xff\xff\xff\x7f" + bytes(2**21)])
def test_what_is_no_protobuf_is_refused_as_ever(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_onnx(path)
