from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto
from onnx.helper import make_node, make_tensor

from onchip.formats.onnx.nodes import BITS
from support.onnx_networks import model, operator_names, read, value, weight


def test_every_number_type_of_onnx_has_bits() -> None:
    without = {TensorProto.UNDEFINED, TensorProto.STRING}
    assert set(BITS) == set(TensorProto.DataType.values()) - without


def test_a_quantised_model_has_the_bytes_its_types_say(tmp_path: Path) -> None:
    nodes = [
        make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
        make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
        make_node("DequantizeLinear", ["wq", "wscale"], ["wd"], axis=0),
        make_node("Transpose", ["wd"], ["wt"], perm=[1, 0]),
        make_node("MatMul", ["xd", "wt"], ["y"]),
    ]
    constants = [
        make_tensor("scale", TensorProto.FLOAT, [], [0.5]),
        make_tensor("zero", TensorProto.UINT8, [], [3]),
        weight("wq", [7, 9], TensorProto.INT4),
        weight("wscale", [7]),
    ]
    graph = read(model(nodes, [value("x", [5, 9])], ["y"], constants), tmp_path)
    assert operator_names(graph) == ["xq", "xd", "y"]
    assert graph.operators[-1].inputs == ("xd",)
    assert graph.operators[-1].parameters == ("wq", "wscale")
    sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    assert (sizes["x"], sizes["xq"], sizes["xd"], sizes["wq"]) == (180, 45, 180, 32)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_a_shape_that_was_quantised_follows_from_constants_all_the_same(opset: int, tmp_path: Path) -> None:
    """Quantisers also quantise the arithmetic of shapes."""
    nodes = [
        make_node("QuantizeLinear", ["sizes", "scale", "zero"], ["q"]),
        make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        make_node("Cast", ["d"], ["target"], to=TensorProto.INT64),
        make_node("Reshape", ["x", "target"], ["r"]),
        make_node("Relu", ["r"], ["y"]),
    ]
    constants = [
        make_tensor("sizes", TensorProto.FLOAT, [2], [6.0, 4.0]),
        make_tensor("scale", TensorProto.FLOAT, [], [0.5]),
        make_tensor("zero", TensorProto.INT8, [], [0]),
    ]
    graph = read(model(nodes, [value("x", [3, 8])], ["y"], constants, opset=opset), tmp_path)
    assert graph.tensor["y"].shape == (6, 4)
