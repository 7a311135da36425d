"""Shape rules for the attention kinds of onnxruntime's own domain.

Letters in comments: B batch, S new tokens, L tokens of the keys, P tokens of the cache, T all tokens, N heads, H width
of a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onchip.formats.onnx.runtime_nodes import MissingFactError, Outputs, Rule, RuntimeNode, Shape, divided


def _attention(node: RuntimeNode) -> Outputs:
    """Attention: queries, keys and values are the product of the input and one matrix."""
    return _projected(node, past_place=4, element_type=node.element_type(0))


def _quantised_attention(node: RuntimeNode) -> Outputs:
    """QAttention: the output has the type of the scales."""
    return _projected(node, past_place=8, element_type=node.element_type(3))


def _projected(node: RuntimeNode, past_place: int, element_type: int) -> Outputs:
    batch, tokens, _ = node.shape(0, 3)
    _, columns = node.shape(1, 2)
    widths = node.attribute_list("qkv_hidden_sizes") or (divided(columns, 3, "its weight's width"),) * 3
    if len(widths) != 3:
        raise MissingFactError(f"its attribute 'qkv_hidden_sizes' has {len(widths)} numbers, not 3")
    heads = node.attribute("num_heads")
    depth = divided(widths[1], heads, "the width of its keys")
    output = element_type, (batch, tokens, widths[2])
    past = node.shape(past_place, 5) if node.has_input(past_place) else None
    if past is not None and node.attribute("past_present_share_buffer", 0):
        return [output, (element_type, past)]
    earlier = 0 if past is None else past[3]
    return [output, (element_type, (2, batch, heads, earlier + tokens, depth))]


def _multi_head_attention(node: RuntimeNode) -> Outputs:
    """MultiHeadAttention: keys and values lie apart, or in one tensor with the keys, or with queries and keys."""
    heads, element_type = node.attribute("num_heads"), node.element_type(0)
    query = node.shape(0, 3, 5)
    batch, tokens = query[:2]
    if len(query) == 5:  # B, S, N, 3, H
        length, depth, width = tokens, query[4], query[2] * query[4]
        value_depth = depth
    else:
        length, depth, width = _keys_and_values(node, query, heads)
        value_depth = divided(width, heads, "the width of its values")
    output = element_type, (batch, tokens, width)
    if node.has_input(6):  # keys of earlier tokens: B, N, P, H
        past = node.shape(6, 4)
        total = past[2] if node.has_input(8) else past[2] + length
    else:
        total = length
    present = [(element_type, (batch, heads, total, each)) for each in (depth, value_depth)]
    return [output, *present, (element_type, (batch, heads, tokens, total))]


def _keys_and_values(node: RuntimeNode, query: Shape, heads: int) -> tuple[int, int, int]:
    """Return the number of keys, the width of a head of keys, and the width of all values."""
    if not node.has_input(1):
        raise MissingFactError("its key is omitted and its query does not hold it")
    key = node.shape(1, 3, 4, 5)
    if len(key) == 5:  # B, L, N, 2, H
        return key[1], key[4], key[2] * key[4]
    value = node.shape(2, 3, 4)
    length, depth = (key[1], divided(query[2], heads, "the width of its queries")) if len(key) == 3 else key[2:]
    return length, depth, value[2] if len(value) == 3 else value[1] * value[3]


def _decoder_masked_attention(node: RuntimeNode) -> Outputs:
    """DecoderMaskedMultiHeadAttention: one new token for each sequence."""
    heads, element_type = node.attribute("num_heads"), node.element_type(0)
    batch, tokens, columns = node.shape(0, 3)
    if node.has_input(1):
        length, depth, width = _keys_and_values(node, (batch, tokens, columns), heads)
    else:
        width = divided(columns, 3, "the width of its query")
        length, depth = tokens, divided(width, heads, "the width of its keys")
    value_depth = divided(width, heads, "the width of its values")
    output = element_type, (batch, tokens, width)
    past = node.shape(5, 4) if node.has_input(5) else None
    if past is not None and node.attribute("past_present_share_buffer", 0):
        total = past[2]
    else:
        total = length if past is None else past[2] + length
    present = [(element_type, (batch, heads, total, each)) for each in (depth, value_depth)]
    return [output, *present, (element_type, (batch, heads, tokens, total))]


def _group_query_attention(node: RuntimeNode) -> Outputs:
    """GroupQueryAttention: heads of queries share keys and values; the cache holds the greater of its size and T."""
    heads, key_heads = node.attribute("num_heads"), node.attribute("kv_num_heads")
    batch, tokens, columns = node.shape(0, 3)
    if node.has_input(1):
        depth = divided(columns, heads, "the width of its queries")
    else:
        depth = divided(columns, heads + 2 * key_heads, "the width of its queries, keys and values")
    output = node.element_type(0), (batch, tokens, heads * depth)
    past = node.shape(3, 4) if node.has_input(3) else None
    kept = node.element_type(3) if past is not None else node.element_type(0)
    stored = depth if past is None else past[3]
    try:
        total = node.integers(6, 1)[0]
    except MissingFactError as missing:
        return [output, missing, missing, missing]
    present = kept, (batch, key_heads, total if past is None else max(total, past[2]), stored)
    return [output, present, present, (node.element_type(0), (batch, heads, tokens, total))]


def _sparse_attention(node: RuntimeNode) -> Outputs:
    """SparseAttention: as GroupQueryAttention, over a cache of fixed size."""
    heads, key_heads = node.attribute("num_heads"), node.attribute("kv_num_heads")
    batch, tokens, columns = node.shape(0, 3)
    parts = heads if node.has_input(1) else heads + 2 * key_heads
    width = heads * divided(columns, parts, "the width of its queries")
    element_type = node.element_type(0)
    return [(element_type, (batch, tokens, width)), *((element_type, node.shape(place, 4)) for place in (3, 4))]


def _packed_attention(node: RuntimeNode) -> Outputs:
    """PackedAttention: tokens of all sequences in one row after another."""
    tokens, _ = node.shape(0, 2)
    _, columns = node.shape(1, 2)
    widths = node.attribute_list("qkv_hidden_sizes") or (divided(columns, 3, "its weight's width"),) * 3
    return [(node.element_type(0), (tokens, widths[-1]))]


ATTENTION_RULES: Final[Mapping[str, Rule]] = {
    "Attention": _attention,
    "QAttention": _quantised_attention,
    "MultiHeadAttention": _multi_head_attention,
    "DecoderMaskedMultiHeadAttention": _decoder_masked_attention,
    "GroupQueryAttention": _group_query_attention,
    "SparseAttention": _sparse_attention,
    "PackedAttention": _packed_attention,
}
