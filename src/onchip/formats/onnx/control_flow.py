"""What nodes with graphs of their own run: Loop and Scan as the nodes that take their place.

One that runs a known number of times is unrolled, up to a limit; else it stays one node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Self

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import make_node, make_tensor

from onchip.errors import GraphError
from onchip.formats.onnx.branches import hand_out, integers_of, run_if
from onchip.formats.onnx.flow_attributes import (
    axes_of,
    ensure_as_many,
    graph_of,
    integer_attribute,
    integers_attribute,
    truth_or_count,
)
from onchip.formats.onnx.kept_loops import keep_loop, keep_scan
from onchip.formats.onnx.scopes import ScopedNode
from onchip.formats.onnx.unfolding import NotUnrolledError, Runner, Unfolding
from onchip.formats.unrolling import GREATEST_ITERATIONS

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
