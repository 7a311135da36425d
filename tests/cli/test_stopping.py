"""SIGTERM acts as Ctrl-C does at any moment."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from onchip.__main__ import _as_ctrl_c
from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.methods import METHODS, Method
from onchip.search.budget.limits import Run
from support.diamond import Program


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, _as_ctrl_c)
    yield
    signal.signal(signal.SIGTERM, before)


def stopped_while_solving(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    exact = METHODS["exact"]

    def solve(problem: Problem, run: Run) -> SearchResult[Plan]:
        result = exact.solve(problem, Run())
        for _ in range(times):
            signal.raise_signal(signal.SIGTERM)
        return replace(result, status=Status.FEASIBLE, lower_bound=0, stopped_by=run.stop or Stop.TIME_LIMIT)

    monkeypatch.setitem(cast("dict[str, Method]", METHODS), "exact", replace(exact, solve=solve))


def test_a_search_ends_with_the_best_so_far(
    onchip: Program, diamond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_while_solving(monkeypatch, times=1)
    ended = onchip("plan", diamond, "--sram", "130", "--json", "-o", tmp_path / "plan.json")

    assert ended.code == 0
    assert ended.json["stopped_by"] == "interrupted"
    assert onchip("check", tmp_path / "plan.json", diamond).code == 0


def test_the_second_one_ends_the_program_and_leaves_the_old_file(
    onchip: Program, diamond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_while_solving(monkeypatch, times=2)
    (tmp_path / "plan.json").write_text("old")
    ended = onchip("plan", diamond, "--sram", "130", "--json", "-o", tmp_path / "plan.json")

    assert (ended.code, ended.json["error"]) == (130, "interrupted")
    assert (tmp_path / "plan.json").read_text() == "old"


def test_it_also_ends_what_runs_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell makes background processes ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_at_no_moment_is_there_a_traceback(diamond: Path, tmp_path: Path) -> None:
    """The system itself ends a process that does not listen yet, or that has written all its output.

    Python ends itself by SIGINT if it is interrupted while it creates a data class; a shell also reports 130 then.
    """
    plan = tmp_path / "plan.json"
    command = [sys.executable, "-m", "onchip", "plan", str(diamond), "--sram", "130", "-o", str(plan)]
    subprocess.run(command, check=True, capture_output=True)
    content, moments = plan.read_bytes(), random.Random(0)
    for _ in range(10):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(moments.random())
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate()
        assert process.returncode in (0, 130, -signal.SIGTERM, -signal.SIGINT)
        assert said in ("", "onchip: interrupted\n")
        assert plan.read_bytes() == content
