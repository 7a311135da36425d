"""`onchip plan`, `check` and `run` of a model whose loop stays one operator with a workspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx.helper import make_node

from formats.test_onnx_control_flow import X, number
from formats.test_onnx_kept_loops import MANY, a_loop, squashing_body
from support.diamond import Program
from support.onnx_networks import model, value
from support.onnx_runs import saved


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    nodes = [make_node("Relu", ["c"], ["b"]), a_loop("many", squashing_body(), ["z"]), make_node("Exp", ["z"], ["y"])]
    return saved(model(nodes, [X, value("c", [3])], ["y"], [number("many", MANY)]), tmp_path)


def test_a_loop_that_stays_is_planned_with_its_workspace_and_runs(onchip: Program, loop: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    planned = onchip("plan", loop, "--sram", "m_r", "-o", plan, "--json")
    assert planned.code == 0
    assert "it runs 5000 times: it stays one operator, with a workspace of 138 bytes" in planned.err
    assert planned.json["required_bytes"] == 2 * 24 + 12 + 138
    assert '"again@workspace"' in plan.read_text()
    assert onchip("check", plan, loop).code == 0
    ran = onchip("run", plan, loop, "--json")
    assert ran.code == 0
    assert (ran.json["kernels"], ran.json["run"]["relative_difference"]) == ("onnxruntime", 0)


def test_a_loop_that_stays_is_scheduled_and_runs_in_its_runtime(onchip: Program, loop: Path, tmp_path: Path) -> None:
    schedule = tmp_path / "schedule.json"
    asked = ("--accelerator", "simba", "--time-limit", "5", "-o", schedule)
    assert onchip("schedule", loop, *asked).code == 0
    ran = onchip("run", schedule, loop, "--json")
    assert ran.code == 0
    assert ran.json["kernels"] == "onnxruntime"
