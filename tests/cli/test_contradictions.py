"""Contradictions inside the program: exit code 70, one line, no answer, and the case saved for replay."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.packing import Packing, PackingProblem
from onchip.answer.result import SearchResult, Status
from onchip.errors import InternalError
from onchip.mapping.methods.registry import method_named
from onchip.memory.allocate.pack import pack
from onchip.memory.methods import METHODS, Method
from onchip.scheduling.fronts.costs import Costing
from onchip.scheduling.search.fusion import FusionResult, solve_fusion
from onchip.search.budget.limits import Run
from support.diamond import Ended, Program

CONV = "conv:n1k8c4p6q6r3s3:pad1"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONCHIP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def plant(monkeypatch: pytest.MonkeyPatch, changed: Callable[[SearchResult[Any]], SearchResult[Any]]) -> None:
    """Replace the exact method of `plan`."""
    exact = METHODS["exact"]
    planted = replace(exact, solve=lambda problem, run: changed(exact.solve(problem, run)))
    monkeypatch.setitem(cast("dict[str, Method]", METHODS), "exact", planted)


def bound_above(result: SearchResult[Any]) -> SearchResult[Any]:
    return replace(result, status=Status.FEASIBLE, lower_bound=(result.objective_value or 0) + 1)


def is_withheld(ended: Ended) -> Path:
    """Check that one line is on standard error and an error object on standard output; return the saved file."""
    assert ended.code == 70
    assert len(ended.err.strip().splitlines()) == 1
    assert "Traceback" not in ended.err
    assert "please report it with" in ended.err
    assert set(ended.json) == {"error", "file", "place", "expected", "saved"}
    assert ended.json["saved"] in ended.err
    return Path(ended.json["saved"])


def report_in(saved: Path) -> dict[str, Any]:
    with zipfile.ZipFile(saved) as archive:
        report: dict[str, Any] = json.loads(archive.read("report.json"))
    return report


def test_a_bound_above_the_objective_is_a_contradiction(
    onchip: Program, diamond: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, bound_above)
    plan = tmp_path / "plan.json"

    ended = onchip("plan", diamond, "--sram", "130", "-o", plan, "--json")

    saved = is_withheld(ended)
    assert "lower bound 101 is above its objective 100" in ended.json["error"]
    assert saved.parent == cache / "reports"
    assert not plan.exists()


def test_what_is_saved_replays_the_case(
    onchip: Program, diamond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, bound_above)
    saved = is_withheld(onchip("plan", diamond, "--sram", "130", "--json"))
    report = report_in(saved)
    assert report["arguments"] == ["plan", str(diamond), "--sram", "130", "--json"]
    assert "InternalError" in report["traceback"]
    assert report["onchip"]

    with zipfile.ZipFile(saved) as archive:
        archive.extractall(tmp_path / "replay")
    monkeypatch.chdir(tmp_path / "replay")
    again = is_withheld(onchip(*report["replay"]))
    assert report_in(again)["error"] == report["error"]


def test_files_that_are_written_are_not_saved(
    onchip: Program, diamond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, bound_above)
    plan = tmp_path / "plan.json"
    plan.write_text("an older one")

    report = report_in(is_withheld(onchip("plan", diamond, "--sram", "130", f"--output={plan}", "--json")))

    assert report["replay"][1] == "inputs/0-diamond.json"
    assert f"--output={plan}" in report["replay"]
    assert plan.read_text() == "an older one"


def test_whatever_is_raised_is_a_defect_in_one_line(
    onchip: Program, diamond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(result: SearchResult[Any]) -> SearchResult[Any]:
        raise IndexError("list index\nout of range")

    plant(monkeypatch, raising)

    ended = onchip("plan", diamond, "--sram", "130", "--json")

    assert "IndexError" in report_in(is_withheld(ended))["traceback"]
    assert "IndexError: list index" in ended.json["error"]


def test_without_json_nothing_is_on_standard_output(
    onchip: Program, diamond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, bound_above)
    ended = onchip("plan", diamond, "--sram", "130")
    assert (ended.code, ended.out) == (70, "")


def test_a_cache_that_cannot_be_written_leaves_the_folder_for_temporary_files(
    onchip: Program, diamond: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file where the folder should be")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    plant(monkeypatch, bound_above)

    saved = is_withheld(onchip("plan", diamond, "--sram", "130", "--json"))

    assert saved.parent == tmp_path / "temporary" / "onchip-reports"
    assert report_in(saved)["arguments"][0] == "plan"


def test_where_nothing_can_be_written_the_line_says_so(
    onchip: Program, diamond: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file where the folder should be")
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    plant(monkeypatch, bound_above)

    ended = onchip("plan", diamond, "--sram", "130", "--json")

    assert (ended.code, ended.json["saved"]) == (70, None)
    assert "no folder could be written to" in ended.err


def test_a_mapping_that_costs_something_else_is_a_contradiction(
    onchip: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = method_named("random")

    def dearer(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
        result = random.solve(problem, objective, run)
        return replace(result, objective_value=(result.objective_value or 0) + 1, status=Status.FEASIBLE)

    monkeypatch.setattr("onchip.api.map.method_named", lambda name: replace(random, solve=dearer))
    output = tmp_path / "mapping.yaml"

    ended = onchip(
        "map",
        CONV,
        "--accelerator",
        "eyeriss-like",
        "--method",
        "random",
        "--objective",
        "latency",
        "--json",
        "-o",
        output,
    )

    is_withheld(ended)
    assert "and it claims" in ended.json["error"]
    assert not output.exists()


@pytest.mark.slow
def test_a_strategy_that_costs_something_else_is_a_contradiction(
    onchip: Program, network: Path, chip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dearer(costing: Costing, options: FusionOptions, run: Run) -> FusionResult:
        found = solve_fusion(costing, options, run)
        result = found.result
        dear = replace(result, objective_value=(result.objective_value or 0) + 1, status=Status.FEASIBLE)
        return replace(found, result=dear)

    monkeypatch.setattr("onchip.api.fuse.solve_fusion", dearer)

    ended = onchip("fuse", network, "--accelerator", chip, "--method", "loma", "--tile-sizes", "divisors", "--json")

    is_withheld(ended)
    assert "and it claims" in ended.json["error"]


def test_an_arena_of_another_size_is_a_contradiction(
    onchip: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers = tmp_path / "buffers.csv"
    buffers.write_text("id,lower,upper,size\na,0,2,4\nb,1,3,3\n")

    def larger(problem: PackingProblem, run: Run) -> SearchResult[Packing]:
        return replace(pack(problem, run), status=Status.FEASIBLE, objective_value=8)

    monkeypatch.setattr("onchip.api.pack.pack", larger)
    output = tmp_path / "packed.csv"

    ended = onchip("pack", buffers, "--capacity", "100", "-o", output, "--json")

    is_withheld(ended)
    assert "the arena is said to be 8 bytes, it is 7" in ended.json["error"]
    assert not output.exists()


@pytest.mark.parametrize("verb", ["check", "run"])
def test_every_verb_ends_so(
    onchip: Program, planned: Path, diamond: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def raising(*_arguments: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("onchip.api.check.verify", raising)

    saved = is_withheld(onchip(verb, planned, diamond, "--json"))

    with zipfile.ZipFile(saved) as archive:
        assert {"report.json", f"inputs/0-{planned.name}", f"inputs/1-{diamond.name}"} == set(archive.namelist())


@pytest.mark.parametrize(
    ("status", "answer", "value", "bound"),
    [
        (Status.FEASIBLE, "answer", 3, 4),
        (Status.OPTIMAL, "answer", 4, 3),
        (Status.OPTIMAL, None, None, 3),
        (Status.UNKNOWN, "answer", 3, 3),
    ],
)
def test_a_result_that_contradicts_itself_is_none(
    status: Status, answer: str | None, value: int | None, bound: int
) -> None:
    with pytest.raises(InternalError, match="method planted"):
        SearchResult(status, answer, value, bound, 0.0, "planted")
