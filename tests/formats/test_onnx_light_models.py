from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest

from onchip.formats.networks import read_onnx
from onchip.transform.rewrite.activations import fuse
from support.onnx_networks import LIGHT_MODELS


@pytest.mark.parametrize("path", LIGHT_MODELS, ids=lambda path: path.stem)
def test_a_light_model_reads_as_an_independent_count_says(path: Path) -> None:
    """Nodes of these nine models that are not operators are made weights, views, or fused Relu or BatchNorm."""
    raw = read_onnx(path)
    fused = fuse(raw)
    network = onnx.load(path)
    kinds = Counter(node.op_type for node in network.graph.node)
    away = kinds["ConstantOfShape"] + kinds["Unsqueeze"] + kinds["Reshape"] + kinds["Dropout"]
    assert len(raw.operators) == len(network.graph.node) - away
    writer = {output: node.op_type for node in network.graph.node for output in node.output}
    folded = [n for n in network.graph.node if n.op_type == "BatchNormalization" and writer[n.input[0]] == "Conv"]
    assert len(fused.operators) == len(raw.operators) - kinds["Relu"] - len(folded)
    assert sum(len(operator.members) or 1 for operator in fused.operators) == len(raw.operators)


@pytest.mark.parametrize("path", LIGHT_MODELS, ids=lambda path: path.stem)
def test_a_light_model_has_the_shapes_onnx_infers_for_the_whole_model(path: Path) -> None:
    whole = onnx.shape_inference.infer_shapes(onnx.load(path), strict_mode=True, data_prop=True)
    expected = {
        known.name: tuple(dimension.dim_value for dimension in known.type.tensor_type.shape.dim)
        for known in (*whole.graph.value_info, *whole.graph.input, *whole.graph.output)
    }
    for tensor in read_onnx(path).tensors:
        assert tensor.shape == expected[tensor.name]
        assert tensor.bits == 32


def test_the_light_resnet50_is_torchvision_s_with_a_softmax() -> None:
    """Torchvision's model has 174 operators, 72 fused, and M_R is 2,408,448 bytes."""
    (path,) = (path for path in LIGHT_MODELS if path.stem == "light_resnet50")
    raw = read_onnx(path)
    fused = fuse(raw)
    assert (len(raw.operators), len(fused.operators)) == (174 + 1, 72 + 1)
    assert raw.operators[-1].kind == "Softmax"
    for graph in (raw.with_bits(8), fused.with_bits(8)):
        needs = [sum(graph.tensor[name].size_bytes for name in {*o.inputs, *o.outputs}) for o in graph.operators]
        assert max(needs) == 2_408_448
