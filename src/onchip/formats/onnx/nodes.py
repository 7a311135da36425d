"""What can be said of nodes without their shapes: names, kinds, attributes, order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

import onnx
from onnx.helper import get_attribute_value

from onchip.errors import GraphError
from onchip.formats.attributes import writable
from onchip.ir.operator import AttributeValue

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
