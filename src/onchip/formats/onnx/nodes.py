"""Messages of ONNX's protobuf: element types, static shapes, names, kinds, attributes and graphs within nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import onnx
from onnx import TensorProto
from onnx.helper import get_attribute_value

from onchip.errors import GraphError
from onchip.formats.networks import writable
from onchip.ir.operator import AttributeValue

_BITS_BY_NAME = {
    "FLOAT": 32,
    "DOUBLE": 64,
    "FLOAT16": 16,
    "BFLOAT16": 16,
    "COMPLEX64": 64,
    "COMPLEX128": 128,
    "BOOL": 8,
    "INT8": 8,
    "INT16": 16,
    "INT32": 32,
    "INT64": 64,
    "UINT8": 8,
    "UINT16": 16,
    "UINT32": 32,
    "UINT64": 64,
    "INT4": 4,
    "UINT4": 4,
    "INT2": 2,
    "UINT2": 2,
    "FLOAT4E2M1": 4,
    "FLOAT6E2M3": 6,
    "FLOAT6E3M2": 6,
    "FLOAT8E4M3FN": 8,
    "FLOAT8E4M3FNUZ": 8,
    "FLOAT8E5M2": 8,
    "FLOAT8E5M2FNUZ": 8,
    "FLOAT8E8M0": 8,
}

BITS: dict[int, int] = {
    number: _BITS_BY_NAME[name] for name, number in TensorProto.DataType.items() if name in _BITS_BY_NAME
}
"""Map from element type to bits per element. Strings are absent, and so are types that the installed onnx lacks."""


def type_name(element_type: int) -> str:
    """ONNX's word for a data type, such as `FLOAT16`."""
    known: dict[int, str] = {number: name for name, number in TensorProto.DataType.items()}
    return known.get(element_type, f"type {element_type}")


def static_shape(kind: onnx.TypeProto) -> tuple[int, ...] | None:
    """The shape of a tensor of known element type and size; None where anything is unknown."""
    tensor = kind.tensor_type
    if kind.WhichOneof("value") != "tensor_type" or not tensor.elem_type or not tensor.HasField("shape"):
        return None
    if not all(dimension.HasField("dim_value") for dimension in tensor.shape.dim):
        return None
    return tuple(dimension.dim_value for dimension in tensor.shape.dim)


def with_declared(inferred: onnx.TypeProto, declared: onnx.TypeProto) -> onnx.TypeProto:
    """What inference found, and where it found nothing what the file declares."""
    if inferred.WhichOneof("value") not in (None, "tensor_type"):
        return inferred
    merged = onnx.TypeProto()
    merged.CopyFrom(declared)
    tensor = inferred.tensor_type
    if tensor.elem_type:
        merged.tensor_type.elem_type = tensor.elem_type
    if tensor.HasField("shape"):
        if len(tensor.shape.dim) != len(merged.tensor_type.shape.dim):
            return inferred
        for target, found in zip(merged.tensor_type.shape.dim, tensor.shape.dim, strict=True):
            if found.HasField("dim_value"):
                target.dim_value = found.dim_value
    return merged


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


DEFAULT_DOMAINS = ("", "ai.onnx")

_SIMPLE = {
    onnx.AttributeProto.FLOAT,
    onnx.AttributeProto.INT,
    onnx.AttributeProto.STRING,
    onnx.AttributeProto.FLOATS,
    onnx.AttributeProto.INTS,
    onnx.AttributeProto.STRINGS,
}


def kind_of(node: onnx.NodeProto) -> str:
    """`Conv`, or `domain::Kind` outside ONNX's own operators."""
    return node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}::{node.op_type}"


def node_names(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Of each node its name, if it has one that is unique, else the name of its first output."""
    times = Counter(node.name for node in nodes)
    return [
        node.name if node.name and times[node.name] == 1 else next((name for name in node.output if name), node.name)
        for node in nodes
    ]


def attributes_of(node: onnx.NodeProto) -> dict[str, AttributeValue]:
    """Numbers, strings and lists of them; tensors, graphs and types are left out."""
    return {
        attribute.name: writable(_plain(get_attribute_value(attribute)))
        for attribute in node.attribute
        if attribute.type in _SIMPLE
    }


def _plain(value: object) -> AttributeValue:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, int | float | str):
        return value
    return [_plain(element) for element in value] if isinstance(value, Sequence) else None


def check_nodes(graph: onnx.GraphProto) -> None:
    """Raise GraphError for two producers, unknown tensors, cycles and a wrong order."""
    names = node_names(graph.node)
    producer = _each_tensor_has_one_producer(graph, names)
    _every_operand_is_known(graph, names, producer)
    _the_nodes_stand_in_a_topological_order(graph, names, producer)


def _each_tensor_has_one_producer(graph: onnx.GraphProto, names: list[str]) -> dict[str, int]:
    """The index of the node that writes each tensor; -1 for network inputs and parameters."""
    producer = dict.fromkeys((value.name for value in graph.input), -1)
    producer |= dict.fromkeys(_parameters(graph), -1)
    for index, node in enumerate(graph.node):
        for output in filter(None, node.output):
            if output in producer:
                first = producer[output]
                other = "it is an input or parameter" if first < 0 else f"so does {names[first]!r}"
                raise GraphError(
                    f"node {names[index]!r} writes it and {other}", place=f"tensor {output!r}", expected="one producer"
                )
            producer[output] = index
        if not any(node.output):
            raise GraphError("it writes nothing", place=f"node {names[index]!r}", expected="at least one output")
    return producer


def _parameters(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of all; raises GraphError for two that differ and have one name."""
    seen: dict[str, onnx.TensorProto] = {}
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        first = seen.setdefault(tensor.name, tensor)
        if first is not tensor and first != tensor:  # which of them counts, runtimes decide differently
            raise GraphError("two parameters have this name", place=f"tensor {tensor.name!r}", expected="one")
        yield tensor.name


def _every_operand_is_known(graph: onnx.GraphProto, names: list[str], producer: dict[str, int]) -> None:
    for node, name in zip(graph.node, names, strict=True):
        for operand in filter(None, node.input):
            if operand not in producer:
                raise GraphError(
                    f"tensor {operand!r} is unknown",
                    place=f"node {name!r}",
                    expected="an input, a parameter or another node's output",
                )
    for value in graph.output:
        if value.name not in producer:
            raise GraphError("no node writes it", place=f"network output {value.name!r}", expected="a producer")


def _the_nodes_stand_in_a_topological_order(graph: onnx.GraphProto, names: list[str], producer: dict[str, int]) -> None:
    before = {
        index: [producer[operand] for operand in filter(None, node.input) if producer[operand] >= 0]
        for index, node in enumerate(graph.node)
    }
    try:
        tuple(TopologicalSorter(before).static_order())
    except CycleError as error:
        cycle = " -> ".join(repr(names[index]) for index in error.args[1])
        raise GraphError(f"the nodes {cycle} form a cycle", expected="an acyclic graph") from None
    for index, earlier in before.items():
        for other in earlier:
            if other > index:
                raise GraphError(
                    f"it stands before {names[other]!r}, whose output it reads",
                    place=f"node {names[index]!r}",
                    expected="nodes in a topological order",
                )
