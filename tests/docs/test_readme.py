"""Commands and programs in the documents run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onchip.cli import run

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
FORMATS = (ROOT / "docs" / "formats.md").read_text()
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
SECONDS = re.compile(r"\d+\.\d{3}\b")


def blocks(text: str, language: str) -> list[str]:
    return [body for name, body in BLOCK.findall(text) if name == language]


def outputs() -> dict[str, str]:
    """Map each command of the README to the output shown below it."""
    return dict(re.findall(r"```sh\n([^`]*)```\n\n```text\n(.*?)```", README, re.DOTALL))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for commands with the contents of a clone."""
    path = tmp_path_factory.mktemp("readme")
    (path / "examples").symlink_to(ROOT / "examples")
    return path


SECONDS_TO_COMPILE = 600
"""Exceeds the first use of any compiled code on a busy machine."""


def shell(command: str, directory: Path) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "ONCHIP_CACHE": str(directory / "cache")}
    ended = subprocess.run(
        ["sh", "-e", "-c", command],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_COMPILE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


@pytest.mark.slow
def test_every_command_of_the_readme_runs_and_prints_what_it_shows(directory: Path) -> None:
    """Commands run in the order of the text: later ones read files of earlier ones."""
    commands = [command for command in blocks(README, "sh") if not command.startswith("make")]
    assert len(commands) == 10
    shown = outputs()
    assert len(shown) == 3
    for command in commands:
        printed = shell(command, directory)
        if command in shown:
            assert SECONDS.sub("S", printed) == SECONDS.sub("S", shown[command])


def test_the_verbs_the_readme_points_to_exist() -> None:
    for arguments in re.findall(r"\| `onchip ([^`]+)` \|", README):
        assert run(arguments.split()) == 0


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("target", ["demo", "test", "check", "format", "bench", "bench-all"])
def test_the_make_targets_the_readme_names_exist(target: str) -> None:
    assert f"make {target}" in README
    subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True, timeout=60)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_demo_schedules_once_installed(tmp_path: Path) -> None:
    here = sys.prefix
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    makefile = ["make", "--silent", f"--file={ROOT / 'Makefile'}", f"VENV={here}", f"--old-file={here}/.installed"]
    ended = subprocess.run(
        [*makefile, "demo"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=SECONDS_TO_COMPILE
    )

    assert "lower bound" in ended.stdout
    assert (tmp_path / "squeezenet.html").exists()
    assert (tmp_path / "squeezenet.schedule.json.gz").exists()


@pytest.mark.slow
def test_the_python_of_the_readme_runs() -> None:
    (program,) = blocks(README, "python")
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)

    assert ended.stdout == "OPTIMAL 0 0\n"


def test_the_files_shown_in_the_formats_are_what_the_program_reads(tmp_path: Path) -> None:
    graph, plan, *_ = blocks(FORMATS, "json")
    (accelerator,) = blocks(FORMATS, "yaml")
    for name, text in (("graph.json", graph), ("plan.json", plan), ("accelerator.yaml", accelerator)):
        (tmp_path / name).write_text(text)
    network, target = str(tmp_path / "graph.json"), str(tmp_path / "accelerator.yaml")

    assert run(["check", str(tmp_path / "plan.json"), network]) == 0
    assert run(["plan", network, "--accelerator", target]) == 0


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / link).exists(), link
