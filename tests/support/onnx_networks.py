"""Small ONNX models for the tests, and the light models that come with onnx."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import NodeProto, TensorProto, ValueInfoProto
from onnx.defs import onnx_opset_version
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor, make_tensor_value_info

from onchip.answer.bindings import Bindings
from onchip.formats.networks import read_onnx
from onchip.ir.graph import Graph

LIGHT_MODELS = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))

Shape = Sequence[int | str | None]


def value(name: str, shape: Shape | None, element_type: int = TensorProto.FLOAT) -> ValueInfoProto:
    return make_tensor_value_info(name, element_type, shape)


def weight(name: str, shape: Sequence[int], element_type: int = TensorProto.FLOAT) -> TensorProto:
    """Return a parameter without a stored value, like a file whose external data is missing."""
    return TensorProto(name=name, dims=shape, data_type=element_type)


def integers(name: str, values: Sequence[int]) -> TensorProto:
    return make_tensor(name, TensorProto.INT64, [len(values)], values)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str | ValueInfoProto],
    parameters: Sequence[TensorProto] = (),
    *,
    opset: int = 21,
    declared: Sequence[ValueInfoProto] = (),
) -> onnx.ModelProto:
    """Build a model whose outputs need not be declared with a shape; skip the test if the installed onnx is too old."""
    if opset > onnx_opset_version():
        pytest.skip(f"opset {opset} needs a newer onnx than {onnx.__version__}")
    results = [onnx.ValueInfoProto(name=output) if isinstance(output, str) else output for output in outputs]
    graph = make_graph(nodes, "network", inputs, results, list(parameters), value_info=declared)
    return make_model(graph, opset_imports=[make_opsetid("", opset), make_opsetid("custom", 1)], ir_version=10)


def read(network: onnx.ModelProto, folder: Path, **dims: int) -> Graph:
    """Return the network, read through a file."""
    path = folder / "network.onnx"
    path.write_bytes(network.SerializeToString())
    return read_onnx(path, Bindings(dims))


def operator_names(graph: Graph) -> list[str]:
    return [operator.name for operator in graph.operators]


__all__ = ["LIGHT_MODELS", "integers", "make_node", "model", "operator_names", "read", "value", "weight"]
