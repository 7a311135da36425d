"""Attention as loop nests: the product of queries and keys, and the product of scores and values.

Query heads that share keys and values are rows of one product, since their queries meet the same keys. With a KV cache
the queries also meet the keys and values of earlier tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import SEEN_SHAPES, Operator
from onchip.ir.window import integer
from onchip.ops.windows.sliding_windows import NoLayerError, Shape

PROJECTED: Final = "com.microsoft::Attention"
"""The kind that computes queries, keys and values itself, with one matrix."""
ATTENTION: Final = frozenset(
    {"Attention", "com.microsoft::MultiHeadAttention", "com.microsoft::GroupQueryAttention", PROJECTED}
)
_QUERY_HEADS: Final = ("q_num_heads", "num_heads")
_KEY_HEADS: Final = ("kv_num_heads", "num_heads")


@dataclass(frozen=True, slots=True)
class AttentionHeads:
    """The shape of an attention: `batch` key heads in total, each shared by `group` query heads.

    `queries` and `keys` are the number of queries per query head and of keys per key head.
    """

    batch: int
    queries: int
    keys: int
    query_width: int
    value_width: int
    group: int = 1

    @property
    def scores(self) -> Layer:
        """Return the loop nest of queries times keys, a group for each head of keys."""
        return Layer(n=self.group * self.queries, k=self.keys, c=self.query_width, g=self.batch)

    @property
    def values(self) -> Layer:
        """Return the loop nest of scores times values, a group for each head of values."""
        return Layer(n=self.group * self.queries, k=self.value_width, c=self.keys, g=self.batch)


@dataclass(frozen=True, slots=True)
class _CutOperands:
    """The shapes of queries, keys and values with a head axis each, and the shapes of the other operands (`beside`)."""

    queries: Shape
    keys: Shape
    values: Shape
    beside: Sequence[Shape]

    @classmethod
    def of(cls, operator: Operator, shapes: Sequence[Shape]) -> _CutOperands:
        """Return the operands of an attention; raises NoLayerError if heads are unknown or shapes inconsistent."""
        listed = operator.attributes.get("input_shapes", operator.attributes.get(SEEN_SHAPES))
        sights = [_sizes(shape) for shape in listed] if isinstance(listed, list) else []
        operands = [*sights, *shapes[1 + len(sights) :]]
        if len(operands) < 3:
            raise NoLayerError("nothing says how its operands are cut into heads")
        queries = _cut(operands[0], _number(operator, _QUERY_HEADS))
        keys, values = (_cut(shape, _number(operator, _KEY_HEADS)) for shape in operands[1:3])
        if min(len(queries), len(keys), len(values)) < 3:
            raise NoLayerError("nothing says how its operands are cut into heads")
        if keys[:-1] != values[:-1] or queries[-1] != keys[-1]:
            raise NoLayerError("its queries, keys and values do not fit each other")
        if queries[:-3] != keys[:-3] or queries[-3] % keys[-3]:
            raise NoLayerError("its heads share keys or values unevenly")
        return cls(queries, keys, values, operands[3:])

    @property
    def cache_place(self) -> int | None:
        """Return the index in `beside` of the cached keys, directly before their values; None without a cache.

        The cache is the last adjacent pair of operands that have the heads and widths of keys and values.
        """
        (*heads, _, depth), width = self.keys, self.values[-1]
        for place, (keys, values) in reversed(list(enumerate(pairwise(self.beside)))):
            if len(keys) == 4 and ([*keys[:2]], keys[3]) == (heads, depth) and values == (*keys[:3], width):
                return place
        return None


def heads_of(operator: Operator, shapes: Sequence[Shape], present: Shape | None = None) -> AttentionHeads:
    """Return the heads of an attention; `shapes` are output, inputs and parameters, with queries, keys, values first.

    The export's `input_shapes` give the split of queries, keys and values into heads; otherwise the numbers of heads
    do. `present` is the shape of all keys, cached ones included, if the operator writes them. Raises NoLayerError if
    the split is unknown.
    """
    cut = _CutOperands.of(operator, shapes)
    (*heads, new, depth), place = cut.keys, cut.cache_place
    met = new if place is None else new + cut.beside[place][2]
    if present is not None and len(present) == 4 and ([*present[:2]], present[3]) == (heads, depth):
        met = present[2]
    group = cut.queries[-3] // cut.keys[-3]
    return AttentionHeads(prod(heads), cut.queries[-2], met, depth, cut.values[-1], group)


def cached_operands(operator: Operator, shapes: Sequence[Shape]) -> tuple[str, str] | None:
    """Return the names of the cached keys and values, or None without a cache; raises NoLayerError."""
    place = _CutOperands.of(operator, shapes).cache_place
    if place is None:
        return None
    names = (*operator.inputs, *operator.parameters)
    return names[3 + place], names[4 + place]


def present_keys(graph: Graph, operator: Operator) -> Shape | None:
    """Return the shape of the second output, all keys of an attention with a cache; None without that output."""
    return graph.tensor[operator.outputs[1]].shape if len(operator.outputs) > 1 else None


def attention(operator: Operator, shapes: Sequence[Shape], present: Shape | None = None) -> Mapping[str, Layer]:
    """Return two products per head, scores and their weighted sums of values; the softmax costs nothing.

    Raises NoLayerError if the split of the operands into heads is unknown.
    """
    if operator.kind == PROJECTED:
        return _with_projection(operator, shapes)
    heads = heads_of(operator, shapes, present)
    return {"scores": heads.scores, "values": heads.values}


def _with_projection(operator: Operator, shapes: Sequence[Shape]) -> Mapping[str, Layer]:
    """Return projection, scores and values: the input times one matrix gives queries, keys and values side by side."""
    output, source, *others = shapes
    heads = integer(operator, "num_heads", 0)
    weight = next((shape for shape in others if len(shape) == 2 and shape[0] == source[-1]), None)
    if len(source) != 3 or weight is None or heads < 1:
        raise NoLayerError("nothing says how its operands are cut into heads")
    batch, rows, features = source
    widths = operator.attributes.get("qkv_hidden_sizes")
    columns = _sizes(widths) or (weight[1] // 3,) * 3
    if len(columns) != 3 or sum(columns) != weight[1] or columns[0] != columns[1] or columns[2] != output[-1]:
        raise NoLayerError("its weights are not those of queries, keys and values")
    past = next((shape for shape in others if len(shape) == 5 and shape[:3] == (2, batch, heads)), None)
    keys = rows + (past[3] if past else 0)
    parts = AttentionHeads(batch * heads, rows, keys, columns[0] // heads, columns[2] // heads)
    projection = Layer(n=batch * rows, c=features, k=weight[1])
    return {"projection": projection, "scores": parts.scores, "values": parts.values}


def _cut(shape: Shape, heads: int | None) -> Shape:
    """Split rows of concatenated heads: batch, heads, rows, width."""
    if heads is None or len(shape) != 3:
        return shape
    batch, rows, width = shape
    if heads < 1 or width % heads:
        raise NoLayerError(f"its width {width} does not make {heads} heads")
    return batch, heads, rows, width // heads


def _number(operator: Operator, names: Sequence[str]) -> int | None:
    """Return the number of heads that the first attribute present gives, or None without such an attribute."""
    return next((integer(operator, name, 0) for name in names if name in operator.attributes), None)


def _sizes(shape: object) -> Shape:
    return tuple(size for size in shape if isinstance(size, int)) if isinstance(shape, list) else ()
