"""Loops that stay one operator: their inputs and outputs, workspace, and the values of onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_node, make_tensor

from formats.test_onnx_control_flow import BOOL, INT64, X, number, read_model, remarks, runs_as_the_file
from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from support.onnx_networks import model, value

FLOATS = 4
pytestmark = pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning")
STATE = 2 * 3 * FLOATS
COUNTERS = 8 + 1
MANY = 5000


def weights(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape), name)


def body(nodes: list[onnx.NodeProto], outputs: list[str], stated: list[TensorProto]) -> onnx.GraphProto:
    inputs = [value("i", [], INT64), value("go", [], BOOL), value("s", None)]
    written = [value(outputs[0], [], BOOL), *(value(name, None) for name in outputs[1:])]
    return make_graph(nodes, "body", inputs, written, stated)


def squashing_body() -> onnx.GraphProto:
    """Return the body s = tanh(s w + b) with its own w and the network's b; it also computes 2x5 exponentials."""
    nodes = [
        make_node("MatMul", ["s", "w"], ["product"]),
        make_node("MatMul", ["s", "v"], ["wide"]),
        make_node("Exp", ["wide"], ["exponentials"]),
        make_node("ReduceSum", ["exponentials"], ["sum"], keepdims=0),
        make_node("Sum", ["product", "b", "sum"], ["added"]),
        make_node("Tanh", ["added"], ["next"]),
    ]
    return body(nodes, ["go", "next"], [weights("w", 3, 3), weights("v", 3, 5)])


def a_loop(trips: str, inner: onnx.GraphProto, outputs: list[str]) -> onnx.NodeProto:
    return make_node("Loop", [trips, "", "x"], outputs, name="again", body=inner)


def only_loop(graph: Graph) -> Operator:
    (loop,) = (operator for operator in graph.operators if operator.kind in ("Loop", "Scan"))
    return loop


@pytest.mark.parametrize("trips", ["many", "m"])
def test_a_loop_that_stays_reads_what_its_body_reads_around_it(trips: str, tmp_path: Path) -> None:
    """The network computes `b`; `w` and `v` are weights of the body."""
    nodes = [make_node("Relu", ["c"], ["b"]), a_loop(trips, squashing_body(), ["y"])]
    inputs = [X, value("c", [3]), value("m", [], TensorProto.INT32)]
    nodes.insert(0, make_node("Cast", ["m"], ["small"], to=TensorProto.INT8))
    nodes.insert(1, make_node("Cast", ["small"], ["n"], to=INT64))
    nodes[-1].input[0] = "many" if trips == "many" else "n"
    network = model(nodes, inputs, ["y"], [number("many", MANY)])
    loop = only_loop(read_model(network, tmp_path))
    assert loop.inputs == (("x", "b") if trips == "many" else ("n", "x", "b"))
    assert set(loop.parameters) - {"many"} == {"w", "v"}
    why = "it runs 5000 times" if trips == "many" else "its trip count is known only when it runs"
    assert f"node 'again': {why}: it stays one operator, with a workspace of" in remarks(network, tmp_path)[0]
    runs_as_the_file(network, tmp_path)


def test_the_workspace_is_what_lives_in_the_body_and_what_an_iteration_gets_and_hands_on(tmp_path: Path) -> None:
    """At most product, wide and exponentials live at once; then counters, condition, and a second copy of the state."""
    network = model([a_loop("many", squashing_body(), ["y"])], [X, value("b", [3])], ["y"], [number("many", MANY)])
    inner = STATE + 2 * (2 * 5 * FLOATS)
    assert only_loop(read_model(network, tmp_path)).workspace_bytes == inner + COUNTERS + 1 + STATE


def test_parts_that_iterations_hand_out_count_once_and_a_state_that_stays_does_not(tmp_path: Path) -> None:
    nodes = [make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT), make_node("Add", ["s", "f"], ["part"])]
    network = model(
        [a_loop("many", body(nodes, ["go", "s", "part"], []), ["y", "p"])], [X], ["p"], [number("many", MANY)]
    )
    graph = read_model(network, tmp_path)
    assert only_loop(graph).workspace_bytes == FLOATS + COUNTERS + 1 + STATE
    assert graph.tensor["p"].shape == (MANY, 2, 3)
    runs_as_the_file(network, tmp_path)


def test_an_output_of_a_loop_that_may_end_early_is_planned_at_its_greatest_length(tmp_path: Path) -> None:
    nodes = [
        make_node("ReduceSum", ["s"], ["sum"], keepdims=0),
        make_node("Less", ["sum", "limit"], ["goes on"]),
        make_node("Add", ["s", "step"], ["next"]),
        make_node("Neg", ["next"], ["part"]),
    ]
    stated = [number("many", MANY), weights("limit", 1), weights("step", 1)]
    stated[1:] = [make_tensor("limit", 1, [], [100.0]), make_tensor("step", 1, [], [1.0])]
    again = a_loop("many", body(nodes, ["goes on", "next", "part"], []), ["y", "p"])
    network = model([again, make_node("Exp", ["p"], ["q"])], [X], ["q"], stated)
    graph = read_model(network, tmp_path)
    assert (graph.tensor["p"].shape, only_loop(graph).attributes["upper_bound"]) == ((MANY, 2, 3), ["p"])
    runs_as_the_file(network, tmp_path)


def test_a_state_of_another_shape_after_an_iteration_is_refused(tmp_path: Path) -> None:
    grows = body([make_node("Concat", ["s", "s"], ["next"], axis=0)], ["go", "next"], [])
    network = model([a_loop("m", grows, ["y"])], [X, value("m", [], INT64)], ["y"])
    with pytest.raises(InputError, match=r"node 'again' is not unrolled, and its state 'x' is \(2, 3\) before"):
        read_model(network, tmp_path)


def test_a_body_that_cannot_be_planned_is_named_with_its_loop(tmp_path: Path) -> None:
    wrong = body([make_node("MatMul", ["s", "s"], ["next"], name="square")], ["go", "next"], [])
    network = model([a_loop("m", wrong, ["y"])], [X, value("m", [], INT64)], ["y"])
    with pytest.raises(InputError, match="node 'again': its body cannot be planned: node 'square': onnx refuses it"):
        read_model(network, tmp_path)


def test_a_loop_in_a_loop_that_stays_is_counted_with_its_workspace(tmp_path: Path) -> None:
    """The inner loop is the body's only operator and shares the outer state: its workspace, and one state."""
    deep = squashing_body()
    deep.name = "deep"
    for each in deep.input:
        each.name = f"{each.name}2"
    for node in deep.node:
        node.input[:] = [f"{name}2" if name == "s" else name for name in node.input]
    deep.output[0].name = "go2"
    nodes = [make_node("Loop", ["n", "", "s"], ["next"], body=deep)]
    inputs = [X, value("b", [3]), value("m", [], INT64)]
    network = model([a_loop("m", body(nodes, ["go", "next"], []), ["y"])], inputs, ["y"], [number("n", MANY)])
    network.graph.node[0].input[0] = "n"
    network.graph.initializer[0].CopyFrom(number("n", MANY))
    once = STATE + 2 * (2 * 5 * FLOATS) + COUNTERS + 1 + STATE
    assert only_loop(read_model(network, tmp_path)).workspace_bytes == once + COUNTERS + 1 + STATE


def test_a_scan_of_too_many_parts_stays_with_its_slices(tmp_path: Path) -> None:
    nodes = [make_node("Sum", ["s", "row", "w"], ["next"]), make_node("Tanh", ["next"], ["part"])]
    inner = make_graph(
        nodes, "body", [value("s", [2]), value("row", [2])], [value("next", [2]), value("part", [2])], [weights("w", 2)]
    )
    node = make_node("Scan", ["start", "x"], ["y", "parts"], name="sum", body=inner, num_scan_inputs=1)
    node.attribute.append(onnx.helper.make_attribute("scan_input_axes", [1]))
    node.attribute.append(onnx.helper.make_attribute("scan_output_axes", [1]))
    network = model([node], [value("start", [2]), value("x", [2, 1500])], ["y", "parts"])
    graph = read_model(network, tmp_path)
    scan = only_loop(graph)
    assert (scan.inputs, scan.parameters, scan.workspace_bytes) == (("start", "x"), ("w",), 3 * 2 * FLOATS)
    assert graph.tensor["parts"].shape == (2, 1500)
    runs_as_the_file(network, tmp_path)
