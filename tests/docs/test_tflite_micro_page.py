"""The page on TFLite Micro: its commands print the shown output; its program runs if the runtime is installed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from onchip.cli import run
from support.micro_runtime import IS_INSTALLED, MISSING

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tflite_micro.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[Path, str]:
    """Return the folder in which the page's commands ran, and their output."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    for command in block("sh").splitlines():
        assert run(shlex.split(command)[1:]) == 0
    return tmp_path, capsys.readouterr().out


def test_the_commands_print_what_the_page_shows(ran: tuple[Path, str]) -> None:
    assert block("text") in ran[1]
    assert ran[1].endswith("the arena plan is legal\n")


@pytest.mark.skipif(not IS_INSTALLED, reason=MISSING)
def test_the_program_prints_the_head_that_was_promised(ran: tuple[Path, str]) -> None:
    program = block("python")
    ended = subprocess.run([sys.executable, "-c", program], cwd=ran[0], capture_output=True, text=True, check=True)
    (head,) = re.findall(r"# (.*)", program)
    assert head in ended.stderr
