"""The number of elements that an operator without matrix products visits, one operation for each."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator

_POOLS: Final = frozenset({"MaxPool", "AveragePool", "LpPool"})
_OF_ALL_THAT_IS_READ: Final = frozenset(
    {"GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceSum", "ReduceMax", "LayerNormalization"}
)


def elements_visited(graph: Graph, operator: Operator) -> int:
    """Return the elements of all windows for a pool, those read for a reduction, else those written; at least 1."""
    written = sum(_elements(graph, name) for name in operator.outputs)
    if operator.kind in _POOLS:
        kernel = operator.attributes.get("kernel_shape")
        return written * prod(size for size in kernel if isinstance(size, int)) if isinstance(kernel, list) else written
    if operator.kind in _OF_ALL_THAT_IS_READ:
        return max((written, *_elements_read(graph, operator).values()))
    return written


def _elements(graph: Graph, name: str) -> int:
    tensor = graph.tensor[name]
    return tensor.size_bytes if tensor.shape is None else prod(tensor.shape)


def _elements_read(graph: Graph, operator: Operator) -> Mapping[str, int]:
    """Return the number of elements of each input; bands of one tensor count together."""
    read: dict[str, int] = {}
    for name in dict.fromkeys(operator.inputs):
        whole = graph.tensor[name].part_of or name
        read[whole] = read.get(whole, 0) + _elements(graph, name)
    return read
