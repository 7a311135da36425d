"""Tests of the process: SIGTERM, standard streams that cannot be written, and the progress line."""

from __future__ import annotations

import io
import random
import re
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
from onchip.cli import run
from onchip.memory.methods import METHODS, Method
from onchip.reports.shared import output as progress
from onchip.reports.shared.output import CLEAR_LINE
from onchip.search.budget.limits import Run
from support.diamond import Ended, Program
from support.series import series

# SIGTERM acts as Ctrl-C does at any moment


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


# Streams that cannot be written: one line, exit 74, no traceback; a closed pipe gets no message


ASKED = ["networks", "networks --json", "--help", "plan --help", "--version"]
NEEDS_SHELL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")


def ended(arguments: str, streams: str) -> Ended:
    """Run `onchip ARGUMENTS` in a shell that opens and closes its streams, and return the result."""
    line = f"set -o pipefail; {sys.executable} -m onchip {arguments} {streams}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


@NEEDS_SHELL
@pytest.mark.parametrize("arguments", series(ASKED, 2))
def test_a_full_stream_is_one_line(arguments: str) -> None:
    full = ended(arguments, "> /dev/full")

    assert full.code == 74
    assert full.err.startswith("onchip: standard output cannot be written (No space left on device)")
    assert full.err.count("\n") == 1


@pytest.mark.parametrize("arguments", series(ASKED, 2))
def test_a_closed_stream_is_one_line(arguments: str) -> None:
    closed = ended(arguments, ">&-")

    assert closed.code == 74
    assert closed.err.startswith("onchip: standard output cannot be written")
    assert closed.err.count("\n") == 1


@pytest.mark.parametrize("arguments", series(ASKED, 2))
def test_nothing_is_said_to_a_closed_pipe(arguments: str) -> None:
    assert ended(f"{arguments}", "| exec true") == Ended(74, "", "")


@NEEDS_SHELL
@pytest.mark.parametrize("streams", series(["2>&-", "2> /dev/full", "<&- 2>&-"], 1))
def test_what_cannot_be_said_takes_no_answer_away(streams: str) -> None:
    answered = ended("networks", streams)

    assert answered.code == 0
    assert "resnet18" in answered.out
    assert ended("plan nonsense", streams) == Ended(2, "", "")


@pytest.mark.slow
@NEEDS_SHELL
def test_all_streams_may_be_closed_at_once(diamond: Path, tmp_path: Path) -> None:
    """Files that are opened later must not be taken for a standard stream."""
    plan = tmp_path / "plan.json"
    alone = ended(f"plan {diamond} --sram 130 -o {plan}", "<&- >&- 2>&-")

    assert alone.code == 74
    assert plan.read_text().startswith('{"format": "onchip-plan"')


@pytest.mark.slow
def test_an_answer_goes_where_standard_output_goes(diamond: Path, tmp_path: Path) -> None:
    printed, file = tmp_path / "printed.txt", tmp_path / "plan.json"
    assert ended(f"plan {diamond} --sram 130 -o {file}", "> /dev/null").code == 0
    assert ended(f"plan {diamond} --sram 130 -o /dev/stdout", f"> {printed}").code == 0
    piped = ended(f"plan {diamond} --sram 130 -o /dev/stdout", "| cat")

    assert printed.read_text().startswith(file.read_text())
    assert "OPTIMAL" in printed.read_text().removeprefix(file.read_text())
    assert piped.out.startswith(file.read_text())


@NEEDS_SHELL
def test_a_full_file_is_one_line_and_one_object(onchip: Program, diamond: Path) -> None:
    full = onchip("plan", diamond, "--sram", "130", "-o", "/dev/full", "--json")

    assert full.code == 74
    assert full.err.count("\n") == 1
    assert full.json["file"] == "/dev/full"
    assert "No space left" in full.json["error"]


def test_nothing_is_written_where_nothing_is_asked_for(onchip: Program, diamond: Path) -> None:
    assert onchip("plan", diamond, "--sram", "130", "-o", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


@NEEDS_SHELL
@pytest.mark.parametrize(
    "verb", series(["check {} NET", "diff {} PLAN NET", "diff PLAN {}", "explain {} NET", "run {} NET"], 2)
)
@pytest.mark.parametrize("pipe", series(["cat PLAN | {} /dev/stdin", "{} <(cat PLAN)"], 1))
def test_an_answer_may_come_through_a_pipe(planned: Path, diamond: Path, verb: str, pipe: str) -> None:
    """A pipe yields its content only once, even if the program looks at it more often."""
    before, _, file = pipe.rpartition("{} ")
    line = before + f"{sys.executable} -m onchip " + verb.format(file)
    line = line.replace("PLAN", str(planned)).replace("NET", str(diamond))
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# The progress line in a terminal: phases and time limit while a verb works, and nothing once the answer is printed


WORDS = ("plan", "resnet18", "--bits", "8", "--sram", "m_r", "--time-limit", "30")


SECONDS_TO_DRAW = 60.0


class Terminal(io.StringIO):
    """Standard output and standard error of one terminal."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *words: str, seconds_ago: float = 0.0) -> str:
    """Run a verb and return its output on the stream; a terminal shows the reading phase before the verb goes on."""

    def be_seen(_graph: object) -> None:
        deadline = time.perf_counter() + SECONDS_TO_DRAW
        while stream.isatty() and "reading" not in stream.getvalue() and time.perf_counter() < deadline:
            time.sleep(0.001)

    monkeypatch.setattr(progress, "SECONDS_BETWEEN_TICKS", 0.0001)
    monkeypatch.setattr("onchip.api.networks._total_is_in_range", be_seen)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("sys.stdout", stream)
    assert run(words, seconds_ago) == 0
    return stream.getvalue()


def test_a_terminal_sees_phases_with_time_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(r"\d\.\d s of 30 s  reading\r", shown(monkeypatch, Terminal(), *WORDS))


def test_the_answer_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    *drawn, answer = shown(monkeypatch, Terminal(), *WORDS).split(CLEAR_LINE)

    assert drawn
    assert not any("\n" in line for line in drawn)
    assert "resnet18, 31 operators" in answer.splitlines()[0]


def test_time_counts_from_the_start_of_the_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock starts with the verb although a separate thread draws the line."""
    drawn = shown(monkeypatch, Terminal(), "info", "resnet18", seconds_ago=100.0)

    assert re.search(r" 1\d\d\.\d s of 10 s  reading\r", drawn)
