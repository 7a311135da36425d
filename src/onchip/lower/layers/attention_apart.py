"""The transform that takes attention apart: scores, softmax and values are operators, with tensors between."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.lower.layers.products import AttentionHeads, heads_of
from onchip.lower.layers.sliding_windows import NoLayerError

HEAD_PRODUCTS = "HeadProducts"
"""The kind of `batch` products side by side, of rows x depth times depth x columns; its attributes say how many."""


@dataclass(frozen=True, slots=True)
class AttentionApart:
    """The transform from Attention to three operators: `NAME (scores)`, `NAME (softmax)` and NAME itself, the values.

    It needs nothing, and leaves alone an attention of which nothing says how it is cut into heads, or that has no
    shape. It ensures that every other one is two operators of kind HEAD_PRODUCTS, each of one loop nest, with a softmax
    between. Elements of scores have the bits of the output's.
    """

    def __call__(self, graph: Graph) -> Graph:
        """The same network; names of tensors and operators that there were keep their meaning."""
        operators: list[Operator] = []
        tensors = list(graph.tensors)
        for operator in graph.operators:
            heads = _heads(graph, operator) if operator.kind == "Attention" else None
            if heads is None:
                operators.append(operator)
                continue
            scores, weighted = (_between(graph, operator, heads, what) for what in ("scores", "softmax"))
            queries, keys, values = operator.inputs[:3]
            operators += [
                _products(scores.name, (queries, keys), (scores.name,), heads.scores),
                Operator(weighted.name, "Softmax", (scores.name,), (weighted.name,)),
                _products(operator.name, (weighted.name, values), operator.outputs, heads.values),
            ]
            tensors += [scores, weighted]
        return Graph(graph.name, tuple(tensors), tuple(operators))


def _heads(graph: Graph, operator: Operator) -> AttentionHeads | None:
    shapes = [graph.tensor[name].shape for name in (*operator.outputs, *operator.inputs)]
    known = [shape for shape in shapes if shape is not None]
    if len(operator.inputs) < 3 or len(known) < len(shapes):
        return None
    try:
        return heads_of(operator, known)
    except NoLayerError:
        return None


def _between(graph: Graph, operator: Operator, heads: AttentionHeads, what: str) -> Tensor:
    """A score for each query and key of each head."""
    shape, bits = (heads.batch, heads.queries, heads.keys), graph.tensor[operator.outputs[0]].bits
    return Tensor.of_shape(f"{operator.name} ({what})", shape, bits or 0, Role.ACTIVATION)


def _products(name: str, inputs: tuple[str, str], outputs: tuple[str, ...], nest: Layer) -> Operator:
    said = {"batch": nest.g, "rows": nest.n, "depth": nest.c, "columns": nest.k}
    return Operator(name, HEAD_PRODUCTS, inputs, outputs, (), dict(said))
