"""Streams that cannot be written: one line, exit 74, no traceback; a closed pipe gets no message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.diamond import Ended, Program
from support.series import series

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
