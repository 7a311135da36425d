"""Graphs within nodes, whose names are made unique when their nodes join those of the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx

SUBGRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


@dataclass(frozen=True, slots=True)
class ScopedNode:
    """A node as the file has it, and what the names in it, and in graphs within it, are called in the network."""

    node: onnx.NodeProto
    names: Mapping[str, str]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The network's names of its inputs, an empty one for an input that is left out."""
        return tuple(self.names.get(name, name) for name in self.node.input)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The network's names of its outputs."""
        return tuple(self.names.get(name, name) for name in self.node.output)

    def renamed(self, name: str) -> onnx.NodeProto:
        """The node by itself, of that name, with the network's names."""
        if not self.names and name == self.node.name:
            return self.node
        node = onnx.NodeProto()
        node.CopyFrom(self.node)
        node.name = name
        node.input[:] = self.inputs
        node.output[:] = self.outputs
        return node


class UniqueNames:
    """Names of tensors and nodes of a network, to which those of graphs within nodes are added."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._tensors = {value.name for value in (*graph.input, *graph.output)}
        self._tensors |= {tensor.name for tensor in graph.initializer}
        self._tensors |= {tensor.values.name for tensor in graph.sparse_initializer}
        self._tensors |= {name for node in graph.node for name in (*node.input, *node.output)}
        self._nodes = {node.name for node in graph.node}
        self._nodes |= {"", "dram"}
        self._next: dict[str, int] = {}

    def tensor(self, name: str, prefix: str) -> str:
        """The name if no tensor has it, else one that starts with `prefix`."""
        return self._unique(name, prefix, self._tensors)

    def node(self, name: str, prefix: str) -> str:
        """The name if no node has it, else one that starts with `prefix`; a node may have none."""
        return self._unique(name, prefix, self._nodes) if name else ""

    def _unique(self, name: str, prefix: str, taken: set[str]) -> str:
        found = name
        if found in taken or not found:
            found = longer = f"{prefix}/{name}"
            while found in taken:
                self._next[longer] = self._next.get(longer, 1) + 1
                found = f"{longer}.{self._next[longer]}"
        taken.add(found)
        return found


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of graphs within them."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in the node's attributes."""
    for attribute in node.attribute:
        if attribute.type in SUBGRAPHS:
            yield from (attribute.g,) if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs


def names_read(graph: onnx.GraphProto) -> set[str]:
    """The names of all tensors that somebody reads, in graphs within nodes too."""
    read = {value.name for value in graph.output}
    for node in all_nodes(graph.node):
        read.update(node.input)
        for inner in subgraphs(node):
            read.update(value.name for value in inner.output)
    return read
