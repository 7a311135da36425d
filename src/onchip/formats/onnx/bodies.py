"""Bodies of loops that stay one operator: names that are nobody else's, and what an iteration needs for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from onchip.errors import GraphError
from onchip.formats.onnx.graph import build_graph
from onchip.formats.onnx.scopes import SUBGRAPHS, names_read
from onchip.formats.onnx.types import BITS, static_shape
from onchip.formats.onnx.unfolding import Unfolding
from onchip.ir.tensor import size_in_bytes
from onchip.model.capacity.inner_peak import inner_peak_bytes


@dataclass(frozen=True, slots=True)
class LoopBody:
    """A body whose names are nobody else's, and the tensors around it that it reads, `captured`.

    What it states is stated by the network, and captured like all else.
    """

    graph: onnx.GraphProto
    captured: tuple[str, ...]

    @classmethod
    def of(cls, unfolding: Unfolding, graph: onnx.GraphProto, outer: Mapping[str, str], place: str) -> LoopBody:
        """`outer` are the names around it. Raises GraphError for what it reads and nobody writes."""
        names: dict[str, str] = {}
        unfolding.state(graph, names, {}, place)
        stated = tuple(names.values())
        copied = onnx.GraphProto()
        copied.CopyFrom(graph)
        del copied.initializer[:]
        captured = dict.fromkeys(stated)
        _rename(copied, {**outer, **names}, captured, unfolding, place)
        for name in captured:
            unfolding.inference.ensure_known(name, place)
        used = names_read(copied)
        return cls(copied, tuple(name for name in captured if name in used))


@dataclass(frozen=True, slots=True)
class Iteration:
    """What one iteration hands out, with the types of it, and the bytes that it needs within itself."""

    outputs: tuple[onnx.TypeProto, ...]
    inner_bytes: int

    @classmethod
    def of(cls, unfolding: Unfolding, body: LoopBody, given: Sequence[onnx.TypeProto], place: str) -> Iteration:
        """An iteration that is given inputs of these types; raises GraphError for one that cannot be planned."""
        model = onnx.ModelProto(ir_version=unfolding.model.ir_version, opset_import=unfolding.model.opset_import)
        model.graph.name = place
        model.graph.node.extend(body.graph.node)
        for value, kind in zip(body.graph.input, given, strict=True):
            model.graph.input.add(name=value.name, type=kind)
        for name in body.captured:
            _hand_in(model.graph, unfolding, name)
        model.graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in body.graph.output)
        try:
            unfolded = unfolding.of_body(model)
            planned = build_graph(unfolded.graph, unfolded.types, place)
            if unfolded.types.bounded.intersection(value.name for value in body.graph.output):
                raise GraphError("the shape of what it hands out follows from values", expected="static shapes")
            shapes = [unfolded.types.shape_and_element_type(value.name) for value in body.graph.output]
        except GraphError as error:
            where = f"{error.place}: " if error.place else ""
            what = f"its body cannot be planned: {where}{error.what}"
            raise GraphError(what, place=f"node {place!r}", expected=error.expected) from None
        kinds = tuple(onnx.helper.make_tensor_type_proto(element, shape) for shape, element in shapes)
        return cls(kinds, inner_peak_bytes(planned))


def bytes_of(kind: onnx.TypeProto) -> int:
    """The bytes of a tensor of a static type; none for elements of no fixed size."""
    return size_in_bytes(static_shape(kind) or (), BITS.get(kind.tensor_type.elem_type, 0))


def _hand_in(graph: onnx.GraphProto, unfolding: Unfolding, name: str) -> None:
    """What a body reads of the network around it: a constant, with its value where it is known, or an input."""
    inference = unfolding.inference
    if name not in inference.constants:
        graph.input.add(name=name, type=inference.types[name])
        return
    shape, element_type = inference.shape_and_element_type(name)
    value = inference.constants.value(name)
    graph.initializer.append(value or onnx.TensorProto(data_type=element_type, dims=shape))
    graph.initializer[-1].name = name


def _rename(
    graph: onnx.GraphProto, outer: Mapping[str, str], captured: dict[str, None], unfolding: Unfolding, place: str
) -> None:
    """Give all that a graph writes a name of its own, and what it reads of the network the name that it has there."""
    own: dict[str, str] = {}
    del graph.value_info[:]
    for value in graph.input:
        own[value.name] = value.name = unfolding.names.tensor(value.name, place)
    for tensor in graph.initializer:
        own[tensor.name] = tensor.name = unfolding.names.tensor(tensor.name, place)
    for node in graph.node:
        node.input[:] = [_read(name, own, outer, captured) for name in node.input]
        for attribute in node.attribute:
            if attribute.type in SUBGRAPHS:
                for inner in (attribute.g, *attribute.graphs):
                    _rename(inner, {**outer, **own}, captured, unfolding, place)
        for at, name in enumerate(node.output):
            if name:
                own[name] = node.output[at] = unfolding.names.tensor(name, place)
    for value in graph.output:
        value.name = _read(value.name, own, outer, captured)


def _read(name: str, own: Mapping[str, str], outer: Mapping[str, str], captured: dict[str, None]) -> str:
    if not name or name in own:
        return own.get(name, name)
    found = outer.get(name, name)
    captured[found] = None
    return found
