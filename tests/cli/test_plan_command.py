"""Tests of `onchip plan`: figures, exit codes, recomputation, shared bytes and tiles."""

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
from onchip.commands.show import code_of_refusal
from onchip.errors import UntiledError
from onchip.memory.methods import METHODS, Method
from onchip.search.budget.limits import Run
from support.diamond import Program
from support.remembered import remembered_fields

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


# `--share`: shared bytes stated on the command line, in an accelerator file and in a graph file


CHIP = """\
format: onchip-accelerator
version: 1
name: small
memories:
  - {name: sram, capacity: 1605632, scratchpad: true}
"""
RESNET50 = ("plan", "resnet50", "--bits", 8)


def test_resnet50_at_what_an_addition_in_place_needs(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    ended = onchip(*RESNET50, "--sram", 1605632, "--share", "all", "--json", "-o", plan)
    found = ended.json
    assert (ended.code, found["status"], found["required_bytes"]) == (0, "OPTIMAL", 1605632)
    assert json.loads(plan.read_text())["reading"]["share"] == {"in_place": ["*"], "alias": ["*"]}
    assert onchip("check", plan, "resnet50").code == 0
    assert onchip("run", plan, "resnet50").code == 0

    alone = onchip(*RESNET50, "--sram", 1605632, "--tiles", "never", "--json")
    assert (alone.code, alone.json["status"]) == (3, "INFEASIBLE")


@pytest.mark.slow
def test_tiles_share_bytes_too(onchip: Program, tmp_path: Path) -> None:
    plan = tmp_path / "tiled.json"
    asked = (*RESNET50, "--sram", 900_000, "--tiles", "auto", "--time-limit", 20)
    apart = onchip(*asked, "--json").json
    found = onchip(*asked, "--share", "all", "--json", "-o", plan).json
    assert found["objective_value"] <= apart["objective_value"]
    assert onchip("check", plan, "resnet50").code == 0
    assert onchip("run", plan, "resnet50").code == 0


def test_what_has_a_place_for_life_shares_nothing(onchip: Program) -> None:
    ended = onchip(*RESNET50, "--sram", "m_r", "--placement", "static", "--share", "all")
    assert ended.code == 2
    assert "--share, --placement static: " in ended.err


def test_an_accelerator_says_which_kinds_its_kernels_can(onchip: Program, tmp_path: Path) -> None:
    chip = tmp_path / "chip.yaml"
    chip.write_text(CHIP + "share: {in_place: [Add, Relu]}\n")
    asked = (*RESNET50, "--accelerator", chip, "--tiles", "never", "--json")
    assert onchip(*asked).json["status"] == "OPTIMAL"
    assert onchip(*asked, "--share", "none").code == 3
    chip.write_text(CHIP + "share: {in_place: [Mul]}\n")
    assert onchip(*asked).code == 3


def test_a_mistake_in_what_an_accelerator_shares_is_named(onchip: Program, tmp_path: Path) -> None:
    chip = tmp_path / "chip.yaml"
    chip.write_text(CHIP + "share: {inplace: [Add]}\n")
    ended = onchip(*RESNET50, "--accelerator", chip)
    assert ended.code == 2
    assert "line 6" in ended.err
    assert "inplace" in ended.err


def test_info_says_what_sharing_saves(onchip: Program) -> None:
    said = onchip("info", "resnet50", "--bits", 8).out
    assert "with share=in-place M_R 1,605,632 bytes, M_P 1,806,336 bytes" in " ".join(said.split())
    shared = onchip("info", "densenet121", "--bits", 8, "--json").json["shared"]
    assert [one["required_bytes"] for one in shared] == [1605632, 1605632, 1605632, 1204224]
    assert [one["min_peak_bytes"] for one in shared] == [2107392, 1806336, 2107392, 1806336]


def test_what_shares_nothing_says_so(onchip: Program) -> None:
    ended = onchip(*RESNET50, "--sram", "m_r", "--share", "in-place", "--method", "belady")
    assert ended.code == 2
    assert "--share: method 'belady'" in ended.err


@pytest.mark.parametrize("share", ["none", "all"])
def test_pairs_of_a_file_count_where_they_are_asked_for(onchip: Program, tmp_path: Path, share: str) -> None:
    shape = {"shape": [4, 8], "bits": 8}
    graph = {
        "format": "onchip-graph",
        "version": 1,
        "name": "own",
        "tensors": [{"name": name, **shape, "role": role} for name, role in (("x", "input"), ("y", "output"))],
        "operators": [{"name": "op", "kind": "Softmax", "inputs": ["x"], "outputs": ["y"], "in_place": [["x", "y"]]}],
    }
    path = tmp_path / "own.json"
    path.write_text(json.dumps(graph))
    found = onchip("plan", path, "--sram", "m_r", "--share", share, "--json").json
    assert found["required_bytes"] == {"none": 64, "all": 32}[share]


# `plan --tiles` with an operator that fits in no tiling: proven infeasible, and named with its smallest tile


def network(folder: Path, kind: str, shape: list[int]) -> Path:
    fields = {
        "format": "onchip-graph",
        "version": 1,
        "name": "single",
        "tensors": [
            {"name": "x", "shape": shape, "bits": 8, "role": "input"},
            {"name": "y", "shape": shape, "bits": 8, "role": "output"},
        ],
        "operators": [{"name": "op", "kind": kind, "inputs": ["x"], "outputs": ["y"], "attributes": {"axis": -1}}],
    }
    path = folder / "network.json"
    path.write_text(json.dumps(fields))
    return path


@pytest.mark.parametrize(("kind", "smallest"), [("Softmax", 20), ("NonMaxSuppression", 80)])
def test_an_operator_of_which_no_part_fits_is_infeasible(
    kind: str, smallest: int, onchip: Program, tmp_path: Path
) -> None:
    asked = ("plan", network(tmp_path, kind, [4, 10]), "--sram", str(smallest - 1), "--tiles", "auto", "--json")
    ended = onchip(*asked)
    assert ended.code == 3
    assert ended.json["status"] == "INFEASIBLE"
    found = [ended.json[f"{name}_bytes"] for name in ("need", "smallest_part", "capacity", "excess")]
    assert found == [80, smallest, smallest - 1, 1]
    assert ended.json["operator"] == "op"
    assert len(ended.err.strip().splitlines()) == 1
    roomier = ("plan", asked[1], "--sram", str(smallest), "--tiles", "auto", "--json")
    assert onchip(*roomier).code == 0


@pytest.mark.parametrize(("is_proven", "code"), [(True, 3), (False, 4)])
def test_what_was_not_found_is_not_called_infeasible(is_proven: bool, code: int) -> None:
    error = UntiledError(
        "none was found",
        operator="op",
        need_bytes=8,
        smallest_part_bytes=2,
        capacity_bytes=4,
        is_proven=is_proven,
        expected="room",
    )
    assert code_of_refusal(error) == code
    assert error.excess_bytes == 0
