from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.methods import METHODS, Method
from onchip.search.budget.limits import Run
from support.diamond import Program

PROMISED_FIELDS = {
    "network",
    "method",
    "order",
    "count",
    "seed",
    "status",
    "operators",
    "tensors",
    "memories",
    "capacity_bytes",
    "objective",
    "objective_value",
    "lower_bound",
    "gap",
    "traffic",
    "peak_bytes",
    "arena_bytes",
    "required_bytes",
    "min_peak_bytes",
    "seconds",
}

Solve: TypeAlias = Callable[[Problem, Run], SearchResult[Plan]]


def pretend(monkeypatch: pytest.MonkeyPatch, change: Callable[[Solve], Solve]) -> None:
    """Replace the exact method."""
    exact = METHODS["exact"]
    monkeypatch.setitem(cast("dict[str, Method]", METHODS), "exact", replace(exact, solve=change(exact.solve)))


def nothing_found(stopped_by: Stop) -> Solve:
    return lambda problem, run: SearchResult(Status.UNKNOWN, None, None, 7, run.seconds, "exact", stopped_by)


@pytest.mark.parametrize(
    ("sram", "capacity", "traffic"),
    [("130", 130, 100), ("m_r", 130, 100), ("m_h", 145, 100), ("m_p", 160, 0), ("160", 160, 0), ("1KiB", 1024, 0)],
)
def test_the_diamond_costs_what_is_worked_out_by_hand(
    onchip: Program, diamond: Path, sram: str, capacity: int, traffic: int
) -> None:
    ended = onchip("plan", diamond, "--sram", sram, "--json")

    assert ended.code == 0
    assert ended.json["status"] == "OPTIMAL"
    assert ended.json["capacity_bytes"] == capacity
    assert ended.json["objective_value"] == ended.json["lower_bound"] == traffic
    assert ended.json["gap"] == 0
    assert ended.json["traffic"]["non_compulsory"] == traffic
    assert ended.json["traffic"]["compulsory"] == 40 + 30
    assert ended.json["traffic"]["total"] == 70 + traffic
    assert ended.json["required_bytes"] == 130


def test_json_has_every_promised_field_and_nothing_else_is_printed(onchip: Program, diamond: Path) -> None:
    ended = onchip("plan", diamond, "--sram", "130", "--json")

    assert ended.json.keys() >= PROMISED_FIELDS
    assert {"read", "solve", "verify"} <= ended.json["seconds"].keys()
    assert ended.err == ""


@pytest.mark.parametrize(("sram", "least_peak"), [("m_r", None), ("130", None), ("m_h", 160), ("m_p", 160)])
def test_m_p_is_null_where_it_was_not_computed(
    onchip: Program, diamond: Path, sram: str, least_peak: int | None
) -> None:
    assert onchip("plan", diamond, "--sram", sram, "--json").json["min_peak_bytes"] == least_peak


def test_sizes_double_with_sixteen_bits(onchip: Program, diamond: Path) -> None:
    found = onchip("plan", diamond, "--sram", "m_r", "--bits", "16", "--json").json

    assert (found["capacity_bytes"], found["objective_value"]) == (260, 200)


def test_least_peak_needs_no_size(onchip: Program, diamond: Path) -> None:
    found = onchip("plan", diamond, "--objective", "peak", "--json").json

    assert found["status"] == "OPTIMAL"
    assert found["objective_value"] == found["arena_bytes"] == 160
    assert found["traffic"]["non_compulsory"] == 0


def test_a_person_reads_a_table(onchip: Program, diamond: Path) -> None:
    ended = onchip("plan", diamond, "--sram", "130")

    assert ended.code == 0
    assert "OPTIMAL" in ended.out
    assert "100 bytes" in ended.out
    assert "\x1b" not in ended.out
    assert ended.err == ""


def test_an_alignment_is_kept(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert onchip("plan", diamond, "--sram", "256", "--alignment", "16", "-o", plan).code == 0

    instructions = json.loads(plan.read_text())["instructions"]
    offsets = [line["allocate"]["offset_bytes"] for line in instructions if "allocate" in line]
    assert offsets
    assert all(offset % 16 == 0 for offset in offsets)


def test_too_small_a_scratchpad_is_infeasible_and_names_the_operator(onchip: Program, diamond: Path) -> None:
    ended = onchip("plan", diamond, "--sram", "129", "--json")

    assert ended.code == 3
    infeasible = {"status": "INFEASIBLE", "operator": "join", "need_bytes": 130, "capacity_bytes": 129}
    assert ended.json.items() >= {**infeasible, "excess_bytes": 1}.items()
    assert "join" in onchip("plan", diamond, "--sram", "129").out


def test_without_spills_one_byte_below_the_least_peak_is_infeasible(onchip: Program, diamond: Path) -> None:
    ended = onchip("plan", diamond, "--sram", "159", "--objective", "peak", "--json")

    assert ended.code == 3
    assert ended.json.items() >= {"need_bytes": 160, "excess_bytes": 1}.items()


def test_no_size_is_refused_with_the_budgets_that_make_sense(onchip: Program, diamond: Path) -> None:
    ended = onchip("plan", diamond)

    assert ended.code == 2
    assert "M_R is 130 bytes" in ended.err
    assert "M_P is 160 bytes" in ended.err
    others = [line.split(str(diamond))[1] for line in ended.err.splitlines()[1:]]
    assert others == [" --sram m_r", " --sram m_p", " --accelerator simba"]


def test_the_same_seed_writes_the_same_bytes(onchip: Program, diamond: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for path in (first, second):
        assert onchip("plan", diamond, "--sram", "130", "-o", path).code == 0

    assert first.read_bytes() == second.read_bytes()


def test_nothing_found_in_time_has_its_own_exit_code(
    onchip: Program, diamond: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, lambda exact: nothing_found(Stop.TIME_LIMIT))
    plan = tmp_path / "plan.json"
    ended = onchip("plan", diamond, "--sram", "130", "-o", plan, "--json")

    assert ended.code == 4
    assert ended.json.items() >= {"status": "UNKNOWN", "lower_bound": 7, "objective_value": None}.items()
    assert not plan.exists()


def test_an_illegal_plan_of_our_own_is_never_handed_out(
    onchip: Program, diamond: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def forgetful(exact: Solve) -> Solve:
        def solve(problem: Problem, run: Run) -> SearchResult[Plan]:
            result = exact(problem, run)
            assert result.answer is not None
            return replace(result, answer=replace(result.answer, instructions=result.answer.instructions[1:]))

        return solve

    pretend(monkeypatch, forgetful)
    plan = tmp_path / "plan.json"
    ended = onchip("plan", diamond, "--sram", "130", "-o", plan, "--json")

    assert ended.code == 70
    assert "violation" in ended.json["error"]
    assert not plan.exists()


def test_a_wrong_claim_of_our_own_is_never_handed_out(
    onchip: Program, diamond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, lambda exact: lambda problem, run: replace(exact(problem, run), objective_value=101))

    assert onchip("plan", diamond, "--sram", "130").code == 70


def test_ctrl_c_ends_with_the_best_plan_so_far(onchip: Program, diamond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(exact: Solve) -> Solve:
        def solve(problem: Problem, run: Run) -> SearchResult[Plan]:
            result = exact(problem, Run())
            signal.raise_signal(signal.SIGINT)
            assert run.stop is Stop.INTERRUPTED
            return replace(result, status=Status.FEASIBLE, lower_bound=0, stopped_by=run.stop)

        return solve

    pretend(monkeypatch, interrupted)
    ended = onchip("plan", diamond, "--sram", "130", "--json")
    assert ended.code == 0
    assert ended.json.items() >= {"status": "FEASIBLE", "stopped_by": "interrupted", "gap": 1.0}.items()
    assert "interrupted" in onchip("plan", diamond, "--sram", "130").out


def test_ctrl_c_without_a_plan_has_its_own_exit_code(
    onchip: Program, diamond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, lambda exact: nothing_found(Stop.INTERRUPTED))

    assert onchip("plan", diamond, "--sram", "130").code == 130


def test_a_second_ctrl_c_ends_the_program(onchip: Program, diamond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(problem: Problem, run: Run) -> SearchResult[Plan]:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    pretend(monkeypatch, lambda exact: deaf)
    handler = signal.getsignal(signal.SIGINT)
    ended = onchip("plan", diamond, "--sram", "130", "--json")

    assert ended.code == 130
    assert ended.json["error"] == "interrupted"
    assert signal.getsignal(signal.SIGINT) is handler


def test_progress_stays_off_a_stream_that_is_no_terminal(
    onchip: Program, diamond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chatty(exact: Solve) -> Solve:
        def solve(problem: Problem, run: Run) -> SearchResult[Plan]:
            run.report(None, 0, "search")
            return exact(problem, run)

        return solve

    pretend(monkeypatch, chatty)
    assert onchip("plan", diamond, "--sram", "130").err == ""


def in_a_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "onchip", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.slow
def test_the_process_ends_with_the_exit_code(diamond: Path) -> None:
    ended = in_a_process("plan", diamond, "--sram", "129", "--json")

    assert ended.returncode == 3
    assert json.loads(ended.stdout)["status"] == "INFEASIBLE"
    assert ended.stderr == ""


@pytest.mark.slow
def test_nothing_is_said_of_a_reader_that_goes_away(diamond: Path) -> None:
    command = [sys.executable, "-m", "onchip", "info", str(diamond)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(60) == 74
    assert errors == b""


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    heavy = {"onnx", "ortools", "numpy", "pydantic", "rich", "torch", "yaml"}
    program = "import sys; from onchip.cli import run; run(['--help']); print('\\n' + ' '.join(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    loaded: set[Any] = set(ended.stdout.splitlines()[-1].split())
    assert "onchip.cli" in loaded
    assert not heavy & loaded
