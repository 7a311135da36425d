"""Extraction of some operators of a network as a separate network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor


def part_of_network(graph: Graph, names: Sequence[str]) -> Graph:
    """Return the graph of the named operators, in this order; tensors from outside become inputs.

    Outputs are the tensors that leave the network, that operators outside read, or that have no reader.
    """
    operators = tuple(graph.operator[name] for name in names)
    inside = set(names)
    written = {name for operator in operators for name in operator.outputs}
    tensors: dict[str, Tensor] = {}
    for operator in operators:
        for name in (*operator.reads, *operator.outputs):
            tensor, readers = graph.tensor[name], graph.readers[name]
            if name in written:
                leaves = not readers or any(reader.name not in inside for reader in readers)
                tensors[name] = replace(tensor, role=Role.OUTPUT) if leaves else tensor
            else:
                is_parameter = tensor.role is Role.PARAMETER
                tensors[name] = tensor if is_parameter else replace(tensor, role=Role.INPUT)
    return Graph(graph.name, tuple(tensors.values()), operators)
