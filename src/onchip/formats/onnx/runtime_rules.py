"""Shape rules for the other kinds of onnxruntime's own domain: embeddings, norms, packed weights, lookups."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Final

from onnx import TensorProto

from onchip.formats.onnx.runtime_nodes import MissingFactError, Outputs, Rule, RuntimeNode, Shape, divided

_FOUR_BITS: Final = frozenset({TensorProto.INT4, TensorProto.UINT4})


def _skipped_norm(node: RuntimeNode) -> Outputs:
    """SkipLayerNormalization: also mean, inverse deviation and the sum that is normalised."""
    shape = node.rows(0)
    row = TensorProto.FLOAT, (*shape[:-1], 1)
    same = node.element_type(0), shape
    return [same, row, row, same]


def _simplified_norm(node: RuntimeNode) -> Outputs:
    """SimplifiedLayerNormalization: also the inverse deviation of each row."""
    shape = node.shape(0)
    axis = node.attribute("axis", -1)
    if not -len(shape) <= axis < len(shape):
        raise MissingFactError(f"its axis {axis} is not one of {len(shape)}")
    axis %= len(shape)
    kept = node.attribute("stash_type", TensorProto.FLOAT)
    return [(node.element_type(0), shape), (kept, (*shape[:axis], *(1 for _ in shape[axis:])))]


def _skipped_group_norm(node: RuntimeNode) -> Outputs:
    same = node.element_type(0), node.shape(0)
    return [same, same]


def _embedding(node: RuntimeNode) -> Outputs:
    """EmbedLayerNormalization: token ids become rows; also a mask's lengths and the sum of embeddings."""
    batch, tokens = node.shape(0, 2)
    rows = node.element_type(2), (batch, tokens, node.shape(2, 2)[1])
    return [rows, (TensorProto.INT32, (batch,)), rows]


def _quantised_embedding(node: RuntimeNode) -> Outputs:
    batch, tokens = node.shape(0, 2)
    rows = node.element_type(8), (batch, tokens, node.shape(2, 2)[1])
    return [rows, (TensorProto.INT32, (batch,))]


def _rows_of_width(node: RuntimeNode) -> Outputs:
    """MatMulNBits: the attribute N is the number of columns of the packed weight."""
    rows = node.rows(0)[:-1]
    return [(node.element_type(0), (*rows, node.attribute("N")))]


def _packed_for_bits_and_bytes(node: RuntimeNode) -> Outputs:
    """MatMulBnb4: as MatMulNBits; a weight that is not transposed has K columns."""
    columns = node.attribute("N" if node.attribute("transB", 1) else "K")
    return [(node.element_type(0), (*node.rows(0)[:-1], columns))]


def _fused_product(node: RuntimeNode) -> Outputs:
    """FusedMatMul: operands are matrices, either of which may lie transposed, with its batch inside."""
    first = _turned(node.shape(0), node.attribute("transA", 0), node.attribute("transBatchA", 0))
    second = _turned(node.shape(1), node.attribute("transB", 0), node.attribute("transBatchB", 0))
    if not first or not second:
        raise MissingFactError("an operand has no dimensions")
    columns = second[-1:] if len(second) > 1 else ()
    rows = first[-2:-1] if len(first) > 1 else ()
    if first[-1] != second[-2 if len(second) > 1 else -1]:
        raise MissingFactError(f"its operands {list(first)} and {list(second)} do not fit each other")
    return [(node.element_type(0), (*_broadcast(first[:-2], second[:-2]), *rows, *columns))]


def _turned(shape: Shape, is_transposed: int, has_batch_inside: int) -> Shape:
    """The shape of a matrix operand after it is turned; vectors are never."""
    if has_batch_inside and len(shape) > 2:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if is_transposed and len(shape) > 1 else shape


def _broadcast(first: Shape, second: Shape) -> Shape:
    sizes = []
    for one, other in zip_longest(reversed(first), reversed(second), fillvalue=1):
        if one != other and 1 not in (one, other):
            raise MissingFactError(f"its batches {list(first)} and {list(second)} do not fit each other")
        sizes.append(other if one == 1 else one)
    return tuple(reversed(sizes))


def _gathered_blocks(node: RuntimeNode) -> Outputs:
    """GatherBlockQuantized: rows of a quantised table; bytes hold several elements of the last axis."""
    data, axis = node.shape(0), node.attribute("gather_axis", 0)
    if not -len(data) <= axis < len(data):
        raise MissingFactError(f"its gather_axis {axis} is not one of {len(data)}")
    axis %= len(data)
    if node.element_type(0) not in _FOUR_BITS:
        data = (*data[:-1], data[-1] * divided(8, node.attribute("bits", 4), "a byte of"))
    return [(node.element_type(2), (*data[:axis], *node.shape(1), *data[axis + 1 :]))]


def _quantised_recurrence(node: RuntimeNode) -> Outputs:
    """DynamicQuantizeLSTM: all hidden states, the last one, and the last cell."""
    steps, batch, _ = node.shape(0, 3)
    directions, hidden = node.shape(1, 3)[0], node.attribute("hidden_size")
    last = TensorProto.FLOAT, (directions, batch, hidden)
    return [(TensorProto.FLOAT, (steps, directions, batch, hidden)), last, last]


def _split_and_gated(node: RuntimeNode) -> Outputs:
    """BiasSplitGelu: one half of each row gates the other."""
    *rows, width = node.rows(0)
    return [(node.element_type(0), (*rows, divided(width, 2, "its width")))]


def _cropped(node: RuntimeNode) -> Outputs:
    """CropAndResize: a window of fixed size for each region."""
    size = node.integers(3, 2)
    return [(node.element_type(0), (node.shape(1, 2)[0], node.shape(0, 4)[1], *size))]


def _unsqueezed(node: RuntimeNode) -> Outputs:
    """ExpandDims: one more axis."""
    shape, axis = node.shape(0), node.integers(1, 1)[0]
    if not -len(shape) - 1 <= axis <= len(shape):
        raise MissingFactError(f"its axis {axis} is not one of {len(shape) + 1}")
    axis %= len(shape) + 1
    return [(node.element_type(0), (*shape[:axis], 1, *shape[axis:]))]


def _distances(node: RuntimeNode) -> Outputs:
    """CDist: every row of one operand with every row of the other."""
    return [(node.element_type(0), (node.shape(0, 2)[0], node.shape(1, 2)[0]))]


def _unfolded(node: RuntimeNode) -> Outputs:
    """UnfoldTensor: windows along one axis, their elements as a last axis."""
    shape, axis, size = node.shape(0), node.attribute("dim", -1), node.attribute("size")
    if not -len(shape) <= axis < len(shape):
        raise MissingFactError(f"its dim {axis} is not one of {len(shape)}")
    axis %= len(shape)
    windows = (shape[axis] - size) // max(1, node.attribute("step", 1)) + 1
    return [(node.element_type(0), (*shape[:axis], windows, *shape[axis + 1 :], size))]


def _padded(node: RuntimeNode) -> Outputs:
    """Pad: so many elements before and after each axis."""
    shape = node.rows(0)
    pads = node.integers(1, 2 * len(shape))
    sizes = (sum(each) for each in zip(shape, pads[: len(shape)], pads[len(shape) :], strict=True))
    return [(node.element_type(0), tuple(sizes))]


def _gathered_at_places(node: RuntimeNode) -> Outputs:
    """GatherND: the last axis of the indices is a place in the first axes of the data."""
    data, (*rows, length) = node.shape(0), node.rows(1)
    if length > len(data):
        raise MissingFactError(f"its indices have {length} numbers for {len(data)} axes")
    return [(node.element_type(0), (*rows, *data[length:]))]


def _sampled(node: RuntimeNode) -> Outputs:
    """GridSample: the grid says the size of the map."""
    return [(node.element_type(0), (*node.shape(0, 4)[:2], *node.shape(1, 4)[1:3]))]


RULES: Final[Mapping[str, Rule]] = {
    "SkipLayerNormalization": _skipped_norm,
    "SkipSimplifiedLayerNormalization": _skipped_norm,
    "SimplifiedLayerNormalization": _simplified_norm,
    "SkipGroupNorm": _skipped_group_norm,
    "EmbedLayerNormalization": _embedding,
    "QEmbedLayerNormalization": _quantised_embedding,
    "MatMulNBits": _rows_of_width,
    "MatMulBnb4": _packed_for_bits_and_bytes,
    "FusedMatMul": _fused_product,
    "TransposeMatMul": _fused_product,
    "GatherBlockQuantized": _gathered_blocks,
    "DynamicQuantizeLSTM": _quantised_recurrence,
    "BiasSplitGelu": _split_and_gated,
    "CropAndResize": _cropped,
    "GatherND": _gathered_at_places,
    "GridSample": _sampled,
    "Pad": _padded,
    "ExpandDims": _unsqueezed,
    "CDist": _distances,
    "UnfoldTensor": _unfolded,
}
