"""Shape rules for the operators of onnxruntime's own domain, of which ONNX infers nothing.

Most kinds have the shape of a standard ONNX operator, which stands in for them. The others have a rule in
`runtime_rules` or `runtime_attention`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx
from onnx import TensorProto
from onnx.defs import get_schema
from onnx.helper import make_node, make_tensor_type_proto
from onnx.shape_inference import infer_node_outputs

from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS
from onchip.formats.onnx.runtime_attention import ATTENTION_RULES
from onchip.formats.onnx.runtime_nodes import MissingFactError, Outputs, Rule, RuntimeNode
from onchip.formats.onnx.runtime_rules import RULES
from onchip.formats.onnx.specification import specified_types
from onchip.formats.onnx.types import static_shape

RUNTIME_DOMAIN: Final = "com.microsoft"
_STAND_IN_OPSET: Final = 13
"""The version of ONNX's operators whose attributes those of the stand-ins' kinds are."""
_IN_DEFAULT_DOMAIN: Final = frozenset({"SimplifiedLayerNormalization"})
"""Kinds that onnxruntime adds to ONNX's own domain."""
_REQUIRED_OUTPUTS: Final[Mapping[str, int]] = {
    "QEmbedLayerNormalization": 2,
    "SparseAttention": 3,
}
"""Kinds of which more than the first output is required."""
_ALL_RULES: Final[Mapping[str, Rule]] = {**RULES, **ATTENTION_RULES}


@dataclass(frozen=True, slots=True)
class StandIn:
    """A standard ONNX operator whose output has the same shape.

    `operands` are the places of the inputs that it takes. The element type of the output is that of the input at
    `typed_by`, or `otherwise` if that input is absent.
    """

    kind: str
    operands: Sequence[int] = (0,)
    typed_by: int | None = 0
    otherwise: int = TensorProto.FLOAT
    has_channels_last: bool = False
    """True if the channels are always the last axis; otherwise the attribute `channels_last` decides."""


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
    "QLinearConv": StandIn("Conv", (0, 3), 7),
    "QGemm": StandIn("Gemm", (0, 3), 8),
    "QuantizeLinear": StandIn("Identity", (0,), 2, TensorProto.UINT8),
    "DequantizeLinear": StandIn("Identity", (0,), 1),
    "MatMulIntegerToFloat": StandIn("MatMul", (0, 1), 2),
    "DynamicQuantizeMatMul": StandIn("MatMul", (0, 1), 0),
    "MatMulInteger16": StandIn("MatMul", (0, 1), None, TensorProto.INT32),
    "FusedConv": StandIn("Conv", (0, 1)),
    "FusedGemm": StandIn("Gemm", (0, 1)),
    "NhwcMaxPool": StandIn("MaxPool", has_channels_last=True),
    **dict.fromkeys(("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "BiasAdd", "BiasSoftmax"), StandIn("Identity")),
    **dict.fromkeys(("BiasDropout", "Inverse", "Trilu", "RotaryEmbedding", "GroupNorm"), StandIn("Identity")),
    **dict.fromkeys(("LongformerAttention", "MoE", "QMoE", "ScaledSiLU", "GatedAdd"), StandIn("Identity")),
}
_ATTRIBUTES: Final[Mapping[str, Sequence[str]]] = {
    "Concat": ("axis",),
    "Conv": ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"),
    "Gemm": ("transA", "transB"),
    "AveragePool": ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"),
    "MaxPool": ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"),
    "ReduceMean": ("axes", "keepdims"),
    "Softmax": ("axis",),
}
"""By ONNX's kind the attributes that say something of shapes, or that have no default."""


def is_runtime_kind(node: onnx.NodeProto) -> bool:
    """True if the node's kind has a shape rule here."""
    if node.domain == RUNTIME_DOMAIN:
        return node.op_type in _STAND_INS or node.op_type in _ALL_RULES
    return node.domain in DEFAULT_DOMAINS and node.op_type in _IN_DEFAULT_DOMAIN


def required_outputs(node: onnx.NodeProto) -> int:
    """Return the number of first outputs that are tensors even if nobody reads them."""
    return _REQUIRED_OUTPUTS.get(node.op_type, 1)


def infer_runtime_kind(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], constants: Constants
) -> Mapping[str, onnx.TypeProto]:
    """Return the types of the outputs that the node's kind, attributes and inputs fix; empty for an unknown kind.

    `types` are those of all inputs.
    """
    if not is_runtime_kind(node):
        return {}
    try:
        found = _outputs(node, types, constants)
    except MissingFactError:  # the file may declare the shape; otherwise `missing_fact` says what is missing
        return {}
    return {
        name: make_tensor_type_proto(*output)
        for name, output in zip(node.output, found, strict=False)
        if name and not isinstance(output, MissingFactError)
    }


def missing_fact(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], constants: Constants) -> str | None:
    """Return what the rule for the node's kind lacks; None if there is no rule or it lacks nothing."""
    if not is_runtime_kind(node):
        return None
    try:
        found = _outputs(node, types, constants)
    except MissingFactError as error:
        return str(error)
    return next((str(output) for output in found if isinstance(output, MissingFactError)), None)


def _outputs(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], constants: Constants) -> Outputs:
    """Return what the rule finds; raises MissingFactError, also for a negative size."""
    if node.op_type in _STAND_INS and node.domain == RUNTIME_DOMAIN:
        found = _by_stand_in(node, types, constants)
    else:
        found = _ALL_RULES[node.op_type](RuntimeNode(node, types, constants))
    for output in found:
        if not isinstance(output, MissingFactError) and min(output[1], default=0) < 0:
            raise MissingFactError(f"its shape would be {list(output[1])}")
    return found


def _by_stand_in(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], constants: Constants) -> Outputs:
    """Return the first output; raises MissingFactError if ONNX finds no shape for the stand-in."""
    stand = _STAND_INS[node.op_type]
    standing = _standing_node(node, stand)
    is_turned = stand.has_channels_last or any(one.name == "channels_last" and one.i for one in node.attribute)
    kinds = {operand: _in_floating_point(types[operand]) for operand in standing.input}
    if is_turned:
        kinds[node.input[0]] = _with_channels_at(kinds[node.input[0]], source=-1, target=1)
    try:
        found = infer_node_outputs(get_schema(stand.kind, _STAND_IN_OPSET, ""), standing, kinds)[node.output[0]]
    except Exception:  # onnx raises four unrelated types
        raise MissingFactError(f"ONNX finds no shape of {stand.kind}, which has the same") from None
    found = specified_types(standing, kinds, constants, _STAND_IN_OPSET).get(node.output[0], found)
    shape = static_shape(_with_channels_at(found, source=1, target=-1) if is_turned else found)
    if shape is None:
        raise MissingFactError(f"ONNX finds no shape of {stand.kind}, which has the same")
    place = len(node.input) if stand.typed_by is None else stand.typed_by
    is_there = place < len(node.input) and node.input[place]
    return [(types[node.input[place]].tensor_type.elem_type if is_there else stand.otherwise, shape)]


def _standing_node(node: onnx.NodeProto, stand: StandIn) -> onnx.NodeProto:
    """The node as one of ONNX's own kind, over the inputs that say its shape; raises MissingFactError without them."""
    operands = [node.input[place] for place in stand.operands if place < len(node.input)]
    if not operands or not all(operands):
        raise MissingFactError("an input that says its shape is omitted")
    standing = make_node(stand.kind, operands, [node.output[0]], name=node.name)
    standing.attribute.extend(one for one in node.attribute if one.name in _ATTRIBUTES.get(stand.kind, ()))
    return standing


def _in_floating_point(kind: onnx.TypeProto) -> onnx.TypeProto:
    """The type of a tensor of the same shape whose elements any kind of ONNX's takes."""
    found = onnx.TypeProto()
    found.CopyFrom(kind)
    if found.tensor_type.elem_type != TensorProto.BOOL:
        found.tensor_type.elem_type = TensorProto.FLOAT
    return found


def _with_channels_at(kind: onnx.TypeProto, source: int, target: int) -> onnx.TypeProto:
    """The type with the axis `source` moved to `target`; unchanged if it has no static shape of two axes or more."""
    shape = static_shape(kind)
    if shape is None or len(shape) < 2:
        return kind
    sizes = list(shape)
    channels = sizes.pop(source)
    sizes.insert(len(sizes) if target == -1 else target, channels)
    return make_tensor_type_proto(kind.tensor_type.elem_type, sizes)
