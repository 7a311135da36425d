"""Planning a network whose inputs leave sizes open, as a user types and reads it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from onnx import TensorProto
from onnx.helper import make_graph, make_node

from support.diamond import Program
from support.onnx_networks import model, value, weight


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Save a matrix product that fits one length only, and an If whose condition is an input of one number."""
    branches = {
        name: make_graph([make_node(kind, ["m"], ["r"])], name, [], [value("r", None)])
        for name, kind in (("then_branch", "Relu"), ("else_branch", "Exp"))
    }
    sixteen = weight("sixteen", [], TensorProto.INT64)
    sixteen.int64_data.append(16000)
    nodes = [
        make_node("MatMul", ["audio", "w"], ["m"]),
        make_node("Equal", ["rate", "sixteen"], ["c"]),
        make_node("If", ["c"], ["y"], name="choose", **branches),
    ]
    inputs = [value("audio", ["batch", None]), value("rate", [], TensorProto.INT64)]
    path = tmp_path / "speech model.onnx"
    path.write_bytes(model(nodes, inputs, ["y"], [weight("w", [576, 2]), sixteen]).SerializeToString())
    return path


VERBS = [
    "plan {} --sram 1MiB",
    "info {}",
    "schedule {} --accelerator simba --time-limit 1",
    "fuse {} --accelerator simba --time-limit 1",
    "map {} --accelerator simba",
]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_asks_once_for_all_that_is_open(verb: str, network: Path, onchip: Program) -> None:
    words = verb.format(shlex.quote(str(network)))
    ended = onchip(*shlex.split(words))
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert "inputs have 2 open dimensions: symbol 'batch' (axis 0 of 'audio'), axis 1 of 'audio'" in line
    assert line.endswith(f"expected sizes, such as: onchip {words} --shape audio=1x576 --value rate=16000")


def test_the_command_of_the_error_works(network: Path, onchip: Program) -> None:
    ended = onchip("info", network, "--json")
    fields = json.loads(ended.out)
    assert (ended.code, fields["file"]) == (2, str(network))
    assert fields["open_dimensions"] == [
        {"input": "audio", "axis": 0, "symbol": "batch"},
        {"input": "audio", "axis": 1, "symbol": None},
    ]
    program, *words = shlex.split(fields["command"])
    assert program == "onchip"
    answered = onchip(*words)
    assert (answered.code, answered.err) == (0, "")
    assert json.loads(answered.out)["operators"] == 1  # the product, and the branch that is fused into it


def test_the_reading_of_a_plan_is_used_again(network: Path, tmp_path: Path, onchip: Program) -> None:
    plan = tmp_path / "plan.json"
    bound = ("--shape", "audio=2x576", "--value", "rate=8000")
    assert onchip("plan", network, "--sram", "1MiB", *bound, "-o", plan).code == 0
    reading = json.loads(plan.read_bytes())["reading"]
    assert (reading["shapes"], reading["values"]) == ({"audio": [2, 576]}, {"rate": 8000})
    assert onchip("check", plan, network).code == 0
    assert onchip("check", plan, network, *bound).code == 0
    assert onchip("report", plan, network, "-o", tmp_path / "page.html").code == 0
    assert onchip("explain", plan, network).code == 0
    for flag, said in (("--shape", "audio=1x576"), ("--value", "rate=16000"), ("--dim", "batch=2")):
        contradicted = onchip("check", plan, network, flag, said)
        assert contradicted.code == 2
        assert "differs from the reading" in contradicted.err


def test_the_reading_of_a_schedule_and_a_strategy_is_used_again(network: Path, tmp_path: Path, onchip: Program) -> None:
    bound = ("--shape", "audio=2x576", "--value", "rate=8000")
    for verb in ("schedule", "fuse"):
        answer = tmp_path / f"{verb}.json"
        options = ("--accelerator", "simba", "--time-limit", "2", *bound, "-o", answer)
        assert onchip(verb, network, *options).code == 0
        assert json.loads(answer.read_bytes())["reading"]["values"] == {"rate": 8000}
        assert onchip("check", answer, network).code == 0
        assert onchip("check", answer, network, "--value", "rate=1").code == 2


def test_an_unbound_condition_is_said_on_standard_error(network: Path, onchip: Program) -> None:
    ended = onchip("info", network, "--shape", "audio=1x576", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["operators"] > 2
    (line,) = ended.err.splitlines()
    assert line.startswith(f"onchip: {network}: node 'choose': its condition is not known before it runs")


@pytest.mark.parametrize(
    ("flags", "place"),
    [
        (("--shape", "audio"), "--shape"),
        (("--shape", "audio=1x"), "--shape"),
        (("--shape", "audio=-1x576"), "--shape"),
        (("--shape", "=1x576"), "--shape"),
        (("--shape", "audio=1x576", "--shape", "audio=2x576"), "--shape"),
        (("--shape", "radio=1x576"), "--shape radio"),
        (("--shape", f"audio={'9' * 30}x1"), "--shape"),
        (("--dim", f"batch={'9' * 5000}"), "--dim"),
        (("--value", "rate"), "--value"),
        (("--value", "rate=fast"), "--value"),
        (("--value", "rate=inf"), "--value"),
        (("--value", "rate=1,"), "--value"),
        (("--value", f"rate={'9' * 5000}"), "--value"),
        (("--value", "rate=1", "--value", "rate=2"), "--value"),
        (("--value", "rate=1.5"), "--value rate"),
    ],
)
def test_what_binds_nothing_is_refused_in_one_line(
    flags: tuple[str, ...], place: str, network: Path, onchip: Program
) -> None:
    ended = onchip("info", network, *flags)
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert place in line


@pytest.mark.parametrize("flags", [("--shape", "x=1x2"), ("--value", "x=1"), ("--dim", "n=1")])
def test_a_bundled_network_leaves_nothing_open(flags: tuple[str, ...], onchip: Program) -> None:
    ended = onchip("info", "lenet5", *flags)
    assert ended.code == 2
    assert ended.err.startswith(f"onchip: lenet5: {flags[0]}: ")
