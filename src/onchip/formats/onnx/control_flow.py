"""Control flow (If, Loop, Scan) replaced by the nodes that it runs.

A loop with a known trip count is unrolled, up to a limit. Any other loop stays one operator, which reads the state and
the tensors that its body captures, and writes the state and the stacked outputs. Its workspace holds the tensors of one
iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_node, make_tensor_type_proto

from onchip.errors import GraphError
from onchip.formats.onnx.constants import KeptNode
from onchip.formats.onnx.graph import build_graph
from onchip.formats.onnx.nodes import BITS, SUBGRAPHS, ScopedNode, check_nodes, names_read, static_shape
from onchip.formats.onnx.shapes import NotUnrolledError, Runner, UnfoldedModel, Unfolding
from onchip.formats.states_and_loops import (
    EXPECTED_OF_KEPT_LOOPS,
    GREATEST_ITERATIONS,
    GREATEST_UNROLLED_NODES,
    ensure_of_a_size,
)
from onchip.ir.tensor import size_in_bytes
from onchip.model.capacity.bounds import inner_peak_bytes


def graph_of(node: onnx.NodeProto, attribute: str, name: str) -> onnx.GraphProto:
    """Return the graph in an attribute; raises GraphError if the attribute is missing."""
    for each in node.attribute:
        if each.name == attribute and each.type == onnx.AttributeProto.GRAPH:
            found: onnx.GraphProto = each.g
            return found
    raise GraphError(f"it has no {attribute}", f"node {name!r}", "a graph")


def ensure_as_many(found: int, expected: int, name: str, what: str = "outputs of its graph") -> None:
    """Raise GraphError if a graph does not have the expected number of inputs or outputs."""
    if found != expected:
        raise GraphError(f"it has {found} {what}", f"node {name!r}", str(expected))


def axes_of(node: onnx.NodeProto, attribute: str, ranks: Sequence[int], name: str) -> list[int]:
    """Return one axis for each rank, counted from the front; raises GraphError for an axis out of range."""
    pairs = [*zip(integers_attribute(node, attribute, len(ranks)), ranks, strict=True)]
    for axis, rank in pairs:
        if not -rank <= axis < rank:
            raise GraphError(f"{attribute} has {axis}", f"node {name!r}", f"an axis of {rank}")
    return [axis % rank for axis, rank in pairs]


def integers_attribute(node: onnx.NodeProto, name: str, count: int = 1) -> list[int]:
    """Return `count` integers of an attribute, padded with zeros."""
    found = next(
        ([attribute.i] if attribute.i else [*attribute.ints] for attribute in node.attribute if attribute.name == name),
        [],
    )
    return [*found, *([0] * count)][:count]


def keep_loop(unfolding: Unfolding, scoped: ScopedNode, name: str, why: NotUnrolledError) -> None:
    """Take a Loop over as one node; raises GraphError for outputs of unknown size."""
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
        raise GraphError(f"{why.what}, and the length of its output {wanted[0]!r} with it", why.place, why.expected)
    written = [*types, *(_put_together(part, 0, trips or 0) for part in parts)]
    goes_on = body.graph.output[0].name == body.graph.input[1].name
    may_stop = not goes_on or (condition != "" and _known(unfolding, condition, name) != 1)
    again = _passed_through(body.graph, range(2, 2 + len(carried)), 1)
    own = [*counters, *iteration.outputs[:1], *parts, *(types[at] for at in range(len(types)) if at not in again)]
    loop = KeptNode(len(body.captured), _workspace_bytes(iteration, own), tuple(wanted) if may_stop else ())
    _add(unfolding, scoped, body, written, loop, name, why)


def keep_scan(unfolding: Unfolding, scoped: ScopedNode, name: str, count: int, why: NotUnrolledError) -> None:
    """Take a Scan with `count` scan inputs over as one node; raises GraphError for outputs of unknown size."""
    body = LoopBody.of(unfolding, graph_of(scoped.node, "body", name), scoped.names, name)
    states = len(scoped.inputs) - count
    types = [_type_of(unfolding, operand, name) for operand in scoped.inputs]
    axes = axes_of(scoped.node, "scan_input_axes", [len(static_shape(kind) or ()) for kind in types[states:]], name)
    slices = []
    for kind, axis in zip(types[states:], axes, strict=True):
        shape = static_shape(kind) or ()
        slices.append(make_tensor_type_proto(kind.tensor_type.elem_type, [*shape[:axis], *shape[axis + 1 :]]))
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
    """Return the peak inside the body plus the inputs and outputs that belong to one iteration.

    The state counts once: an iteration reads it where the previous iteration wrote it, in the outputs or in the
    workspace.
    """
    return iteration.inner_bytes + sum(map(bytes_of, own))


def _type_of(unfolding: Unfolding, operand: str, name: str) -> onnx.TypeProto:
    inference = unfolding.inference
    if not operand or operand in inference.bounded:
        what = f"{operand!r} is left out" if not operand else f"the shape of its input {operand!r} follows from values"
        raise GraphError(what, f"node {name!r}", EXPECTED_OF_KEPT_LOOPS)
    return inference.types[operand]


def _state_keeps_its_shape(
    carried: Sequence[str], before: Sequence[onnx.TypeProto], after: Sequence[onnx.TypeProto], name: str
) -> None:
    """Raise GraphError for a state whose type changes in an iteration."""
    for operand, one, other in zip(carried, before, after, strict=False):
        shapes = [static_shape(kind) for kind in (one, other)]
        if shapes[0] != shapes[1] or one.tensor_type.elem_type != other.tensor_type.elem_type:
            what = f"it is not unrolled, and its state {operand!r} is {shapes[0]} before an iteration and {shapes[1]}"
            raise GraphError(f"{what} after it", f"node {name!r}", EXPECTED_OF_KEPT_LOOPS)


def _passed_through(body: onnx.GraphProto, inputs: range, first_output: int) -> set[int]:
    """Return the states that an iteration hands on unchanged."""
    outputs = [value.name for value in body.output[first_output:]]
    return {at for at, place in enumerate(inputs) if body.input[place].name == outputs[at]}


def _known(unfolding: Unfolding, operand: str, name: str) -> int | None:
    """Return a truth value or a count, None if it is unknown; raises GraphError for a tensor of several numbers."""
    value = unfolding.inference.constants.value(operand) if operand else None
    array = None if value is None else numpy_helper.to_array(value)
    if array is not None and (array.size != 1 or array.dtype.kind not in "biu"):
        what = f"its trip count or condition is {array.dtype}{list(array.shape)}"
        raise GraphError(what, f"node {name!r}", "a scalar of int64 or bool")
    return None if array is None else int(array.reshape(-1)[0])


def _put_together(part: onnx.TypeProto, axis: int, trips: int) -> onnx.TypeProto:
    shape = list(static_shape(part) or ())
    return make_tensor_type_proto(part.tensor_type.elem_type, [*shape[:axis], trips, *shape[axis:]])


@dataclass(frozen=True, slots=True)
class LoopBody:
    """A body with unique names, and the outer tensors that it reads, `captured`.

    Constants of the body become constants of the network, and are captured, too.
    """

    graph: onnx.GraphProto
    captured: tuple[str, ...]

    @classmethod
    def of(cls, unfolding: Unfolding, graph: onnx.GraphProto, outer: Mapping[str, str], place: str) -> LoopBody:
        """Copy a body; `outer` maps names around it. Raises GraphError for operands that no node writes."""
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
    """The types of the outputs of an iteration, and its inner peak in bytes."""

    outputs: tuple[onnx.TypeProto, ...]
    inner_bytes: int

    @classmethod
    def of(cls, unfolding: Unfolding, body: LoopBody, given: Sequence[onnx.TypeProto], place: str) -> Iteration:
        """Plan an iteration for inputs of these types; raises GraphError if that is impossible."""
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
            raise GraphError(what, f"node {place!r}", error.expected) from None
        kinds = tuple(onnx.helper.make_tensor_type_proto(element, shape) for shape, element in shapes)
        return cls(kinds, inner_peak_bytes(planned))


def bytes_of(kind: onnx.TypeProto) -> int:
    """Return the bytes of a tensor of static type; 0 for elements without a fixed size."""
    return size_in_bytes(static_shape(kind) or (), BITS.get(kind.tensor_type.elem_type, 0))


def _hand_in(graph: onnx.GraphProto, unfolding: Unfolding, name: str) -> None:
    """Add a captured tensor to a body: as a constant, with its value if known, or as an input."""
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
    """Give all tensors that a graph writes unique names, and use the network's names for captured tensors."""
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


CONSTANT_CONDITION: Final = "a constant condition: `values` fixes the input that decides it"
_FIRST_OPSET_OF_WHERE = 9


def run_if(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    """Visit the branch that is taken, or both; raises GraphError.

    If the condition is unknown, a Where selects the result; if the shapes of the branches differ, an If of copies does.
    The plan is then legal for either branch.
    """
    branches = [graph_of(scoped.node, attribute, name) for attribute in ("else_branch", "then_branch")]
    known = _known(unfolding, scoped.inputs[0] if scoped.inputs else "", name)
    if known is None:
        _both_branches(unfolding, scoped, name, branches)
        return
    taken = branches[bool(known)]
    results = unfolding.inline(taken, scoped.names, {}, name)
    ensure_as_many(len(taken.output), len(scoped.node.output), name)
    hand_out(unfolding, results, scoped.outputs, name)


def _both_branches(unfolding: Unfolding, scoped: ScopedNode, name: str, branches: Sequence[onnx.GraphProto]) -> None:
    """Visit both branches; raises GraphError if no tensor can hold the result of either."""
    place, inference = f"node {name!r}", unfolding.inference
    if inference.opset < _FIRST_OPSET_OF_WHERE:
        what = f"its condition is not known before it runs, and its opset is {inference.opset}"
        raise GraphError(what, place, f"opset {_FIRST_OPSET_OF_WHERE} or a condition that is constant")
    otherwise, then = (_branch_inlined(unfolding, branch, scoped, name) for branch in branches)
    ensure_as_many(len(then), len(scoped.node.output), name)
    ensure_as_many(len(otherwise), len(scoped.node.output), name)
    condition = _scalar(unfolding, scoped.inputs[0], name)
    for one, other, output in zip(then, otherwise, scoped.outputs, strict=True):
        if not output:
            continue
        called = name if output == scoped.outputs[0] else output
        if _are_alike(unfolding, one, other):
            unfolding.add(make_node("Where", [condition, one, other], [output], name=called), called)
        else:
            _larger_of_both(unfolding, called, (condition, one, other), output, name)
    what = f"node {name!r}: its condition is not known before it runs: both branches are planned, and which one counts"
    unfolding.remarks.append(f"{what} is decided when it runs")


def _are_alike(unfolding: Unfolding, one: str, other: str) -> bool:
    """Return True if two tensors have one type, which does not follow from values."""
    inference = unfolding.inference
    kinds = [inference.shape_and_element_type(each) for each in (one, other)]
    return kinds[0] == kinds[1] and not inference.bounded.intersection((one, other))


def _larger_of_both(unfolding: Unfolding, called: str, read: tuple[str, str, str], output: str, name: str) -> None:
    """Write one of two tensors in a shape that holds either; raises GraphError for other elements or ranks."""
    (one, element), (other, other_element) = map(unfolding.inference.shape_and_element_type, read[1:])
    if element != other_element or len(one) != len(other):
        what = f"its condition is not known, and its branches give {output!r} as {one} and {other}"
        raise GraphError(what, f"node {name!r}", f"one type and as many axes in both, or {CONSTANT_CONDITION}")
    branches = {
        branch: make_graph(
            [make_node("Identity", [each], [f"{each} taken"])], branch, [], [onnx.ValueInfoProto(name=f"{each} taken")]
        )
        for branch, each in zip(("then_branch", "else_branch"), read[1:], strict=True)
    }
    node = make_node("If", read, [output], name=called, **branches)
    largest = make_tensor_type_proto(element, [max(sizes) for sizes in zip(one, other, strict=True)])
    unfolding.add_kept(node, {output: largest}, KeptNode(2, 0, (output,)))
    what = f"node {name!r}: its branches give {output!r} as {list(one)} and {list(other)}: it is planned at the larger"
    unfolding.remarks.append(what)


def _branch_inlined(unfolding: Unfolding, branch: onnx.GraphProto, scoped: ScopedNode, name: str) -> tuple[str, ...]:
    try:
        return unfolding.inline(branch, scoped.names, {}, name)
    except GraphError as error:
        what = f"its condition is not known before it runs, and a branch cannot be planned: {error.place}: {error.what}"
        raise GraphError(what, f"node {name!r}", CONSTANT_CONDITION) from None


def _scalar(unfolding: Unfolding, condition: str, name: str) -> str:
    """Return a condition of one element without axes, which broadcasts to any shape."""
    shape, _ = unfolding.inference.shape_and_element_type(condition)
    if shape == ():
        return condition
    target = _constant(unfolding, f"{name}/no axes", np.array([], np.int64), f"{name}/no axes")
    result = unfolding.names.tensor(f"{name}/condition", name)
    unfolding.add(make_node("Reshape", [condition, target], [result]), result)
    return result


def hand_out(unfolding: Unfolding, results: Sequence[str], outputs: Sequence[str], name: str) -> None:
    """Rename results to the names that the network has for them."""
    for result, output in zip(results, outputs, strict=True):
        if output:
            unfolding.inference.ensure_known(result, name)
            unfolding.add(make_node("Identity", [result], [output]), output)


def _constant(unfolding: Unfolding, called: str, value: npt.NDArray[Any], name: str) -> str:
    """Add a constant; return its name in the network."""
    return unfolding.constant(unfolding.names.tensor(called, name), numpy_helper.from_array(value))


_FIRST_OPSET_OF_SCAN = 9
_AXES_ARE_AN_INPUT = 13
"""First opset in which the axes of Unsqueeze are an input."""


def _loop(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    try:
        with unfolding.undone_if_not_unrolled():
            _unrolled_loop(unfolding, scoped, name)
    except NotUnrolledError as why:
        keep_loop(unfolding, scoped, name, why)


def _unrolled_loop(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    body = graph_of(scoped.node, "body", name)
    limit, condition, *carried = (*scoped.inputs, "", "")[: max(2, len(scoped.inputs))]
    state_count = len(carried)
    ensure_as_many(len(body.input), state_count + 2, name, "inputs of its body")
    ensure_as_many(len(body.output) - 1, len(scoped.node.output), name)
    trips = _number(unfolding, limit, name, "its trip count") if limit else None
    goes_on = bool(_number(unfolding, condition, name, "its condition")) if condition else True
    if goes_on and trips is not None and body.output[0].name == body.input[1].name:
        _ensure_short(unfolding, body, trips, name)
    formal = [value.name for value in body.input]
    shared: dict[str, str] = {}
    scanned: list[tuple[str, ...]] = []
    iteration = 0
    with _unrolling(unfolding, name, scanned):
        while goes_on and (trips is None or iteration < trips):
            _ensure_few(iteration, trips, name)
            unfolding.count_unrolled()
            place = f"{name}.{iteration}"
            index = _constant(unfolding, f"{place}/iteration", np.array(iteration), name)
            truth = _constant(unfolding, f"{place}/condition", np.array(True), name)
            given = dict(zip(formal, (index, truth, *carried), strict=True))
            again, *results = unfolding.inline(body, scoped.names, given, place, shared)
            carried, outputs = results[:state_count], tuple(results[state_count:])
            scanned.append(outputs)
            iteration += 1
            if trips is None or iteration < trips:
                goes_on = bool(_number(unfolding, again, name, f"its condition after iteration {iteration}"))
        columns = _columns(scanned, scoped.outputs[state_count:], name)
        stacked = [_stacked(unfolding, column, 0, name) for column in columns]
        hand_out(unfolding, (*carried, *stacked), scoped.outputs, name)


def _scan(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    place = f"node {name!r}"
    if unfolding.inference.opset < _FIRST_OPSET_OF_SCAN:
        what = f"Scan of opset {unfolding.inference.opset} runs batches"
        raise GraphError(what, place, f"opset {_FIRST_OPSET_OF_SCAN} or later")
    body, count = graph_of(scoped.node, "body", name), integers_attribute(scoped.node, "num_scan_inputs")[0]
    state_count = len(scoped.inputs) - count
    if not 1 <= count <= len(scoped.inputs) or not all(scoped.inputs):
        raise GraphError(f"it has {count} scan inputs", place, f"1 to {len(scoped.inputs)}")
    ensure_as_many(len(body.input), len(scoped.inputs), name, "inputs of its body")
    ensure_as_many(len(body.output), len(scoped.node.output), name)
    try:
        with unfolding.undone_if_not_unrolled():
            _unrolled_scan(unfolding, scoped, name, body, state_count)
    except NotUnrolledError as why:
        keep_scan(unfolding, scoped, name, count, why)


def _unrolled_scan(
    unfolding: Unfolding, scoped: ScopedNode, name: str, body: onnx.GraphProto, state_count: int
) -> None:
    carried, sources = list(scoped.inputs[:state_count]), scoped.inputs[state_count:]
    place = f"node {name!r}"
    if unfolding.inference.bounded.intersection(sources):
        raise GraphError("how often it runs follows from values", place, "static shapes")
    shapes = [unfolding.inference.shape_and_element_type(source)[0] for source in sources]
    axes = axes_of(scoped.node, "scan_input_axes", [len(shape) for shape in shapes], name)
    lengths = {shape[axis] for shape, axis in zip(shapes, axes, strict=True)}
    if len(lengths) > 1:
        raise GraphError(f"its scan inputs have {sorted(lengths)} parts", place, "one number of parts")
    (trips,) = lengths
    _ensure_short(unfolding, body, trips, name)
    backwards = integers_attribute(scoped.node, "scan_input_directions", len(sources))
    formal = [value.name for value in body.input]
    shared: dict[str, str] = {}
    scanned: list[tuple[str, ...]] = []
    with _unrolling(unfolding, name, scanned):
        for iteration in range(trips):
            _ensure_few(iteration, trips, name)
            unfolding.count_unrolled()
            at = [trips - 1 - iteration if back else iteration for back in backwards]
            parts = [_part(unfolding, *part, name) for part in zip(sources, axes, at, strict=True)]
            given = dict(zip(formal, (*carried, *parts), strict=True))
            results = unfolding.inline(body, scoped.names, given, f"{name}.{iteration}", shared)
            carried = list(results[:state_count])
            scanned.append(results[state_count:])
        columns = _columns(scanned, scoped.outputs[state_count:], name)
        hand_out(unfolding, (*carried, *_scanned(unfolding, columns, scoped.node, name)), scoped.outputs, name)


def _scanned(
    unfolding: Unfolding, columns: Sequence[tuple[str, ...]], node: onnx.NodeProto, name: str
) -> tuple[str, ...]:
    """Return the stacked outputs of a Scan, along their axes and in their directions."""
    ranks = [len(unfolding.inference.shape_and_element_type(column[0])[0]) + 1 if column else 1 for column in columns]
    axes = axes_of(node, "scan_output_axes", ranks, name)
    backwards = integers_attribute(node, "scan_output_directions", len(columns))
    return tuple(
        _stacked(unfolding, column[::-1] if back else column, axis, name)
        for column, axis, back in zip(columns, axes, backwards, strict=True)
    )


@contextmanager
def _unrolling(unfolding: Unfolding, name: str, scanned: Sequence[object]) -> Iterator[None]:
    """Count nodes as unrolled, one iteration for each entry of `scanned`; an inner loop adds no remark."""
    outer = unfolding.loop
    unfolding.loop = outer or name
    try:
        yield
    finally:
        unfolding.loop = outer
    if outer is None and scanned:
        what = f"it runs {len(scanned)} times: each iteration's nodes are planned"
        unfolding.remarks.append(f"node {name!r}: {what}")


def _columns(scanned: Sequence[tuple[str, ...]], outputs: Sequence[str], name: str) -> list[tuple[str, ...]]:
    """Return the parts of each stacked output; raises NotUnrolledError if no iteration gives a shape."""
    if not scanned and any(outputs):
        raise NotUnrolledError("it never runs", f"node {name!r}", "an iteration, or a known trip count")
    return [tuple(results[index] for results in scanned) for index in range(len(outputs))]


def _stacked(unfolding: Unfolding, parts: tuple[str, ...], axis: int, name: str) -> str:
    """Return the concatenation of the parts along a new axis; an empty name if it has no parts."""
    if not parts:
        return ""
    pieces = []
    for part in parts:
        pieces.append(unfolding.names.tensor(f"{part}/unsqueezed", name))
        if unfolding.inference.opset < _AXES_ARE_AN_INPUT:
            node = make_node("Unsqueeze", [part], [pieces[-1]], axes=[axis])
        else:
            node = make_node(
                "Unsqueeze",
                [part, _constant(unfolding, f"{name}/axes", np.array([axis]), f"{name}/axes")],
                [pieces[-1]],
            )
        unfolding.add(node, pieces[-1])
    whole = unfolding.names.tensor(f"{name}/outputs", name)
    unfolding.add(make_node("Concat", pieces, [whole], axis=axis), whole)
    return whole


def _part(unfolding: Unfolding, source: str, axis: int, index: int, name: str) -> str:
    part = unfolding.names.tensor(f"{name}.{index}/{source}", name)
    position = _constant(unfolding, f"{part}/index", np.array(index), name)
    unfolding.add(make_node("Gather", [source, position], [part], axis=axis), part)
    return part


def _number(unfolding: Unfolding, tensor: str, name: str, what: str) -> int:
    number = _known(unfolding, tensor, name)
    if number is None:
        expected = "one that follows from shapes, constants and `values`"
        raise NotUnrolledError(f"{what} is known only when it runs", f"node {name!r}", expected)
    return number


def _ensure_few(iteration: int, trips: int | None, name: str) -> None:
    if max(iteration, (trips or 1) - 1) >= GREATEST_ITERATIONS:
        many = f"{trips} times" if trips else f"more than {GREATEST_ITERATIONS} times"
        raise NotUnrolledError(f"it runs {many}", f"node {name!r}", f"at most {GREATEST_ITERATIONS}")


def _ensure_short(unfolding: Unfolding, body: onnx.GraphProto, trips: int, name: str) -> None:
    """Raise NotUnrolledError before unrolling if the iterations have too many nodes."""
    _ensure_few(0, trips, name)
    nodes = sum(node.op_type != "Constant" for node in body.node)
    unfolding.ensure_may_unroll(trips * (1 + nodes), unfolding.loop or name)


CONTROL_FLOW: Final[Mapping[str, Runner]] = {"If": run_if, "Loop": _loop, "Scan": _scan}
"""Map from kind to the function that takes over the nodes of its graphs."""


def unfold(model: onnx.ModelProto, greatest_unrolled: int = GREATEST_UNROLLED_NODES) -> UnfoldedModel:
    """Unfold control flow and infer all types; raises GraphError for nodes that ONNX refuses.

    A declared shape that could not be inferred, and with which a later node is wrong, is dropped.
    """
    check_nodes(model.graph)
    first = Unfolding(model, frozenset(), CONTROL_FLOW, greatest_unrolled)
    try:
        return first.run()
    except GraphError:
        if not first.inference.assumed:
            raise
        return Unfolding(model, first.inference.assumed, CONTROL_FLOW, greatest_unrolled).run()
