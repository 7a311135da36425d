"""Nodes of If, Loop and Scan: shapes, names, and the values of onnxruntime on the original file."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_node, make_tensor

from onchip.answer.bindings import Bindings
from onchip.answer.document import Reading
from onchip.errors import InputError, NetworkWarning
from onchip.formats.networks import read_onnx
from onchip.ir.graph import Graph
from support.onnx_networks import model, value
from support.onnx_runs import run_model, saved

X = value("x", [2, 3])
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def number(name: str, content: int) -> TensorProto:
    return make_tensor(name, INT64, [], [content])


def truth(name: str, content: bool) -> TensorProto:
    return numpy_helper.from_array(np.array(content), name)


def branch(name: str, kind: str, source: str = "x") -> onnx.GraphProto:
    """Return a graph whose names are the same in every branch."""
    nodes = [make_node(kind, [source], ["inner"], name="node"), make_node("Neg", ["inner"], ["result"], name="last")]
    return make_graph(nodes, name, [], [value("result", None)])


def an_if(condition: str, output: str = "y", **branches: onnx.GraphProto) -> onnx.NodeProto:
    given = {"then_branch": branch("then", "Relu"), "else_branch": branch("else", "Exp"), **branches}
    return make_node("If", [condition], [output], name=f"choose {output}", **given)


def read_model(network: onnx.ModelProto, folder: Path, bindings: Bindings = Bindings()) -> Graph:  # noqa: B008 (frozen)
    return read_onnx(saved(network, folder), bindings)


def kinds(graph: Graph) -> list[str]:
    return [operator.kind for operator in graph.operators]


def remarks(network: onnx.ModelProto, folder: Path) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_model(network, folder)
    return [str(one.message) for one in caught if issubclass(one.category, NetworkWarning)]


def runs_as_the_file(network: onnx.ModelProto, folder: Path, reading: Reading = Reading()) -> None:  # noqa: B008 (frozen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ran = run_model(saved(network, folder), reading, None)
    assert ran.relative_difference == 0


@pytest.mark.parametrize(("is_so", "kind"), [(True, "Relu"), (False, "Exp")])
def test_an_if_whose_condition_is_constant_is_its_branch(is_so: bool, kind: str, tmp_path: Path) -> None:
    network = model([an_if("c")], [X], ["y"], [truth("c", is_so)])
    assert kinds(read_model(network, tmp_path)) == [kind, "Neg"]
    assert remarks(network, tmp_path) == []
    runs_as_the_file(network, tmp_path)


def test_a_condition_that_follows_from_a_shape_is_constant(tmp_path: Path) -> None:
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Gather", ["s", "one"], ["d"]),
        make_node("Equal", ["d", "three"], ["c"]),
        an_if("c"),
    ]
    network = model(nodes, [X], ["y"], [number("one", 1), number("three", 3)])
    assert kinds(read_model(network, tmp_path)) == ["Relu", "Neg"]


def test_branches_of_the_same_names_and_nested_ones_get_names_of_their_own(tmp_path: Path) -> None:
    inside = make_graph([an_if("d", "deep")], "outer", [], [value("deep", None)])
    nodes = [
        an_if("c", "a"),
        an_if("d", "b"),
        an_if("c", "n", then_branch=inside),
        make_node("Sum", ["a", "b", "n"], ["y"]),
    ]
    network = model(nodes, [X], ["y"], [truth("c", True), truth("d", False)])
    graph = read_model(network, tmp_path)
    assert kinds(graph) == ["Relu", "Neg", "Exp", "Neg", "Exp", "Neg", "Sum"]
    assert graph.operators[2].name == "choose b/node"
    runs_as_the_file(network, tmp_path)


def test_both_branches_are_planned_where_the_condition_is_an_input(tmp_path: Path) -> None:
    network = model([an_if("c")], [X, value("c", [1], BOOL)], ["y"])
    (remark,) = remarks(network, tmp_path)
    assert "node 'choose y': its condition is not known before it runs: both branches are planned" in remark
    assert kinds(read_model(network, tmp_path)) == ["Exp", "Neg", "Relu", "Neg", "Where"]
    runs_as_the_file(network, tmp_path)


@pytest.mark.parametrize("is_so", [True, False])
def test_either_branch_computes_what_it_does_in_the_file(is_so: bool, tmp_path: Path) -> None:
    """The condition is computed from the input at run time."""
    nodes = [
        make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        make_node("Less" if is_so else "Greater", ["m", "limit"], ["c"]),
        an_if("c"),
    ]
    limit = numpy_helper.from_array(np.array(100, np.float32), "limit")
    runs_as_the_file(model(nodes, [X], ["y"], [limit]), tmp_path)


@pytest.mark.parametrize("is_so", [True, False])
def test_branches_of_different_shapes_are_planned_at_the_larger_and_run(is_so: bool, tmp_path: Path) -> None:
    """Relu gives 2x3 and Transpose 3x2; the sum over the last axis is read."""
    other = make_graph([make_node("Transpose", ["x"], ["t"])], "else", [], [value("t", None)])
    nodes = [
        make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        make_node("Less" if is_so else "Greater", ["m", "limit"], ["c"]),
        an_if("c", "chosen", else_branch=other),
        make_node("Exp", ["chosen"], ["y"]),
    ]
    limit = numpy_helper.from_array(np.array(100, np.float32), "limit")
    network = model(nodes, [X], ["y"], [limit])
    assert (
        "its branches give 'chosen' as [2, 3] and [3, 2]: it is planned at the larger" in remarks(network, tmp_path)[0]
    )
    graph = read_model(network, tmp_path)
    assert (kinds(graph)[-2], graph.tensor["chosen"].shape) == ("If", (3, 3))
    runs_as_the_file(network, tmp_path)


def test_a_branch_that_cannot_be_planned_is_named_with_its_if(tmp_path: Path) -> None:
    other = make_graph([make_node("MatMul", ["x", "x"], ["t"], name="square")], "else", [], [value("t", None)])
    network = model([an_if("c", else_branch=other)], [X, value("c", [], BOOL)], ["y"])
    with pytest.raises(InputError) as caught:
        read_model(network, tmp_path)
    line = str(caught.value)
    assert "node 'choose y': its condition is not known before it runs, and a branch cannot be planned: node" in line
    assert "'square'" in line
    assert "`values` fixes the input" in line


def a_loop(trips: str, condition: str, body: onnx.GraphProto, outputs: list[str]) -> onnx.NodeProto:
    return make_node("Loop", [trips, condition, "x"], outputs, name="again", body=body)


def adding_body(condition: str = "go") -> onnx.GraphProto:
    """Return the body s = s + i + w, whose sums are also parts of a longer output; w is stated once."""
    constant = make_node("Constant", [], ["w"], value=make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]))
    nodes = [
        constant,
        make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        make_node("Less", ["i", "last"], ["less"]),
        make_node("Identity", [condition], ["goes on"]),
        make_node("Sum", ["s", "f", "w"], ["next"]),
        make_node("Neg", ["next"], ["part"]),
    ]
    inputs = [value("i", [], INT64), value("go", [], BOOL), value("s", None)]
    return make_graph(nodes, "body", inputs, [value("goes on", [], BOOL), value("next", None), value("part", None)])


@pytest.mark.parametrize("opset", [11, 21])
@pytest.mark.parametrize(("trips", "go", "iterations"), [("n", "", 4), ("n", "go", 3), ("", "less", 3)])
def test_a_loop_of_known_trips_is_unrolled(trips: str, go: str, iterations: int, opset: int, tmp_path: Path) -> None:
    """The loop ends by its trip count, or by a condition that depends on the iteration."""
    condition = {"": "go", "go": "less", "less": "less"}[go]
    first = {"": "", "go": "yes", "less": "yes"}[go]
    last = number("last", 2)
    network = model(
        [a_loop(trips, first, adding_body(condition), ["y", "parts"])],
        [X],
        ["y", "parts"],
        [number("n", 4), truth("yes", True), last],
        opset=opset,
    )
    graph = read_model(network, tmp_path)
    assert kinds(graph).count("Sum") == iterations
    assert graph.tensor[graph.operators[-1].outputs[0]].shape == (iterations, 2, 3)
    assert sum(tensor.name.endswith("w") for tensor in graph.tensors) == 1
    (remark,) = remarks(network, tmp_path)
    assert f"node 'again': it runs {iterations} times: each iteration's nodes are planned" in remark
    runs_as_the_file(network, tmp_path)


def test_a_loop_in_a_loop_is_unrolled(tmp_path: Path) -> None:
    inner = make_graph(
        [make_node("Relu", ["t"], ["u"])],
        "inner",
        [value("j", [], INT64), value("c1", [], BOOL), value("t", None)],
        [value("c1", [], BOOL), value("u", None)],
    )
    outer = make_graph(
        [make_node("Loop", ["n", "", "s"], ["r"], body=inner), make_node("Neg", ["r"], ["v"])],
        "outer",
        [value("i", [], INT64), value("c0", [], BOOL), value("s", None)],
        [value("c0", [], BOOL), value("v", None)],
    )
    network = model([a_loop("n", "", outer, ["y"])], [X], ["y"], [number("n", 2)])
    assert kinds(read_model(network, tmp_path)) == ["Relu", "Relu", "Neg"] * 2
    assert len(remarks(network, tmp_path)) == 1
    runs_as_the_file(network, tmp_path)


@pytest.mark.parametrize(
    ("loop", "what"),
    [
        (a_loop("m", "", adding_body(), ["p", "y"]), "its trip count is known only when it runs, and the length of"),
        (a_loop("", "c", adding_body(), ["p", "y"]), "its condition is known only when it runs, and the length of its"),
        (a_loop("", "", adding_body(), ["p", "y"]), "runs more than 1000 times, and the length of its output 'y'"),
        (a_loop("n", "", adding_body("ghost"), ["y", "p"]), "tensor 'ghost' is unknown"),
        (a_loop("n", "", adding_body(), ["y"]), "has 2 outputs of its graph"),
        (make_node("Loop", ["n", "", "x"], ["y"], name="again"), "has no body"),
    ],
)
def test_a_loop_that_cannot_be_unrolled_is_refused_by_its_node(loop: onnx.NodeProto, what: str, tmp_path: Path) -> None:
    given = [X, value("m", [], INT64), value("c", [], BOOL)]
    constants = [number("n", 2), number("many", 10**6), number("none", 0), number("last", 2)]
    with pytest.raises(InputError) as caught:
        read_model(model([loop], given, ["y"], constants), tmp_path)
    assert what in str(caught.value)
    assert "'again" in str(caught.value) or "ghost" in what


def scan_body() -> onnx.GraphProto:
    """Return a body with a running sum of the rows of one input and the columns of another."""
    nodes = [make_node("Sum", ["s", "row", "column"], ["next"]), make_node("Identity", ["next"], ["part"])]
    inputs = [value("s", [2]), value("row", [2]), value("column", [2])]
    return make_graph(nodes, "body", inputs, [value("next", [2]), value("part", [2])])


@pytest.mark.parametrize("directions", [[0, 0], [1, 0]])
@pytest.mark.parametrize("output_direction", [0, 1])
def test_a_scan_is_unrolled_along_its_axes(directions: list[int], output_direction: int, tmp_path: Path) -> None:
    node = make_node(
        "Scan",
        ["start", "x", "z"],
        ["y", "parts"],
        name="sum",
        body=scan_body(),
        num_scan_inputs=2,
        scan_input_axes=[-1, 0],
        scan_input_directions=directions,
        scan_output_axes=[1],
        scan_output_directions=[output_direction],
    )
    inputs = [value("start", [2]), X, value("z", [3, 2])]
    network = model([node], inputs, ["y", "parts"])
    graph = read_model(network, tmp_path)
    assert kinds(graph).count("Gather") == 6
    runs_as_the_file(network, tmp_path)
