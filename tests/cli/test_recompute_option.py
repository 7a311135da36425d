from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.diamond import Program
from support.remembered import remembered_fields

AGAIN = ("--recompute", "allowed")


@pytest.fixture
def remembered(tmp_path: Path) -> Path:
    path = tmp_path / "remembered.json"
    path.write_text(json.dumps(remembered_fields()))
    return path


@pytest.mark.parametrize(
    ("price", "value", "again"), [("0", 0, 1), ("3000000", 15, 1), ("4000000", 16, 0)], ids=["free", "cheap", "dear"]
)
def test_an_operator_runs_again_where_that_is_cheaper_than_reloading(
    onchip: Program, remembered: Path, price: str, value: int, again: int
) -> None:
    found = onchip("plan", remembered, "--sram", "m_r", *AGAIN, "--recompute-price", price, "--json").json

    assert (found["status"], found["objective_value"], found["lower_bound"]) == ("OPTIMAL", value, value)
    assert found["recomputation"]["runs_again"] == again
    assert found["recomputation"]["cost"] + found["traffic"]["non_compulsory"] == value


def test_without_spills_the_cycles_are_least(onchip: Program, remembered: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    asked = ("--sram", "17", *AGAIN, "--objective", "recomputation")
    found = onchip("plan", remembered, *asked, "-o", plan, "--json").json

    assert (found["status"], found["objective_value"], found["objective_unit"]) == ("OPTIMAL", 5, "cycles")
    assert found["traffic"]["non_compulsory"] == 0
    written = json.loads(plan.read_text())
    assert written["reading"]["recompute"] == "allowed"
    assert written["recomputation"]["costs"]["first"] == 5
    assert onchip("check", plan, remembered).code == 0
    assert "first (Op) in step 3, 5" in onchip("explain", plan, remembered).out
    explained = onchip("explain", plan, remembered, "--json").json
    assert explained["runs_again"] == [{"operator": "first", "step": 3, "cost": 5}]
    assert onchip("run", plan, remembered).code == 0


@pytest.mark.parametrize(
    ("objective", "value", "again"), [("traffic", 16, 0), ("dma-cycles", 2, 0), ("recomputation", 5, 1)]
)
def test_an_accelerator_says_what_a_further_run_costs(
    onchip: Program, remembered: Path, objective: str, value: int, again: int
) -> None:
    """DRAM moves 8 bytes a cycle: 40 in the 5 cycles of a further run, more than the 16 of a reload."""
    asked = ("--accelerator", "depfin@17", "--objective", objective, *AGAIN)
    found = onchip("plan", remembered, *asked, "--json").json

    assert (found["status"], found["objective_value"]) == ("OPTIMAL", value)
    assert found["recomputation"]["runs_again"] == again


def test_time_runs_an_operator_as_often_as_the_program_says(onchip: Program, remembered: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    asked = ("--sram", "17", *AGAIN, "--objective", "recomputation")
    onchip("plan", remembered, *asked, "-o", plan)

    assert onchip("time", plan, remembered, "--accelerator", "depfin", "--json").json["compute_cycles"] == 5 * 5


def test_a_plan_that_may_not_run_again_is_refused(onchip: Program, remembered: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    onchip("plan", remembered, "--sram", "17", *AGAIN, "--objective", "recomputation", "-o", plan)
    written = json.loads(plan.read_text())
    del written["reading"]["recompute"], written["recomputation"]
    plan.write_text(json.dumps(written))

    ended = onchip("check", plan, remembered)
    assert ended.code == 1
    assert "operator-run-twice" in ended.out


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (AGAIN, "states no DRAM bandwidth"),
        (("--objective", "recomputation"), "operators may not run again"),
        (("--recompute-price", "1"), "operators do not run again"),
        ((*AGAIN, "--objective", "recomputation", "--recompute-price", "1"), "counts cycles as they are"),
        ((*AGAIN, "--objective", "peak", "--recompute-price", "1"), "does not count recomputed cycles"),
        ((*AGAIN, "--recompute-price", "1", "--method", "belady"), "--recompute: method 'belady'"),
        ((*AGAIN, "--recompute-price", "1", "--placement", "static"), "has several places"),
    ],
)
def test_what_nobody_knows_is_refused_in_one_line(
    onchip: Program, remembered: Path, options: tuple[str, ...], line: str
) -> None:
    ended = onchip("plan", remembered, "--sram", "17", *options)

    assert ended.code == 2
    assert line in ended.err
    assert len(ended.err.strip().splitlines()) <= 2


def test_an_audit_of_such_a_plan_is_refused(onchip: Program, remembered: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    onchip("plan", remembered, "--sram", "17", *AGAIN, "--objective", "recomputation", "-o", plan)

    ended = onchip("audit", plan, remembered)
    assert ended.code == 2
    assert "run again" in ended.err
