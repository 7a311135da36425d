"""Shape rules for the operators of onnxruntime's own domain, for which ONNX infers nothing.

Most kinds have the shape of a standard ONNX operator, which stands in for them. The other kinds have a rule here.

Letters in comments: B batch, S new tokens, L tokens of the keys, P tokens of the cache, T all tokens, N heads, H width
of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import onnx
from onnx import TensorProto
from onnx.defs import get_schema
from onnx.helper import make_node, make_tensor_type_proto
from onnx.shape_inference import infer_node_outputs

from onchip.formats.onnx.constants import Constants
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, Types, static_shape
from onchip.formats.onnx.specification import MissingFactError, Shape, TypedNode, broadcast, specified_types

Outputs: TypeAlias = list[tuple[int, Shape] | MissingFactError]
"""Element type and shape of each output, or the error that names the missing fact."""
Rule: TypeAlias = Callable[[TypedNode], Outputs]
"""Returns the outputs of a node; raises MissingFactError."""
_FOUR_BITS: Final = frozenset({TensorProto.INT4, TensorProto.UINT4})


def _divided(total: int, parts: int, what: str) -> int:
    """Return `total / parts`; raises MissingFactError if there is a remainder."""
    if parts < 1 or total % parts:
        raise MissingFactError(f"{what} {total} does not divide into {parts}")
    return total // parts


def _axis(axis: int, rank: int, what: str) -> int:
    """Return an axis counted from the front; raises MissingFactError if it is not one of `rank`."""
    if not -rank <= axis < rank:
        raise MissingFactError(f"its {what} {axis} is not one of {rank}")
    return axis % rank


def _skipped_norm(node: TypedNode) -> Outputs:
    """SkipLayerNormalization: also mean, inverse deviation and the sum that is normalised."""
    shape = node.rows(0)
    row = TensorProto.FLOAT, (*shape[:-1], 1)
    same = node.element_type(0), shape
    return [same, row, row, same]


def _simplified_norm(node: TypedNode) -> Outputs:
    """SimplifiedLayerNormalization: also the inverse deviation of each row."""
    shape = node.shape(0)
    axis = _axis(node.number("axis", -1), len(shape), "axis")
    kept = node.number("stash_type", TensorProto.FLOAT)
    return [(node.element_type(0), shape), (kept, (*shape[:axis], *(1 for _ in shape[axis:])))]


def _embedding(node: TypedNode, typed_by: int) -> Outputs:
    """EmbedLayerNormalization: token ids become rows; also a mask's lengths and the sum of embeddings."""
    batch, tokens = node.shape(0, 2)
    rows = node.element_type(typed_by), (batch, tokens, node.shape(2, 2)[1])
    return [rows, (TensorProto.INT32, (batch,)), rows]


def _fused_product(node: TypedNode) -> Outputs:
    """FusedMatMul: operands are matrices, either of which may lie transposed, with its batch inside."""
    first = _turned(node.shape(0), node.number("transA", 0), node.number("transBatchA", 0))
    second = _turned(node.shape(1), node.number("transB", 0), node.number("transBatchB", 0))
    if not first or not second:
        raise MissingFactError("an operand has no dimensions")
    columns = second[-1:] if len(second) > 1 else ()
    rows = first[-2:-1] if len(first) > 1 else ()
    if first[-1] != second[-2 if len(second) > 1 else -1]:
        raise MissingFactError(f"its operands {list(first)} and {list(second)} do not fit each other")
    try:
        batch = broadcast(first[:-2], second[:-2])
    except MissingFactError:
        what = f"its batches {list(first[:-2])} and {list(second[:-2])} do not fit each other"
        raise MissingFactError(what) from None
    return [(node.element_type(0), (*batch, *rows, *columns))]


def _turned(shape: Shape, is_transposed: int, has_batch_inside: int) -> Shape:
    """Return the shape of a matrix operand after its transpositions; vectors stay."""
    if has_batch_inside and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if is_transposed and len(shape) > 1 else shape


def _gathered_blocks(node: TypedNode) -> Outputs:
    """GatherBlockQuantized: rows of a quantised table; bytes hold several elements of the last axis."""
    data = node.shape(0)
    axis = _axis(node.number("gather_axis", 0), len(data), "gather_axis")
    if node.element_type(0) not in _FOUR_BITS:
        data = (*data[:-1], data[-1] * _divided(8, node.number("bits", 4), "a byte of"))
    return [(node.element_type(2), (*data[:axis], *node.shape(1), *data[axis + 1 :]))]


def _quantised_recurrence(node: TypedNode) -> Outputs:
    """DynamicQuantizeLSTM: all hidden states, the last one, and the last cell."""
    steps, batch, _ = node.shape(0, 3)
    directions, hidden = node.shape(1, 3)[0], node.number("hidden_size")
    last = TensorProto.FLOAT, (directions, batch, hidden)
    return [(TensorProto.FLOAT, (steps, directions, batch, hidden)), last, last]


def _padded(node: TypedNode) -> Outputs:
    """Pad: elements before and after each axis."""
    shape = node.rows(0)
    pads = node.integers(1, 2 * len(shape))
    sizes = (sum(each) for each in zip(shape, pads[: len(shape)], pads[len(shape) :], strict=True))
    return [(node.element_type(0), tuple(sizes))]


def _gathered_at_places(node: TypedNode) -> Outputs:
    """GatherND: the last axis of the indices is a position in the first axes of the data."""
    data, (*rows, length) = node.shape(0), node.rows(1)
    if length > len(data):
        raise MissingFactError(f"its indices have {length} numbers for {len(data)} axes")
    return [(node.element_type(0), (*rows, *data[length:]))]


def _projected(node: TypedNode, past_place: int, element_type: int) -> Outputs:
    batch, tokens, _ = node.shape(0, 3)
    _, columns = node.shape(1, 2)
    widths = tuple(node.attribute("qkv_hidden_sizes", ())) or (_divided(columns, 3, "its weight's width"),) * 3
    if len(widths) != 3:
        raise MissingFactError(f"its attribute 'qkv_hidden_sizes' has {len(widths)} numbers, not 3")
    heads = node.number("num_heads")
    depth = _divided(widths[1], heads, "the width of its keys")
    output = element_type, (batch, tokens, widths[2])
    past = node.shape(past_place, 5) if node.has(past_place) else None
    if past is not None and node.number("past_present_share_buffer", 0):
        return [output, (element_type, past)]
    earlier = 0 if past is None else past[3]
    return [output, (element_type, (2, batch, heads, earlier + tokens, depth))]


def _attention_of_heads(node: TypedNode, past_place: int, *, is_shared: bool) -> Outputs:
    """MultiHeadAttention, DecoderMaskedMultiHeadAttention: keys and values lie apart, in one tensor, or with queries.

    The cache of earlier tokens (B, N, P, H) is at `past_place`; with `is_shared` new tokens are written into it.
    """
    heads, element_type = node.number("num_heads"), node.element_type(0)
    query = node.shape(0, 3, 5)
    batch, tokens = query[:2]
    if len(query) == 5:  # B, S, N, 3, H
        length, depth, width = tokens, query[4], query[2] * query[4]
    elif node.has(1):
        length, depth, width = _keys_and_values(node, query, heads)
    else:
        width = _divided(query[2], 3, "the width of its query")
        length, depth = tokens, _divided(width, heads, "the width of its keys")
    value_depth = _divided(width, heads, "the width of its values")
    earlier = node.shape(past_place, 4)[2] if node.has(past_place) else 0
    total = earlier if is_shared and node.has(past_place) else earlier + length
    present = [(element_type, (batch, heads, total, each)) for each in (depth, value_depth)]
    return [(element_type, (batch, tokens, width)), *present, (element_type, (batch, heads, tokens, total))]


def _keys_and_values(node: TypedNode, query: Shape, heads: int) -> tuple[int, int, int]:
    """Return the number of keys, the width of a head of keys, and the width of all values."""
    key = node.shape(1, 3, 4, 5)
    if len(key) == 5:  # B, L, N, 2, H
        return key[1], key[4], key[2] * key[4]
    value = node.shape(2, 3, 4)
    length, depth = (key[1], _divided(query[2], heads, "the width of its queries")) if len(key) == 3 else key[2:]
    return length, depth, value[2] if len(value) == 3 else value[1] * value[3]


def _group_query_attention(node: TypedNode) -> Outputs:
    """GroupQueryAttention: heads of queries share keys and values; the cache holds the greater of its size and T."""
    heads, key_heads = node.number("num_heads"), node.number("kv_num_heads")
    batch, tokens, columns = node.shape(0, 3)
    if node.has(1):
        depth = _divided(columns, heads, "the width of its queries")
    else:
        depth = _divided(columns, heads + 2 * key_heads, "the width of its queries, keys and values")
    output = node.element_type(0), (batch, tokens, heads * depth)
    past = node.shape(3, 4) if node.has(3) else None
    kept = node.element_type(3) if past is not None else node.element_type(0)
    stored = depth if past is None else past[3]
    try:
        total = node.integers(6, 1)[0]
    except MissingFactError as missing:
        return [output, missing, missing, missing]
    present = kept, (batch, key_heads, total if past is None else max(total, past[2]), stored)
    return [output, present, present, (node.element_type(0), (batch, heads, tokens, total))]


RUNTIME_DOMAIN: Final = "com.microsoft"
_STAND_IN_OPSET: Final = 13
"""Version of ONNX's operators whose attributes the stand-ins have."""
_IN_DEFAULT_DOMAIN: Final = frozenset({"SimplifiedLayerNormalization"})
"""Kinds that onnxruntime adds to ONNX's own domain."""
_REQUIRED_OUTPUTS: Final[Mapping[str, int]] = {"QEmbedLayerNormalization": 2}
"""Kinds that require more than the first output."""
_RULES: Final[Mapping[str, Rule]] = {
    "SkipLayerNormalization": _skipped_norm,
    "SkipSimplifiedLayerNormalization": _skipped_norm,
    "SimplifiedLayerNormalization": _simplified_norm,
    "SkipGroupNorm": lambda node: [(node.element_type(0), node.shape(0))] * 2,
    "EmbedLayerNormalization": lambda node: _embedding(node, 2),
    "QEmbedLayerNormalization": lambda node: _embedding(node, 8)[:2],
    "MatMulNBits": lambda node: [(node.element_type(0), (*node.rows(0)[:-1], node.number("N")))],
    "FusedMatMul": _fused_product,
    "GatherBlockQuantized": _gathered_blocks,
    "DynamicQuantizeLSTM": _quantised_recurrence,
    "GatherND": _gathered_at_places,
    "GridSample": lambda node: [(node.element_type(0), (*node.shape(0, 4)[:2], *node.shape(1, 4)[1:3]))],
    "Pad": _padded,
    "Attention": lambda node: _projected(node, past_place=4, element_type=node.element_type(0)),
    "QAttention": lambda node: _projected(node, past_place=8, element_type=node.element_type(3)),
    "MultiHeadAttention": lambda node: _attention_of_heads(node, 6, is_shared=node.has(8)),
    "DecoderMaskedMultiHeadAttention": lambda node: _attention_of_heads(
        node, 5, is_shared=bool(node.number("past_present_share_buffer", 0))
    ),
    "GroupQueryAttention": _group_query_attention,
}


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
"""Map from ONNX's kind to the attributes that affect shapes or have no default."""


def is_runtime_kind(node: onnx.NodeProto) -> bool:
    """Return True if the node's kind has a shape rule here."""
    if node.domain == RUNTIME_DOMAIN:
        return node.op_type in _STAND_INS or node.op_type in _RULES
    return node.domain in DEFAULT_DOMAINS and node.op_type in _IN_DEFAULT_DOMAIN


def required_outputs(node: onnx.NodeProto) -> int:
    """Return the number of leading outputs that are tensors even if they are unread."""
    return _REQUIRED_OUTPUTS.get(node.op_type, 1)


def infer_runtime_kind(node: onnx.NodeProto, types: Types, constants: Constants) -> Types:
    """Return the types of the outputs that kind, attributes and inputs determine; empty for an unknown kind.

    `types` are those of all inputs.
    """
    if not is_runtime_kind(node):
        return {}
    try:
        found = _outputs(node, types, constants)
    except MissingFactError:  # the file may declare the shape; otherwise `missing_fact` names the missing fact
        return {}
    return {
        name: make_tensor_type_proto(*output)
        for name, output in zip(node.output, found, strict=False)
        if name and not isinstance(output, MissingFactError)
    }


def missing_fact(node: onnx.NodeProto, types: Types, constants: Constants) -> str | None:
    """Return the fact that the rule of the node's kind lacks; None without a rule or a missing fact."""
    if not is_runtime_kind(node):
        return None
    try:
        found = _outputs(node, types, constants)
    except MissingFactError as error:
        return str(error)
    return next((str(output) for output in found if isinstance(output, MissingFactError)), None)


def _outputs(node: onnx.NodeProto, types: Types, constants: Constants) -> Outputs:
    """Return the outputs by the node's rule; raises MissingFactError, also for a negative size."""
    if node.op_type in _STAND_INS and node.domain == RUNTIME_DOMAIN:
        found = _by_stand_in(node, types, constants)
    else:
        found = _RULES[node.op_type](TypedNode(node, types, constants))
    for output in found:
        if not isinstance(output, MissingFactError) and min(output[1], default=0) < 0:
            raise MissingFactError(f"its shape would be {list(output[1])}")
    return found


def _by_stand_in(node: onnx.NodeProto, types: Types, constants: Constants) -> Outputs:
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
    """Return the node as one of ONNX's kinds, over the inputs that set its shape; raises MissingFactError."""
    operands = [node.input[place] for place in stand.operands if place < len(node.input)]
    if not operands or not all(operands):
        raise MissingFactError("an input that says its shape is omitted")
    standing = make_node(stand.kind, operands, [node.output[0]], name=node.name)
    standing.attribute.extend(one for one in node.attribute if one.name in _ATTRIBUTES.get(stand.kind, ()))
    return standing


def _in_floating_point(kind: onnx.TypeProto) -> onnx.TypeProto:
    """Return the type of a tensor of the same shape with elements that every ONNX kind accepts."""
    is_boolean = kind.tensor_type.elem_type == TensorProto.BOOL
    return kind if is_boolean else make_tensor_type_proto(TensorProto.FLOAT, static_shape(kind))


def _with_channels_at(kind: onnx.TypeProto, source: int, target: int) -> onnx.TypeProto:
    """Return the type with axis `source` moved to `target`; unchanged without two static axes."""
    shape = static_shape(kind)
    if shape is None or len(shape) < 2:
        return kind
    sizes = list(shape)
    channels = sizes.pop(source)
    sizes.insert(len(sizes) if target == -1 else target, channels)
    return make_tensor_type_proto(kind.tensor_type.elem_type, sizes)
