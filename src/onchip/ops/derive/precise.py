"""A network whose elements have the bits of the loop nests that compute it."""

from __future__ import annotations

from dataclasses import replace

from onchip.ir.graph import Graph
from onchip.ir.tensor import Tensor, size_in_bytes


def with_elements_of(graph: Graph, bits: int | None) -> Graph:
    """Return the network with `bits` per element (None: unchanged); tensors given in bytes stay unchanged."""
    if bits is None or all(tensor.bits in (bits, None) for tensor in graph.tensors):
        return graph
    return replace(graph, tensors=tuple(_with_bits(tensor, bits) for tensor in graph.tensors))


def _with_bits(tensor: Tensor, bits: int) -> Tensor:
    if tensor.shape is None:
        return tensor
    return replace(tensor, bits=bits, size_bytes=size_in_bytes(tensor.shape, bits))
