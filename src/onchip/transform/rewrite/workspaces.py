"""Declared workspaces of operators, as tensors that are live while the operators run."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.schedule import WORKSPACE
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor


def with_workspaces(graph: Graph) -> Graph:
    """Return the graph with each workspace as an output of its operator without readers: `OPERATOR@workspace`.

    The workspace thus has an address while the operator runs, and is never copied. Raises GraphError if a name is
    taken.
    """
    if not any(operator.workspace_bytes for operator in graph.operators):
        return graph
    spaces = tuple(
        Tensor(operator.name + WORKSPACE, operator.workspace_bytes, Role.ACTIVATION)
        for operator in graph.operators
        if operator.workspace_bytes
    )
    operators = tuple(_writing_its_own(one) for one in graph.operators)
    return Graph(graph.name, (*graph.tensors, *spaces), operators, graph.states)


def _writing_its_own(operator: Operator) -> Operator:
    if not operator.workspace_bytes:
        return operator
    return replace(operator, outputs=(*operator.outputs, operator.name + WORKSPACE), workspace_bytes=0)
