"""A network quantised by onnxruntime in both ways: the three nodes of QDQ take the bytes of the QLinear operator."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onchip.answer.document import Reading
from onchip.api.networks import read_network
from onchip.api.plan import Request, plan_network
from onchip.api.run import RunValues, run_plan
from onchip.api.target import CapacityBudget, Target
from onchip.formats.own.plan_json import write_plan
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role
from onchip.search.budget.limits import Limits
from support.onnx_networks import make_node, model, value

quantization = pytest.importorskip("onnxruntime.quantization", reason="onnxruntime quantises: pip install sympy")
Reader: Any = quantization.CalibrationDataReader
CHANNELS = 8


def residual_network(blocks: int) -> onnx.ModelProto:
    """Return a stem, blocks of two convolutions and a residual addition, and a classifier, as in ResNet."""
    array = np.random.default_rng(3)
    weights: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def stated(name: str, *shape: int) -> str:
        weights.append(numpy_helper.from_array(array.normal(0, 0.2, shape).astype(np.float32), name))
        return name

    def convolution(name: str, source: str, size: int, channels: int) -> str:
        operands = [source, stated(f"{name}.w", CHANNELS, channels, size, size), stated(f"{name}.b", CHANNELS)]
        pads = [size // 2] * 4
        nodes.append(make_node("Conv", operands, [name], name=name, kernel_shape=[size, size], pads=pads))
        return name

    def relu(source: str) -> str:
        nodes.append(make_node("Relu", [source], [f"{source}.relu"], name=f"{source}.relu"))
        return f"{source}.relu"

    last = relu(convolution("stem", "x", 3, 3))
    nodes.append(make_node("MaxPool", [last], ["pool"], name="pool", kernel_shape=[2, 2], strides=[2, 2]))
    last = "pool"
    for block in range(blocks):
        first = relu(convolution(f"{block}.first", last, 3, CHANNELS))
        second = convolution(f"{block}.second", first, 1, CHANNELS)
        nodes.append(make_node("Add", [second, last], [f"{block}.add"], name=f"{block}.add"))
        last = relu(f"{block}.add")
    nodes.append(make_node("GlobalAveragePool", [last], ["mean"], name="mean"))
    nodes.append(make_node("Flatten", ["mean"], ["flat"], name="flat"))
    operands = ["flat", stated("head.w", 10, CHANNELS), stated("head.b", 10)]
    nodes.append(make_node("Gemm", operands, ["head"], name="head", transB=1))
    return model(nodes, [value("x", [1, 3, 16, 16])], [value("head", [1, 10])], weights, opset=17)


class Samples(Reader):  # type: ignore[misc]
    def __init__(self) -> None:
        array = np.random.default_rng(5)
        self.left = iter([{"x": array.normal(size=(1, 3, 16, 16)).astype(np.float32)} for _ in range(2)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def twin(how: str, folder: Path) -> Path:
    source, target = folder / "float.onnx", folder / f"{how}.onnx"
    onnx.save(residual_network(3), source)
    options = {"activation_type": quantization.QuantType.QUInt8, "weight_type": quantization.QuantType.QInt8}
    written = getattr(quantization.QuantFormat, how)
    quantization.quantize_static(str(source), str(target), Samples(), quant_format=written, **options)
    return target


def maps(graph: Graph) -> Counter[int]:
    return Counter(tensor.size_bytes for tensor in graph.tensors if tensor.role is not Role.PARAMETER)


def test_qdq_has_the_maps_of_its_qlinear_twin_byte_for_byte(tmp_path: Path) -> None:
    qdq, qlinear = (read_network(str(twin(how, tmp_path))) for how in ("QDQ", "QOperator"))
    assert maps(qdq) == maps(qlinear)
    assert Counter(one.kind for one in qdq.operators) == Counter(one.kind for one in qlinear.operators)
    whole = read_network(str(tmp_path / "float.onnx"))
    assert 2 * sum(maps(qdq).elements()) < sum(maps(whole).elements())


@pytest.mark.parametrize("how", ["QDQ", "QOperator"])
def test_its_plan_runs_with_the_values_of_the_file(how: str, tmp_path: Path) -> None:
    path = twin(how, tmp_path)
    document = plan_network(Request(str(path), Reading(), Target(CapacityBudget.M_R), limits=Limits(5.0))).document
    assert document is not None
    write_plan(document, tmp_path / "plan.json")
    execution = run_plan(tmp_path / "plan.json", str(path), RunValues())
    assert execution.is_right
    assert execution.relative_difference == 0.0
