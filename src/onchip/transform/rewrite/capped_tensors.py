"""Tensors clamped to the size of a scratchpad (Jang, 2023)."""

from __future__ import annotations

from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor


def cap_tensors(graph: Graph, capacity_bytes: int) -> Graph:
    """Return the graph with larger tensors clamped to the scratchpad's size and without shapes."""
    return replace(
        graph,
        tensors=tuple(
            Tensor(tensor.name, capacity_bytes, tensor.role, aliases=tensor.aliases)
            if tensor.size_bytes > capacity_bytes
            else tensor
            for tensor in graph.tensors
        ),
    )
