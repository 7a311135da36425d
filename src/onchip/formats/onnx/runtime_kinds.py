"""Kinds of onnxruntime's own domain, of which ONNX infers nothing: another node has the shape of their output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx
from onnx.defs import get_schema
from onnx.helper import make_node
from onnx.shape_inference import infer_node_outputs

RUNTIME_DOMAIN: Final = "com.microsoft"
_CHANNELS_LAST: Final = "channels_last"


@dataclass(frozen=True, slots=True)
class StandIn:
    """A kind of ONNX's own, the places of the inputs that it takes, and of the one whose element type is the output's.

    Without a place of the type it is floating point; one that is not there is `otherwise`.
    """

    kind: str
    operands: Sequence[int] = (0,)
    typed_by: int | None = 0
    otherwise: int = onnx.TensorProto.FLOAT


_STAND_INS: Final[Mapping[str, StandIn]] = {
    "QLinearAdd": StandIn("Add", (0, 3)),
    "QLinearMul": StandIn("Mul", (0, 3)),
    "QLinearWhere": StandIn("Where", (0, 1, 4), 1),
    "QLinearSigmoid": StandIn("Sigmoid"),
    "QLinearLeakyRelu": StandIn("LeakyRelu"),
    "QLinearSoftmax": StandIn("Softmax"),
    "QLinearReduceMean": StandIn("ReduceMean"),
    "QLinearAveragePool": StandIn("AveragePool"),
    "QLinearGlobalAveragePool": StandIn("GlobalAveragePool"),
    "QLinearConcat": StandIn("Concat", range(2, 3000, 3), 2),
    "QGemm": StandIn("Gemm", (0, 3), 8),
    "QuantizeLinear": StandIn("Identity", (0,), 2, onnx.TensorProto.UINT8),
    "DequantizeLinear": StandIn("Identity", (0,), 1),
    "MatMulIntegerToFloat": StandIn("MatMul", (0, 1), None),
    "DynamicQuantizeMatMul": StandIn("MatMul", (0, 1), None),
    "FusedConv": StandIn("Conv", (0, 1)),
    "FusedGemm": StandIn("Gemm", (0, 1)),
    **dict.fromkeys(("Gelu", "FastGelu", "QuickGelu", "BiasGelu"), StandIn("Identity")),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), StandIn("Identity")),
}
_ATTRIBUTES: Final[Mapping[str, Sequence[str]]] = {
    "Concat": ("axis",),
    "Conv": ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"),
    "Gemm": ("transA", "transB"),
    "AveragePool": ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"),
    "ReduceMean": ("axes", "keepdims"),
    "Softmax": ("axis",),
}
"""By ONNX's kind the attributes that say something of shapes, or that have no default."""


def infer_by_stand_in(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], opset: int
) -> Mapping[str, onnx.TypeProto]:
    """The type of the first output of a node of onnxruntime's domain; nothing where no node of ONNX's stands for it.

    With channels last none does. `types` are those of all inputs, `opset` is the version of ONNX's own operators.
    """
    stand = _STAND_INS.get(node.op_type) if node.domain == RUNTIME_DOMAIN else None
    if stand is None or any(one.name == _CHANNELS_LAST and one.i for one in node.attribute):
        return {}
    standing = _standing_node(node, stand)
    kinds = {operand: _in_floating_point(types[operand]) for operand in standing.input}
    try:
        found = infer_node_outputs(get_schema(stand.kind, opset, ""), standing, kinds)[node.output[0]]
    except Exception:  # onnx raises four unrelated types; whoever needs the shape says that it is unknown
        return {}
    place = len(node.input) if stand.typed_by is None else stand.typed_by
    is_there = place < len(node.input) and node.input[place]
    found.tensor_type.elem_type = types[node.input[place]].tensor_type.elem_type if is_there else stand.otherwise
    return {node.output[0]: found}


def _standing_node(node: onnx.NodeProto, stand: StandIn) -> onnx.NodeProto:
    """The node as one of ONNX's own kind, over the inputs that say its shape."""
    operands = [node.input[place] for place in stand.operands if place < len(node.input)]
    standing = make_node(stand.kind, operands, [node.output[0]], name=node.name)
    standing.attribute.extend(one for one in node.attribute if one.name in _ATTRIBUTES.get(stand.kind, ()))
    return standing


def _in_floating_point(kind: onnx.TypeProto) -> onnx.TypeProto:
    """The type of a tensor of the same shape whose elements any kind of ONNX's takes."""
    found = onnx.TypeProto()
    found.CopyFrom(kind)
    if found.tensor_type.elem_type != onnx.TensorProto.BOOL:
        found.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return found
