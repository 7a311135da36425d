"""Commands and programs in the documents run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onchip.cli import run
from support.shown_text import ROOT, SECONDS_OF_A_BLOCK, printed_by_shell, shown_in

README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("CO*.md")]
FORMATS = (ROOT / "docs" / "formats.md").read_text()
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(text: str, language: str) -> list[str]:
    return [body for name, body in BLOCK.findall(text) if name == language]


def outputs() -> dict[str, str]:
    """Map each command of the README to the output shown below it."""
    return dict(re.findall(r"```sh\n([^`]*)```\n\n```text\n(.*?)```", README, re.DOTALL))


@pytest.mark.slow
def test_every_command_of_the_readme_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    """Commands run in the order of the text: later ones read files of earlier ones."""
    commands = [command for command in blocks(README, "sh") if not command.startswith("make")]
    assert len(commands) == 3
    shown = outputs()
    assert len(shown) == 2
    for command in commands:
        printed = printed_by_shell(command, tmp_path)
        assert command not in shown or shown_in(shown[command], printed), printed


@pytest.mark.slow
def test_the_examples_of_the_table_run(tmp_path: Path) -> None:
    examples = re.findall(r"\| `(onchip [^`]+ [^`]+)` \|", README)
    assert len(examples) == 4
    for example in examples:
        limit = "" if example.startswith("onchip plan") else " --time-limit 5"
        assert "lower bound" in printed_by_shell(example + limit, tmp_path)


def test_the_verbs_the_readme_points_to_exist() -> None:
    verbs = re.findall(r"^\| `onchip (\w+)` \|", README, re.MULTILINE)
    assert len(verbs) == 4
    for verb in verbs:
        assert run([verb, "--help"]) == 0


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
        [*makefile, "demo"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=SECONDS_OF_A_BLOCK
    )

    assert "lower bound" in ended.stdout
    assert (tmp_path / "squeezenet.html").exists()
    assert (tmp_path / "squeezenet.schedule.json.gz").exists()


@pytest.mark.slow
def test_the_python_of_the_readme_runs() -> None:
    (program,) = blocks(README, "python")
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)

    plan, mapping = ended.stdout.splitlines()
    assert plan == "OPTIMAL 602112 602112"
    status, value, bound = mapping.split()
    assert status in {"OPTIMAL", "FEASIBLE"}
    assert 0 < int(bound) <= int(value)


def test_the_files_shown_in_the_formats_are_what_the_program_reads(tmp_path: Path) -> None:
    graph, plan, *_ = blocks(FORMATS, "json")
    (accelerator,) = blocks(FORMATS, "yaml")
    for name, text in (("graph.json", graph), ("plan.json", plan), ("accelerator.yaml", accelerator)):
        (tmp_path / name).write_text(text)
    network, target = str(tmp_path / "graph.json"), str(tmp_path / "accelerator.yaml")

    assert run(["check", str(tmp_path / "plan.json"), network]) == 0
    assert run(["plan", network, "--accelerator", target]) == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    """Pages in `reference` are generated with the site."""
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
    assert {link for link in links if "reference/" not in link and not (page.parent / link).exists()} == set()
