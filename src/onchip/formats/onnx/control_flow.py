"""What nodes with graphs of their own run: If, Loop and Scan as the nodes that take their place.

An If whose condition is known is its branch; else both branches run and a Where takes the one, so that a plan is legal
whichever it is. A Loop or a Scan that runs a known number of times is unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import make_node, make_tensor

from onchip.errors import GraphError
from onchip.formats.onnx.scopes import ScopedNode
from onchip.formats.onnx.unfolding import Runner, Unfolding

GREATEST_ITERATIONS: Final = 1000
CONSTANT_CONDITION: Final = "a condition that is constant: --value INPUT=N says the input that decides it"
_FIRST_OPSET_OF_SCAN = 9
_FIRST_OPSET_OF_WHERE = 9
_AXES_ARE_AN_INPUT = 13
"""Since this opset Unsqueeze reads its axes."""


def _if(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    branches = [_graph(scoped.node, attribute, name) for attribute in ("else_branch", "then_branch")]
    condition = scoped.inputs[0] if scoped.inputs else ""
    value = unfolding.inference.constants.value(condition)
    if value is None:
        _both_branches(unfolding, scoped, name, branches)
        return
    taken = branches[_truth(value, name)]
    results = unfolding.inline(taken, scoped.names, {}, name)
    _ensure_as_many(len(taken.output), len(scoped.node.output), name)
    _hand_out(unfolding, results, scoped.outputs, name)


def _both_branches(unfolding: Unfolding, scoped: ScopedNode, name: str, branches: Sequence[onnx.GraphProto]) -> None:
    """Run both; raises GraphError where their results are not of one type."""
    place, inference = f"node {name!r}", unfolding.inference
    if inference.opset < _FIRST_OPSET_OF_WHERE:
        what = f"its condition is not known before it runs, and its opset is {inference.opset}"
        raise GraphError(what, place=place, expected=f"opset {_FIRST_OPSET_OF_WHERE} or a condition that is constant")
    otherwise, then = (_branch_inlined(unfolding, branch, scoped, name) for branch in branches)
    _ensure_as_many(len(then), len(scoped.node.output), name)
    _ensure_as_many(len(otherwise), len(scoped.node.output), name)
    condition = _scalar(unfolding, scoped.inputs[0], name)
    for one, other, output in zip(then, otherwise, scoped.outputs, strict=True):
        if not output:
            continue
        kinds = [inference.shape_and_element_type(each) for each in (one, other)]
        if kinds[0] != kinds[1]:
            what = f"its condition is not known, and its branches give {output!r} as {kinds[0][0]} and {kinds[1][0]}"
            raise GraphError(what, place=place, expected=f"one shape and type in both, or {CONSTANT_CONDITION}")
        called = name if output == scoped.outputs[0] else output
        unfolding.add(make_node("Where", [condition, one, other], [output], name=called), called)
    what = f"node {name!r}: its condition is not known before it runs: both branches are planned, and which one counts"
    unfolding.remarks.append(f"{what} is decided by a Where")


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
    target = _integers(unfolding, f"{name}/no axes", ())
    result = unfolding.names.tensor(f"{name}/condition", name)
    unfolding.add(make_node("Reshape", [condition, target], [result]), result)
    return result


def _loop(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    body = _graph(scoped.node, "body", name)
    limit, condition, *carried = (*scoped.inputs, "", "")[: max(2, len(scoped.inputs))]
    state_count = len(carried)
    _ensure_as_many(len(body.input), state_count + 2, name, "inputs of its body")
    _ensure_as_many(len(body.output) - 1, len(scoped.node.output), name)
    trips = _number(unfolding, limit, name, "its trip count") if limit else None
    goes_on = bool(_number(unfolding, condition, name, "its condition")) if condition else True
    formal = [value.name for value in body.input]
    shared: dict[str, str] = {}
    scanned: list[tuple[str, ...]] = []
    iteration = 0
    with _Unrolling(unfolding, name):
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
        columns = _columns(scanned, scoped.outputs[state_count:], name)
        stacked = [_stacked(unfolding, column, 0, name) for column in columns]
        _hand_out(unfolding, (*carried, *stacked), scoped.outputs, name)


def _scan(unfolding: Unfolding, scoped: ScopedNode, name: str) -> None:
    place = f"node {name!r}"
    if unfolding.inference.opset < _FIRST_OPSET_OF_SCAN:
        what = f"Scan of opset {unfolding.inference.opset} runs batches"
        raise GraphError(what, place=place, expected=f"opset {_FIRST_OPSET_OF_SCAN} or later")
    body, count = _graph(scoped.node, "body", name), _integer_attribute(scoped.node, "num_scan_inputs")
    state_count = len(scoped.inputs) - count
    if not 1 <= count <= len(scoped.inputs) or not all(scoped.inputs):
        raise GraphError(f"it has {count} scan inputs", place=place, expected=f"1 to {len(scoped.inputs)}")
    _ensure_as_many(len(body.input), len(scoped.inputs), name, "inputs of its body")
    _ensure_as_many(len(body.output), len(scoped.node.output), name)
    carried, sources = list(scoped.inputs[:state_count]), scoped.inputs[state_count:]
    if unfolding.inference.bounded.intersection(sources):
        raise GraphError("how often it runs follows from values", place=place, expected="static shapes")
    shapes = [unfolding.inference.shape_and_element_type(source)[0] for source in sources]
    axes = _axes(scoped.node, "scan_input_axes", [len(shape) for shape in shapes], name)
    lengths = {shape[axis] for shape, axis in zip(shapes, axes, strict=True)}
    if len(lengths) > 1:
        raise GraphError(f"its scan inputs have {sorted(lengths)} parts", place=place, expected="one number of parts")
    (trips,) = lengths
    backwards = _integers_attribute(scoped.node, "scan_input_directions", count)
    formal = [value.name for value in body.input]
    shared: dict[str, str] = {}
    scanned: list[tuple[str, ...]] = []
    with _Unrolling(unfolding, name):
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
        _hand_out(unfolding, (*carried, *_scanned(unfolding, columns, scoped.node, name)), scoped.outputs, name)


def _scanned(
    unfolding: Unfolding, columns: Sequence[tuple[str, ...]], node: onnx.NodeProto, name: str
) -> tuple[str, ...]:
    """The outputs that a Scan puts together, along their axes and in their directions."""
    ranks = [len(unfolding.inference.shape_and_element_type(column[0])[0]) + 1 if column else 1 for column in columns]
    axes = _axes(node, "scan_output_axes", ranks, name)
    backwards = _integers_attribute(node, "scan_output_directions", len(columns))
    return tuple(
        _stacked(unfolding, column[::-1] if back else column, axis, name)
        for column, axis, back in zip(columns, axes, backwards, strict=True)
    )


class _Unrolling:
    """While a loop is unrolled, its nodes count; a loop within it is part of it."""

    def __init__(self, unfolding: Unfolding, name: str) -> None:
        self._unfolding, self._name, self._outer = unfolding, name, unfolding.loop

    def __enter__(self) -> None:
        self._unfolding.loop = self._outer or self._name

    def __exit__(self, *_: object) -> None:
        self._unfolding.loop = self._outer


def _columns(scanned: Sequence[tuple[str, ...]], outputs: Sequence[str], name: str) -> list[tuple[str, ...]]:
    """The parts of each output that iterations put together; raises GraphError where there are none."""
    if not scanned and any(outputs):
        raise GraphError("it never runs, and its outputs are empty", place=f"node {name!r}", expected="an iteration")
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
            node = make_node("Unsqueeze", [part, _integers(unfolding, f"{name}/axes", (axis,))], [pieces[-1]])
        unfolding.add(node, pieces[-1])
    whole = unfolding.names.tensor(f"{name}/outputs", name)
    unfolding.add(make_node("Concat", pieces, [whole], axis=axis), whole)
    return whole


def _part(unfolding: Unfolding, source: str, axis: int, index: int, name: str) -> str:
    part = unfolding.names.tensor(f"{name}.{index}/{source}", name)
    position = unfolding.constant(unfolding.names.tensor(f"{part}/index", name), _int64(index, ()))
    unfolding.add(make_node("Gather", [source, position], [part], axis=axis), part)
    return part


def _hand_out(unfolding: Unfolding, results: Sequence[str], outputs: Sequence[str], name: str) -> None:
    """Give results the names that the rest of the network has for them."""
    for result, output in zip(results, outputs, strict=True):
        if output:
            unfolding.inference.ensure_known(result, name)
            unfolding.add(make_node("Identity", [result], [output]), output)


def _graph(node: onnx.NodeProto, attribute: str, name: str) -> onnx.GraphProto:
    for each in node.attribute:
        if each.name == attribute and each.type == onnx.AttributeProto.GRAPH:
            found: onnx.GraphProto = each.g
            return found
    raise GraphError(f"it has no {attribute}", place=f"node {name!r}", expected="a graph")


def _number(unfolding: Unfolding, tensor: str, name: str, what: str) -> int:
    value = unfolding.inference.constants.value(tensor)
    if value is None:
        expected = "one that follows from shapes, constants and --value"
        raise GraphError(f"{what} is known only when it runs", place=f"node {name!r}", expected=expected)
    return int(_truth_or_count(value, name))


def _truth(value: onnx.TensorProto, name: str) -> bool:
    return bool(_truth_or_count(value, name))


def _truth_or_count(value: onnx.TensorProto, name: str) -> int:
    array = numpy_helper.to_array(value)
    if array.size != 1 or array.dtype.kind not in "biu":
        what = f"what decides how it runs is {array.dtype}{list(array.shape)}"
        raise GraphError(what, place=f"node {name!r}", expected="one truth value or integer")
    return int(array.reshape(-1)[0])


def _ensure_as_many(found: int, expected: int, name: str, what: str = "outputs of its graph") -> None:
    if found != expected:
        raise GraphError(f"it has {found} {what}", place=f"node {name!r}", expected=str(expected))


def _ensure_few(iteration: int, trips: int | None, name: str) -> None:
    if max(iteration, (trips or 1) - 1) >= GREATEST_ITERATIONS:
        many = f"{trips} times" if trips else f"more than {GREATEST_ITERATIONS} times"
        raise GraphError(f"it runs {many}", place=f"node {name!r}", expected=f"at most {GREATEST_ITERATIONS}")


def _axes(node: onnx.NodeProto, attribute: str, ranks: Sequence[int], name: str) -> list[int]:
    axes = _integers_attribute(node, attribute, len(ranks))
    for axis, rank in zip(axes, ranks, strict=True):
        if not -rank <= axis < rank:
            raise GraphError(f"{attribute} has {axis}", place=f"node {name!r}", expected=f"an axis of {rank}")
    return [axis % rank for axis, rank in zip(axes, ranks, strict=True)]


def _integer_attribute(node: onnx.NodeProto, name: str) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), 0)


def _integers_attribute(node: onnx.NodeProto, name: str, count: int) -> list[int]:
    """As many as there should be, zeros where the attribute is not there or short."""
    found = next((list(attribute.ints) for attribute in node.attribute if attribute.name == name), [])
    return [*found, *([0] * count)][:count]


def _integers(unfolding: Unfolding, name: str, values: Sequence[int]) -> str:
    return unfolding.constant(unfolding.names.tensor(name, name), make_tensor("", 7, [len(values)], values))


def _int64(value: int, shape: tuple[int, ...]) -> onnx.TensorProto:
    return make_tensor("", onnx.TensorProto.INT64, shape, [value])


def _true() -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(True))


CONTROL_FLOW: Final[Mapping[str, Runner]] = {"If": _if, "Loop": _loop, "Scan": _scan}
"""By kind, what takes over the nodes that such a node runs."""
