"""Messages of ONNX's protobuf: element types, static shapes, names, kinds, attributes and graphs within nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final, TypeAlias

import onnx
from onnx import TensorProto
from onnx.helper import get_attribute_value

from onchip.errors import GraphError
from onchip.formats.states_and_loops import writable
from onchip.ir.operator import AttributeValue

Types: TypeAlias = Mapping[str, onnx.TypeProto]
"""Map from tensor to its type."""
_TYPES_BY_BITS: Final = {
    2: "INT2 UINT2",
    4: "INT4 UINT4 FLOAT4E2M1",
    6: "FLOAT6E2M3 FLOAT6E3M2",
    8: "BOOL INT8 UINT8 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT8E8M0",
    16: "FLOAT16 BFLOAT16 INT16 UINT16",
    32: "FLOAT INT32 UINT32",
    64: "DOUBLE INT64 UINT64 COMPLEX64",
    128: "COMPLEX128",
}
_BITS_BY_NAME: Final = {name: bits for bits, names in _TYPES_BY_BITS.items() for name in names.split()}
BITS: Final[dict[int, int]] = {
    number: _BITS_BY_NAME[name] for name, number in TensorProto.DataType.items() if name in _BITS_BY_NAME
}
"""Map from element type to bits per element. Strings are absent, and so are types that the installed onnx lacks."""
SUBGRAPHS: Final = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
DEFAULT_DOMAINS: Final = ("", "ai.onnx")
_SIMPLE: Final = frozenset(
    getattr(onnx.AttributeProto, name) for name in ("FLOAT", "INT", "STRING", "FLOATS", "INTS", "STRINGS")
)


def type_name(element_type: int) -> str:
    """Return ONNX's name of a data type, such as `FLOAT16`."""
    known: dict[int, str] = {number: name for name, number in TensorProto.DataType.items()}
    return known.get(element_type, f"type {element_type}")


def static_shape(kind: onnx.TypeProto) -> tuple[int, ...] | None:
    """Return the shape of a tensor of known element type and size; None if a part of it is unknown."""
    tensor = kind.tensor_type
    if kind.WhichOneof("value") != "tensor_type" or not tensor.elem_type or not tensor.HasField("shape"):
        return None
    if not all(dimension.HasField("dim_value") for dimension in tensor.shape.dim):
        return None
    return tuple(dimension.dim_value for dimension in tensor.shape.dim)


def with_declared(inferred: onnx.TypeProto, declared: onnx.TypeProto) -> onnx.TypeProto:
    """Return the inferred type, completed by the declared type."""
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


@dataclass(frozen=True, slots=True)
class ScopedNode:
    """A node of the file, and a map from the names in it and its graphs to names of the network."""

    node: onnx.NodeProto
    names: Mapping[str, str]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The network's names of its inputs; an omitted input has an empty name."""
        return tuple(self.names.get(name, name) for name in self.node.input)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The network's names of its outputs."""
        return tuple(self.names.get(name, name) for name in self.node.output)

    def renamed(self, name: str) -> onnx.NodeProto:
        """Return a copy of the node with a name, and with the network's names of operands."""
        if not self.names and name == self.node.name:
            return self.node
        node = onnx.NodeProto()
        node.CopyFrom(self.node)
        node.name = name
        node.input[:] = self.inputs
        node.output[:] = self.outputs
        return node


class UniqueNames:
    """Names of the tensors and nodes of a network, to which those of inner graphs are added."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._tensors = {value.name for value in (*graph.input, *graph.output)}
        self._tensors |= {tensor.name for tensor in graph.initializer}
        self._tensors |= {tensor.values.name for tensor in graph.sparse_initializer}
        self._tensors |= {name for node in graph.node for name in (*node.input, *node.output)}
        self._nodes = {node.name for node in graph.node}
        self._nodes |= {"", "dram"}
        self._next: dict[str, int] = {}

    def tensor(self, name: str, prefix: str) -> str:
        """Return the name if no tensor has it, else one that starts with `prefix`."""
        return self._unique(name, prefix, self._tensors)

    def node(self, name: str, prefix: str) -> str:
        """Return the name if no node has it, else one that starts with `prefix`; a node may have no name."""
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
    """Yield the nodes, and those of graphs within them."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in the node's attributes."""
    for attribute in node.attribute:
        if attribute.type in SUBGRAPHS:
            yield from (attribute.g,) if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs


def names_read(graph: onnx.GraphProto) -> set[str]:
    """Return the names of all tensors that are read, also in graphs within nodes."""
    read = {value.name for value in graph.output}
    for node in all_nodes(graph.node):
        read.update(node.input)
        for inner in subgraphs(node):
            read.update(value.name for value in inner.output)
    return read


def kind_of(node: onnx.NodeProto) -> str:
    """Return `Conv`, or `domain::Kind` for operators outside ONNX's own domain."""
    return node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}::{node.op_type}"


def node_names(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Return the name of each node if it is unique, else the name of its first output."""
    times = Counter(node.name for node in nodes)
    return [
        node.name if node.name and times[node.name] == 1 else next((name for name in node.output if name), node.name)
        for node in nodes
    ]


def attributes_of(node: onnx.NodeProto) -> dict[str, AttributeValue]:
    """Return numbers, strings and lists of them; tensors, graphs and types are left out."""
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
    for node, name in zip(graph.node, names, strict=True):
        for operand in filter(None, node.input):
            if operand not in producer:
                what, expected = f"tensor {operand!r} is unknown", "an input, a parameter or another node's output"
                raise GraphError(what, f"node {name!r}", expected)
    for value in graph.output:
        if value.name not in producer:
            raise GraphError("no node writes it", f"network output {value.name!r}", "a producer")
    _the_nodes_stand_in_a_topological_order(graph, names, producer)


def _each_tensor_has_one_producer(graph: onnx.GraphProto, names: list[str]) -> dict[str, int]:
    """Return the index of the node that writes each tensor; -1 for network inputs and parameters."""
    producer = dict.fromkeys((value.name for value in graph.input), -1)
    producer |= dict.fromkeys(_parameters(graph), -1)
    for index, node in enumerate(graph.node):
        for output in filter(None, node.output):
            if output in producer:
                first = producer[output]
                other = "it is an input or parameter" if first < 0 else f"so does {names[first]!r}"
                raise GraphError(f"node {names[index]!r} writes it and {other}", f"tensor {output!r}", "one producer")
            producer[output] = index
        if not any(node.output):
            raise GraphError("it writes nothing", f"node {names[index]!r}", "at least one output")
    return producer


def _parameters(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of all parameters; raises GraphError if two different ones have one name."""
    seen: dict[str, onnx.TensorProto] = {}
    for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)):
        first = seen.setdefault(tensor.name, tensor)
        if first is not tensor and first != tensor:  # which of them counts, runtimes decide differently
            raise GraphError("two parameters have this name", f"tensor {tensor.name!r}", "one")
        yield tensor.name


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
                what = f"it stands before {names[other]!r}, whose output it reads"
                raise GraphError(what, f"node {names[index]!r}", "nodes in a topological order")
