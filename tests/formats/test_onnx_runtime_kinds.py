"""Kinds of onnxruntime's own domain have the shape and the type that onnxruntime gives their output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node, make_opsetid

from onchip.app.networks import read_network
from onchip.errors import InputError
from onchip.formats.onnx.runtime_kinds import RUNTIME_DOMAIN
from support.onnx_networks import model, value

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")
SCALE, ZERO = "scale", "zero"
X = ("x", SCALE, ZERO)
IMAGE, MATRIX, BYTE, FLOATING = [1, 6, 8, 8], [5, 6], TensorProto.UINT8, TensorProto.FLOAT
NODES = {
    "QLinearAdd": (IMAGE, BYTE, (*X, "row", SCALE, ZERO, SCALE, ZERO), {}),
    "QLinearMul": (IMAGE, BYTE, (*X, *X, SCALE, ZERO), {}),
    "QLinearSigmoid": (IMAGE, BYTE, (*X, SCALE, ZERO), {}),
    "QLinearLeakyRelu": (IMAGE, BYTE, (*X, SCALE, ZERO), {}),
    "QLinearSoftmax": (MATRIX, BYTE, (*X, "tiny", ZERO), {"opset": 13, "axis": -1}),
    "QLinearAveragePool": (
        IMAGE,
        BYTE,
        (*X, SCALE, ZERO),
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]},
    ),
    "QLinearGlobalAveragePool": (IMAGE, BYTE, (*X, SCALE, ZERO), {}),
    "QLinearConcat": (IMAGE, BYTE, (SCALE, ZERO, *X, *X), {"axis": 1}),
    "QGemm": (MATRIX, BYTE, (*X, "weight", SCALE, ZERO, "", SCALE, ZERO), {"transB": 1}),
    "QuantizeLinear": (IMAGE, FLOATING, X, {}),
    "DequantizeLinear": (IMAGE, BYTE, X, {}),
    "Gelu": (IMAGE, FLOATING, ("x",), {}),
}
PARAMETERS = [
    numpy_helper.from_array(np.asarray(0.1, np.float32), SCALE),
    numpy_helper.from_array(np.asarray(1 / 256, np.float32), "tiny"),
    numpy_helper.from_array(np.asarray(0, np.uint8), ZERO),
    numpy_helper.from_array(np.ones(8, np.uint8), "row"),
    numpy_helper.from_array(np.ones((4, 6), np.uint8), "weight"),
]


def saved(kind: str, folder: Path, **more: int) -> Path:
    shape, element_type, operands, attributes = NODES[kind]
    node = make_node(kind, operands, ["y"], name="op", domain=RUNTIME_DOMAIN, **attributes, **more)  # type: ignore[arg-type]
    used = [one for one in PARAMETERS if one.name in operands]
    network = model([node], [value("x", shape, element_type)], ["y"], used)
    network.opset_import.append(make_opsetid(RUNTIME_DOMAIN, 1))
    path = folder / "network.onnx"
    path.write_bytes(network.SerializeToString())
    return path


@pytest.mark.parametrize("kind", NODES)
def test_what_is_inferred_is_what_the_runtime_makes(kind: str, tmp_path: Path) -> None:
    path = saved(kind, tmp_path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    shape, element_type = NODES[kind][:2]
    given = np.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(element_type))
    (made,) = session.run(None, {"x": given})
    found = read_network(str(path)).tensor["y"]
    assert (found.shape, found.bits) == (made.shape, made.dtype.itemsize * 8)


def test_with_channels_last_nothing_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not declare the shape of 'y'"):
        read_network(str(saved("QLinearAveragePool", tmp_path, channels_last=1)))
