"""The transform that decomposes attention into operators for scores, softmax and values, with tensors in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.contractions.attention import (
    ATTENTION,
    PROJECTED,
    AttentionHeads,
    cached_operands,
    heads_of,
    present_keys,
)
from onchip.ops.windows.sliding_windows import NoLayerError, Shape

HEAD_PRODUCTS = "HeadProducts"
"""The kind of `batch` matrix products of rows x depth times depth x columns; its attributes give the numbers."""
APPENDED = "Appended"
"""The kind that writes a cache's contents, then the new elements."""


@dataclass(frozen=True, slots=True)
class AttentionApart:
    """The transform from attention to three operators: `NAME (scores)`, `NAME (softmax)` and NAME itself, the values.

    It has no preconditions. It keeps an attention with unknown heads or shapes, or that computes its queries itself.
    Every other one becomes two operators of kind HEAD_PRODUCTS, each of one loop nest, with a softmax between, which
    reads masks and other operands. With a cache, or if all keys and values are written, `NAME (keys)` and `NAME (cached
    values)` make these first. Elements of scores have the output's bits.
    """

    def __call__(self, graph: Graph) -> Graph:
        """Return the same network; existing names of tensors and operators keep their meaning."""
        operators: list[Operator] = []
        tensors = list(graph.tensors)
        for operator in graph.operators:
            shapes = _shapes(graph, operator) if operator.kind in ATTENTION - {PROJECTED} else None
            heads = None if shapes is None else _heads(graph, operator, shapes)
            if shapes is None or heads is None:
                operators.append(operator)
                continue
            taken = _Taken(graph, operator, heads, cached_operands(operator, shapes))
            operators += taken.operators
            tensors += taken.tensors
        return Graph(graph.name, tuple(tensors), tuple(operators))


def _shapes(graph: Graph, operator: Operator) -> Sequence[Shape] | None:
    """Return the shapes of the first output and all inputs; None if one is unknown or an operand is missing."""
    names = (operator.outputs[0], *operator.inputs, *operator.parameters)
    known = [shape for name in names if (shape := graph.tensor[name].shape) is not None]
    has_all = len(operator.inputs) >= 3 and len(known) == len(names) and len(operator.outputs) in (1, 3)
    return known if has_all else None


def _heads(graph: Graph, operator: Operator, shapes: Sequence[Shape]) -> AttentionHeads | None:
    try:
        return heads_of(operator, shapes, present_keys(graph, operator))
    except NoLayerError:
        return None


class _Taken:
    """An attention that is decomposed; `tensors` are those between its operators."""

    def __init__(self, graph: Graph, operator: Operator, heads: AttentionHeads, cache: tuple[str, str] | None) -> None:
        self.graph, self.operator, self.heads = graph, operator, heads
        self.tensors: list[Tensor] = []
        queries, keys, values, *beside = operator.inputs
        self.operators: list[Operator] = []
        if cache is not None or len(operator.outputs) > 1:
            beside = [name for name in beside if cache is None or name not in cache]
            keys, values = (
                self._with_cache(at, name, None if cache is None else cache[at])
                for at, name in enumerate((keys, values))
            )
        scores, weighted = (self._between(what) for what in ("scores", "softmax"))
        parameters = tuple(name for name in operator.parameters if cache is None or name not in cache)
        self.operators += [
            _products(scores.name, (queries, keys), scores.name, heads.scores),
            Operator(weighted.name, "Softmax", (scores.name, *beside), (weighted.name,), parameters),
            _products(operator.name, (weighted.name, values), operator.outputs[0], heads.values),
        ]

    def _with_cache(self, at: int, new: str, cached: str | None) -> str:
        """Add the operator that appends new keys (at 0) or values (at 1) to the cached ones; return its output."""
        operator, heads = self.operator, self.heads
        name = f"{operator.name} ({('keys', 'cached values')[at]})"
        width = (heads.query_width, heads.value_width)[at]
        if len(operator.outputs) > 1:
            written = operator.outputs[1 + at]
        else:
            bits = self.graph.tensor[new].bits or 0
            self.tensors.append(Tensor.of_shape(name, (heads.batch, heads.keys, width), bits, Role.ACTIVATION))
            written = name
        is_constant = cached is not None and self.graph.tensor[cached].role is Role.PARAMETER
        read = (new,) if cached is None or is_constant else (cached, new)
        parameters = (cached,) if cached is not None and is_constant else ()
        self.operators.append(Operator(name, APPENDED, read, (written,), parameters))
        return written

    def _between(self, what: str) -> Tensor:
        """Add a tensor with an element for each query and key of each head."""
        heads = self.heads
        shape = (heads.batch * heads.group, heads.queries, heads.keys)
        bits = self.graph.tensor[self.operator.outputs[0]].bits
        tensor = Tensor.of_shape(f"{self.operator.name} ({what})", shape, bits or 0, Role.ACTIVATION)
        self.tensors.append(tensor)
        return tensor


def _products(name: str, inputs: tuple[str, str], output: str, nest: Layer) -> Operator:
    said = {"batch": nest.g, "rows": nest.n, "depth": nest.c, "columns": nest.k}
    return Operator(name, HEAD_PRODUCTS, inputs, (output,), (), dict(said))
