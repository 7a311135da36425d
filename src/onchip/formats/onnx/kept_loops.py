"""Loops that stay one operator: those that run too often to be unrolled, or of which nobody knows how often.

The operator reads the state and all that its body reads around it, and writes the state and what iterations put
together. Its workspace is what it needs besides, for one iteration after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import TensorProto
from onnx.helper import make_tensor_type_proto

from onchip.errors import GraphError
from onchip.formats.onnx.bodies import Iteration, LoopBody, bytes_of
from onchip.formats.onnx.flow_attributes import axes_of, graph_of, truth_or_count
from onchip.formats.onnx.model_types import KeptNode
from onchip.formats.onnx.scopes import ScopedNode
from onchip.formats.onnx.types import static_shape
from onchip.formats.onnx.unfolding import NotUnrolledError, Unfolding
from onchip.formats.unrolling import EXPECTED_OF_KEPT_LOOPS, ensure_of_a_size


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
