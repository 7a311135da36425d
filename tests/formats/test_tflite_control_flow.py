"""Control flow (IF, WHILE, CALL_ONCE) and variables of TFLite files: plans, remarks, and the runtime's values."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from onchip.api.run import RunValues
from onchip.errors import InputError, NetworkWarning
from onchip.formats.networks import read_tflite
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from simulate.test_tflite_runs import executed
from support.tflite_models import SIZE, TfliteModel, TfliteOperator, branching, looping, with_variables

FLOATS = 4
NUMBER = 4


def read_model(model: TfliteModel, folder: Path) -> Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_tflite(model.write(folder / "model.tflite"))


def remarks(model: TfliteModel, folder: Path) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_tflite(model.write(folder / "model.tflite"))
    return [str(one.message) for one in caught if issubclass(one.category, NetworkWarning)]


def runs_as_the_file(model: TfliteModel, folder: Path, **given: np.ndarray) -> None:
    files = []
    for name, array in given.items():
        np.save(folder / f"{name}.npy", array)
        files.append(f"{name}={folder / name}.npy")
    path = model.write(folder / "model.tflite")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        execution = executed(path, folder, values=RunValues(given=tuple(files)))
    assert execution.is_right
    assert execution.relative_difference == 0


def kinds(graph: Graph) -> list[str]:
    return [operator.kind for operator in graph.operators]


def only_loop(graph: Graph) -> Operator:
    (loop,) = (operator for operator in graph.operators if operator.kind == "WHILE")
    return loop


@pytest.mark.parametrize("sign", [1, -1])
def test_both_branches_of_an_if_are_planned_and_either_runs(sign: int, tmp_path: Path) -> None:
    graph = read_model(branching(), tmp_path)
    assert kinds(graph)[2:] == ["Relu", "Sub", "Exp", "Neg", "Where", "Abs"]
    (remark,) = remarks(branching(), tmp_path)
    assert "operator 'chosen': its condition is not known before it runs: both branches are planned" in remark
    runs_as_the_file(branching(), tmp_path, x=np.full((1, SIZE), sign * 0.5, np.float32))


@pytest.mark.parametrize("trips", [0, 1, 2, 7])
def test_a_loop_of_known_trips_is_unrolled_and_its_constants_are_there_once(trips: int, tmp_path: Path) -> None:
    model = looping(trips)
    graph = read_model(model, tmp_path)
    assert kinds(graph).count("Tanh") == trips
    assert [tensor.name for tensor in graph.tensors].count("w") == min(trips, 1)
    assert not any(name.startswith("w ") for name in graph.tensor)
    assert f"operator 'y': it runs {trips} times: each iteration's operators are planned" in remarks(model, tmp_path)[0]
    runs_as_the_file(model, tmp_path)


@pytest.mark.parametrize("limit", [None, 1001, 10**6])
def test_a_loop_that_cannot_be_unrolled_stays(limit: int | None, tmp_path: Path) -> None:
    """The product and the sum of the body live at once; the state and the counter have a second copy, `n` has none."""
    model = looping(limit)
    loop = only_loop(read_model(model, tmp_path))
    assert loop.workspace_bytes == 2 * SIZE * FLOATS + SIZE * FLOATS + NUMBER
    assert set(loop.parameters) >= {"w", "b", "one"}
    (remark,) = remarks(model, tmp_path)
    why = "how often it runs is not known" if limit is None else "it runs more than 1000 times"
    assert f"operator 'y': {why}: it stays one operator, with a workspace of {loop.workspace_bytes} bytes" in remark


@pytest.mark.parametrize("trips", [0, 3, 40])
def test_a_loop_that_stays_runs_as_the_runtime_does(trips: int, tmp_path: Path) -> None:
    runs_as_the_file(looping(None), tmp_path, n=np.array(trips, np.int32))


def test_a_loop_that_runs_itself_is_refused(tmp_path: Path) -> None:
    model = looping(None)
    again = ("WhileOptions", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2})
    body = model.subgraphs[2]
    body.operators = [TfliteOperator("WHILE", ["s", "i", "n"], ["t", "next", "n"], again)]
    body.tensors = [*body.tensors]
    body.outputs = ["t", "next", "n"]
    body.operators[0].outputs = ["t", "next", "one"]
    with pytest.raises(InputError, match="operator 'y': its subgraph 2 cannot be planned"):
        read_model(model, tmp_path)


def test_variables_are_state_or_constants_and_what_runs_once_is_dropped_with_a_note(tmp_path: Path) -> None:
    graph = read_model(with_variables(), tmp_path)
    assert kinds(graph) == ["Mul", "Add", "Tanh"]
    assert {tensor.name for tensor in graph.with_role(Role.INPUT)} == {"x", "before"}
    assert {tensor.name for tensor in graph.with_role(Role.OUTPUT)} == {"sum", "y"}
    assert graph.states == (State("before", "sum"),)
    assert graph.operators[0].parameters == ("twos",)
    said = remarks(with_variables(), tmp_path)
    assert any("tensor 'before': state between inferences" in each for each in said)
    once = "subgraph 1 runs once, before the first inference, and is not planned: it says what variables begin with"
    assert any(f"{once} ('v', 'scale')" in each for each in said)
    runs_as_the_file(with_variables(), tmp_path)


def test_a_variable_that_is_assigned_before_it_is_read_is_no_state(tmp_path: Path) -> None:
    model = with_variables()
    operators = list(model.subgraphs[0].operators)
    operators[3], operators[4:8] = (
        operators[4],
        [
            TfliteOperator("MUL", ["x", "factor"], ["product"], ("MulOptions", {})),
            TfliteOperator("ASSIGN_VARIABLE", ["v", "product"], []),
            TfliteOperator("READ_VARIABLE", ["v"], ["before"]),
            TfliteOperator("ADD", ["before", "x"], ["sum"], ("AddOptions", {})),
        ],
    )
    model.subgraphs[0].operators = operators
    assert {tensor.name for tensor in read_model(model, tmp_path).with_role(Role.INPUT)} == {"x"}
    runs_as_the_file(model, tmp_path)


def test_an_assignment_that_only_a_run_decides_is_refused(tmp_path: Path) -> None:
    model, variables = branching(), with_variables()
    then = model.subgraphs[1]
    then.tensors = [*then.tensors, variables.subgraphs[0].tensors[1]]
    then.operators = [
        *then.operators,
        variables.subgraphs[0].operators[1],
        TfliteOperator("ASSIGN_VARIABLE", ["v", "z"], []),
    ]
    with pytest.raises(InputError, match="variable 'v' is assigned inside a conditional branch"):
        read_model(model, tmp_path)
