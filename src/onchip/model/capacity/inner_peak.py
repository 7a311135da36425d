"""Peak memory of a graph that runs inside one operator, without the operator's own operands."""

from __future__ import annotations

from itertools import accumulate

from onchip.ir.graph import Graph
from onchip.ir.tensor import Role

_WITHIN = frozenset({Role.ACTIVATION})


def inner_peak_bytes(graph: Graph) -> int:
    """Return the peak bytes of activations and workspaces over the steps of the given order.

    The graph's inputs, outputs and parameters are excluded: they are the operands of the enclosing operator.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for step, operator in enumerate(graph.operators):
        first |= dict.fromkeys(operator.outputs, step)
        last |= dict.fromkeys((*operator.outputs, *operator.inputs), step)
    changes = [0] * (len(graph.operators) + 1)
    for tensor in graph.tensors:
        if tensor.role in _WITHIN and tensor.name in first:
            changes[first[tensor.name]] += tensor.size_bytes
            changes[last[tensor.name] + 1] -= tensor.size_bytes
    live = list(accumulate(changes))
    return max((live[step] + operator.workspace_bytes for step, operator in enumerate(graph.operators)), default=0)
