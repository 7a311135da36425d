"""What nodes with graphs of their own run: Loop and Scan as the nodes that take their place.

One that runs a known number of times is unrolled, up to a limit; else it stays one node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Self

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import make_graph, make_node, make_tensor, make_tensor_type_proto

from onchip.errors import GraphError
from onchip.formats.onnx.flow_attributes import (
    axes_of,
    ensure_as_many,
    graph_of,
    integer_attribute,
    integers_attribute,
    truth_or_count,
)
from onchip.formats.onnx.kept_loops import keep_loop, keep_scan
from onchip.formats.onnx.model_types import KeptNode
from onchip.formats.onnx.scopes import ScopedNode
from onchip.formats.onnx.unfolding import NotUnrolledError, Runner, Unfolding
from onchip.formats.unrolling import GREATEST_ITERATIONS

CONSTANT_CONDITION: Final = "a condition that is constant: --value INPUT=N says the input that decides it"
_FIRST_OPSET_OF_WHERE = 9


def run_if(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    """Visit the branch that is taken, or both; raises GraphError.

    Then a Where takes the one, or an If of copies where their shapes differ, so that a plan is legal whichever it is.
    """
    branches = [graph_of(scoped.node, attribute, name) for attribute in ("else_branch", "then_branch")]
    condition = scoped.inputs[0] if scoped.inputs else ""
    value = unfolding.inference.constants.value(condition)
    if value is None:
        _both_branches(unfolding, scoped, name, branches)
        return
    taken = branches[_truth(value, name)]
    results = unfolding.inline(taken, scoped.names, {}, name)
    ensure_as_many(len(taken.output), len(scoped.node.output), name)
    hand_out(unfolding, results, scoped.outputs, name)


def _both_branches(unfolding: Unfolding, scoped: ScopedNode, name: str, branches: Sequence[onnx.GraphProto]) -> None:
    """Run both; raises GraphError where no tensor holds the result of either."""
    place, inference = f"node {name!r}", unfolding.inference
    if inference.opset < _FIRST_OPSET_OF_WHERE:
        what = f"its condition is not known before it runs, and its opset is {inference.opset}"
        raise GraphError(what, place=place, expected=f"opset {_FIRST_OPSET_OF_WHERE} or a condition that is constant")
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
    """Whether two tensors have one type, which does not follow from values."""
    inference = unfolding.inference
    kinds = [inference.shape_and_element_type(each) for each in (one, other)]
    return kinds[0] == kinds[1] and not inference.bounded.intersection((one, other))


def _larger_of_both(unfolding: Unfolding, called: str, read: tuple[str, str, str], output: str, name: str) -> None:
    """Hand out one of two tensors in a shape that holds either; raises GraphError for other elements or axes."""
    (one, element), (other, other_element) = map(unfolding.inference.shape_and_element_type, read[1:])
    if element != other_element or len(one) != len(other):
        what = f"its condition is not known, and its branches give {output!r} as {one} and {other}"
        expected = f"one type and as many axes in both, or {CONSTANT_CONDITION}"
        raise GraphError(what, place=f"node {name!r}", expected=expected)
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
        raise GraphError(what, place=f"node {name!r}", expected=CONSTANT_CONDITION) from None


def _scalar(unfolding: Unfolding, condition: str, name: str) -> str:
    """A condition of one element without axes, so that it broadcasts to any shape."""
    shape, _ = unfolding.inference.shape_and_element_type(condition)
    if shape == ():
        return condition
    target = integers_of(unfolding, f"{name}/no axes", ())
    result = unfolding.names.tensor(f"{name}/condition", name)
    unfolding.add(make_node("Reshape", [condition, target], [result]), result)
    return result


def hand_out(unfolding: Unfolding, results: Sequence[str], outputs: Sequence[str], name: str) -> None:
    """Give results the names that the rest of the network has for them."""
    for result, output in zip(results, outputs, strict=True):
        if output:
            unfolding.inference.ensure_known(result, name)
            unfolding.add(make_node("Identity", [result], [output]), output)


def integers_of(unfolding: Unfolding, name: str, values: Sequence[int]) -> str:
    """Add a constant of these numbers; its name in the network."""
    return unfolding.constant(unfolding.names.tensor(name, name), make_tensor("", 7, [len(values)], values))


def _truth(value: onnx.TensorProto, name: str) -> bool:
    return bool(truth_or_count(value, name))


_FIRST_OPSET_OF_SCAN = 9
_AXES_ARE_AN_INPUT = 13
"""Since this opset Unsqueeze reads its axes."""


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
    with _Unrolling(unfolding, name) as unrolling:
        while goes_on and (trips is None or iteration < trips):
            _ensure_few(iteration, trips, name)
            unfolding.count_unrolled()
            place = f"{name}.{iteration}"
            index = unfolding.constant(unfolding.names.tensor(f"{place}/iteration", name), _int64(iteration, ()))
            truth = unfolding.constant(unfolding.names.tensor(f"{place}/condition", name), _true())
            given = dict(zip(formal, (index, truth, *carried), strict=True))
            again, *results = unfolding.inline(body, scoped.names, given, place, shared)
            carried, outputs = results[:state_count], tuple(results[state_count:])
            scanned.append(outputs)
            iteration += 1
            if trips is None or iteration < trips:
                goes_on = bool(_number(unfolding, again, name, f"its condition after iteration {iteration}"))
        unrolling.iterations = iteration
        columns = _columns(scanned, scoped.outputs[state_count:], name)
        stacked = [_stacked(unfolding, column, 0, name) for column in columns]
        hand_out(unfolding, (*carried, *stacked), scoped.outputs, name)


def _scan(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    place = f"node {name!r}"
    if unfolding.inference.opset < _FIRST_OPSET_OF_SCAN:
        what = f"Scan of opset {unfolding.inference.opset} runs batches"
        raise GraphError(what, place=place, expected=f"opset {_FIRST_OPSET_OF_SCAN} or later")
    body, count = graph_of(scoped.node, "body", name), integer_attribute(scoped.node, "num_scan_inputs")
    state_count = len(scoped.inputs) - count
    if not 1 <= count <= len(scoped.inputs) or not all(scoped.inputs):
        raise GraphError(f"it has {count} scan inputs", place=place, expected=f"1 to {len(scoped.inputs)}")
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
        raise GraphError("how often it runs follows from values", place=place, expected="static shapes")
    shapes = [unfolding.inference.shape_and_element_type(source)[0] for source in sources]
    axes = axes_of(scoped.node, "scan_input_axes", [len(shape) for shape in shapes], name)
    lengths = {shape[axis] for shape, axis in zip(shapes, axes, strict=True)}
    if len(lengths) > 1:
        raise GraphError(f"its scan inputs have {sorted(lengths)} parts", place=place, expected="one number of parts")
    (trips,) = lengths
    _ensure_short(unfolding, body, trips, name)
    backwards = integers_attribute(scoped.node, "scan_input_directions", len(sources))
    formal = [value.name for value in body.input]
    shared: dict[str, str] = {}
    scanned: list[tuple[str, ...]] = []
    with _Unrolling(unfolding, name) as unrolling:
        unrolling.iterations = trips
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
    """The outputs that a Scan puts together, along their axes and in their directions."""
    ranks = [len(unfolding.inference.shape_and_element_type(column[0])[0]) + 1 if column else 1 for column in columns]
    axes = axes_of(node, "scan_output_axes", ranks, name)
    backwards = integers_attribute(node, "scan_output_directions", len(columns))
    return tuple(
        _stacked(unfolding, column[::-1] if back else column, axis, name)
        for column, axis, back in zip(columns, axes, backwards, strict=True)
    )


class _Unrolling:
    """While a loop is unrolled, its nodes count; a loop within it is part of it, and nothing is said of that."""

    def __init__(self, unfolding: Unfolding, name: str) -> None:
        self._unfolding, self._name, self._outer = unfolding, name, unfolding.loop
        self.iterations = 0

    def __enter__(self) -> Self:
        self._unfolding.loop = self._outer or self._name
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        self._unfolding.loop = self._outer
        if failed is None and self._outer is None and self.iterations:
            what = f"it runs {self.iterations} times: each iteration's nodes are planned"
            self._unfolding.remarks.append(f"node {self._name!r}: {what}")


def _columns(scanned: Sequence[tuple[str, ...]], outputs: Sequence[str], name: str) -> list[tuple[str, ...]]:
    """The parts of each output that iterations put together; raises NotUnrolledError if no part says a shape."""
    if not scanned and any(outputs):
        raise NotUnrolledError("it never runs", place=f"node {name!r}", expected="an iteration, or a known trip count")
    return [tuple(results[index] for results in scanned) for index in range(len(outputs))]


def _stacked(unfolding: Unfolding, parts: tuple[str, ...], axis: int, name: str) -> str:
    """One tensor of the parts, along a new axis; an empty name where there are none."""
    if not parts:
        return ""
    pieces = []
    for part in parts:
        pieces.append(unfolding.names.tensor(f"{part}/unsqueezed", name))
        if unfolding.inference.opset < _AXES_ARE_AN_INPUT:
            node = make_node("Unsqueeze", [part], [pieces[-1]], axes=[axis])
        else:
            node = make_node("Unsqueeze", [part, integers_of(unfolding, f"{name}/axes", (axis,))], [pieces[-1]])
        unfolding.add(node, pieces[-1])
    whole = unfolding.names.tensor(f"{name}/outputs", name)
    unfolding.add(make_node("Concat", pieces, [whole], axis=axis), whole)
    return whole


def _part(unfolding: Unfolding, source: str, axis: int, index: int, name: str) -> str:
    part = unfolding.names.tensor(f"{name}.{index}/{source}", name)
    position = unfolding.constant(unfolding.names.tensor(f"{part}/index", name), _int64(index, ()))
    unfolding.add(make_node("Gather", [source, position], [part], axis=axis), part)
    return part


def _number(unfolding: Unfolding, tensor: str, name: str, what: str) -> int:
    value = unfolding.inference.constants.value(tensor)
    if value is None:
        expected = "one that follows from shapes, constants and --value"
        raise NotUnrolledError(f"{what} is known only when it runs", place=f"node {name!r}", expected=expected)
    return int(truth_or_count(value, name))


def _ensure_few(iteration: int, trips: int | None, name: str) -> None:
    if max(iteration, (trips or 1) - 1) >= GREATEST_ITERATIONS:
        many = f"{trips} times" if trips else f"more than {GREATEST_ITERATIONS} times"
        raise NotUnrolledError(f"it runs {many}", place=f"node {name!r}", expected=f"at most {GREATEST_ITERATIONS}")


def _ensure_short(unfolding: Unfolding, body: onnx.GraphProto, trips: int, name: str) -> None:
    """Raise NotUnrolledError, before any is made, for so many iterations that their nodes are too many."""
    _ensure_few(0, trips, name)
    nodes = sum(node.op_type != "Constant" for node in body.node)
    unfolding.ensure_may_unroll(trips * (1 + nodes), unfolding.loop or name)


def _int64(value: int, shape: tuple[int, ...]) -> onnx.TensorProto:
    return make_tensor("", onnx.TensorProto.INT64, shape, [value])


def _true() -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(True))


CONTROL_FLOW: Final[Mapping[str, Runner]] = {"If": run_if, "Loop": _loop, "Scan": _scan}
"""By kind, what takes over the nodes that such a node runs."""
