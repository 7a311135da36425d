"""Latency bounds that were above a legal plan, and an infeasible network that ended in a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from adversary.frame import Json, Program

FILES = Path(__file__).parent / "latency"


def asked(name: str, folder: Path, *options: str) -> tuple[int, Json]:
    """Plan a network of this folder on its machine and return the exit code and the answer."""
    files = (FILES / f"{name}.graph.json", "--accelerator", FILES / f"{name}.yaml")
    ended = Program(folder).ask("plan", *files, *options, "--time-limit", 2, "--json")
    return ended.code, ended.answer


@pytest.mark.parametrize(("name", "known_cycles"), [("latency-bound", 62), ("latency-optimal", 26)])
def test_bound_is_not_above_a_known_plan(name: str, known_cycles: int, tmp_path: Path) -> None:
    code, answer = asked(name, tmp_path, "--objective", "latency")
    assert code == 0
    assert answer["lower_bound"] <= known_cycles


def test_plan_of_26_cycles_is_legal(tmp_path: Path) -> None:
    ended = Program(tmp_path).ask(
        "check", FILES / "latency-optimal.hand.plan.json", FILES / "latency-optimal.graph.json", "--json"
    )
    assert ended.code == 0


@pytest.mark.parametrize("objective", ["latency", "traffic"])
def test_network_is_infeasible_if_no_scratchpad_holds_its_outputs(objective: str, tmp_path: Path) -> None:
    code, answer = asked("latency-no-output", tmp_path, "--objective", objective)
    assert (code, answer["status"]) == (3, "INFEASIBLE")
    assert answer["error"] == "operator o needs 4 bytes; output y (2 bytes) fits in no scratchpad"
