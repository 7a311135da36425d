"""Loops that stay one operator: those that run too often to be unrolled, or of which nobody knows how often.

The operator reads the state and all that its body reads around it, and writes the state and what iterations put
together. Its workspace is what it needs besides, for one iteration after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto
from onnx.helper import make_tensor_type_proto

from onchip.errors import GraphError
from onchip.formats.onnx.flow_attributes import axes_of, graph_of, truth_or_count
from onchip.formats.onnx.graph import build_graph
from onchip.formats.onnx.model_types import KeptNode
from onchip.formats.onnx.scopes import SUBGRAPHS, ScopedNode, names_read
from onchip.formats.onnx.types import BITS, static_shape
from onchip.formats.onnx.unfolding import NotUnrolledError, Unfolding
from onchip.formats.unrolling import EXPECTED_OF_KEPT_LOOPS, ensure_of_a_size
from onchip.ir.tensor import size_in_bytes
from onchip.model.capacity.inner_peak import inner_peak_bytes


def keep_loop(unfolding: Unfolding, scoped: ScopedNode, name: str, why: NotUnrolledError) -> None:
    """Take a Loop over as one node; raises GraphError for one whose outputs have no size."""
    limit, condition, *carried = (*scoped.inputs, "", "")[: max(2, len(scoped.inputs))]
    body = LoopBody.of(unfolding, graph_of(scoped.node, "body", name), scoped.names, name)
    types = [_type_of(unfolding, operand, name) for operand in carried]
    counters = [make_tensor_type_proto(TensorProto.INT64, []), make_tensor_type_proto(TensorProto.BOOL, [])]
    iteration = Iteration.of(unfolding, body, [*counters, *types], name)
    _state_keeps_its_shape(carried, types, iteration.outputs[1:], name)
    parts, outputs = iteration.outputs[1 + len(carried) :], scoped.outputs[len(carried) :]
    trips = _known(unfolding, limit, name)
    wanted = [output for output in outputs if unfolding.inference.is_read(output)]
    if wanted and trips is None:
        what = f"{why.what}, and the length of its output {wanted[0]!r} with it"
        raise GraphError(what, place=why.place, expected=why.expected)
    written = [*types, *(_put_together(part, 0, trips or 0) for part in parts)]
    goes_on = body.graph.output[0].name == body.graph.input[1].name
    may_stop = not goes_on or (condition != "" and _known(unfolding, condition, name) != 1)
    again = _passed_through(body.graph, range(2, 2 + len(carried)), 1)
    own = [*counters, *iteration.outputs[:1], *parts, *(types[at] for at in range(len(types)) if at not in again)]
    loop = KeptNode(len(body.captured), _workspace_bytes(iteration, own), tuple(wanted) if may_stop else ())
    _add(unfolding, scoped, body, written, loop, name, why)


def keep_scan(unfolding: Unfolding, scoped: ScopedNode, name: str, count: int, why: NotUnrolledError) -> None:
    """Take a Scan of so many scan inputs over as one node; raises GraphError for one whose outputs have no size."""
    body = LoopBody.of(unfolding, graph_of(scoped.node, "body", name), scoped.names, name)
    states = len(scoped.inputs) - count
    types = [_type_of(unfolding, operand, name) for operand in scoped.inputs]
    axes = axes_of(scoped.node, "scan_input_axes", [len(static_shape(kind) or ()) for kind in types[states:]], name)
    slices = [_slice(kind, axis) for kind, axis in zip(types[states:], axes, strict=True)]
    trips = (static_shape(types[states]) or ())[axes[0]]
    iteration = Iteration.of(unfolding, body, [*types[:states], *slices], name)
    _state_keeps_its_shape(scoped.inputs[:states], types[:states], iteration.outputs, name)
    parts = iteration.outputs[states:]
    ranks = [len(static_shape(part) or ()) + 1 for part in parts]
    along = axes_of(scoped.node, "scan_output_axes", ranks, name)
    written = [*types[:states], *(_put_together(part, axis, trips) for part, axis in zip(parts, along, strict=True))]
    again = _passed_through(body.graph, range(states), 0)
    own = [*slices, *parts, *(types[at] for at in range(states) if at not in again)]
    loop = KeptNode(len(body.captured), _workspace_bytes(iteration, own))
    _add(unfolding, scoped, body, written, loop, name, why)


def _add(
    unfolding: Unfolding,
    scoped: ScopedNode,
    body: LoopBody,
    written: Sequence[onnx.TypeProto],
    loop: KeptNode,
    name: str,
    why: NotUnrolledError,
) -> None:
    node = onnx.NodeProto()
    node.CopyFrom(scoped.renamed(scoped.node.name if not scoped.names else name))
    node.input.extend(body.captured)
    for attribute in node.attribute:
        if attribute.name == "body":
            attribute.g.CopyFrom(body.graph)
    types = {output: kind for output, kind in zip(scoped.outputs, written, strict=True) if output}
    read = {output: kind for output, kind in types.items() if unfolding.inference.is_read(output)}
    ensure_of_a_size(loop.workspace_bytes, sum(map(bytes_of, read.values())), f"node {name!r}")
    unfolding.add_kept(node, read or dict([next(iter(types.items()))]), loop)
    what = f"node {name!r}: {why.what}: it stays one operator, with a workspace of {loop.workspace_bytes} bytes for"
    unfolding.remarks.append(f"{what} what lives in its body at once and for what an iteration gets and hands on")


def _workspace_bytes(iteration: Iteration, own: Sequence[onnx.TypeProto]) -> int:
    """What lives within the body at once, and once what an iteration is given and gives of its own.

    The state counts once: an iteration reads it where the last one wrote it, in the operator's outputs or here.
    """
    return iteration.inner_bytes + sum(map(bytes_of, own))


def _type_of(unfolding: Unfolding, operand: str, name: str) -> onnx.TypeProto:
    inference = unfolding.inference
    if not operand or operand in inference.bounded:
        what = f"{operand!r} is left out" if not operand else f"the shape of its input {operand!r} follows from values"
        raise GraphError(what, place=f"node {name!r}", expected=EXPECTED_OF_KEPT_LOOPS)
    return inference.types[operand]


def _state_keeps_its_shape(
    carried: Sequence[str], before: Sequence[onnx.TypeProto], after: Sequence[onnx.TypeProto], name: str
) -> None:
    """Raise GraphError for a state that is of another type after an iteration."""
    for operand, one, other in zip(carried, before, after, strict=False):
        shapes = [static_shape(kind) for kind in (one, other)]
        if shapes[0] != shapes[1] or one.tensor_type.elem_type != other.tensor_type.elem_type:
            what = f"it is not unrolled, and its state {operand!r} is {shapes[0]} before an iteration and {shapes[1]}"
            raise GraphError(f"{what} after it", place=f"node {name!r}", expected=EXPECTED_OF_KEPT_LOOPS)


def _passed_through(body: onnx.GraphProto, inputs: range, first_output: int) -> set[int]:
    """Which states an iteration hands on as it got them."""
    outputs = [value.name for value in body.output[first_output:]]
    return {at for at, place in enumerate(inputs) if body.input[place].name == outputs[at]}


def _known(unfolding: Unfolding, operand: str, name: str) -> int | None:
    value = unfolding.inference.constants.value(operand) if operand else None
    return None if value is None else truth_or_count(value, name)


def _put_together(part: onnx.TypeProto, axis: int, trips: int) -> onnx.TypeProto:
    shape = list(static_shape(part) or ())
    return make_tensor_type_proto(part.tensor_type.elem_type, [*shape[:axis], trips, *shape[axis:]])


def _slice(kind: onnx.TypeProto, axis: int) -> onnx.TypeProto:
    shape = static_shape(kind) or ()
    return make_tensor_type_proto(kind.tensor_type.elem_type, [*shape[:axis], *shape[axis + 1 :]])


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
