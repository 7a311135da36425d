"""Benchmark results name the measured code so that it can be found again."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shared.runner import kept, run, shown

ROOT = Path(__file__).parents[2]


@pytest.fixture
def results() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results_of_benchmarks", ROOT / "benchmarks/shared/results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *arguments: str) -> str:
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(named, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, results: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of one commit with a source and a document."""
    (tmp_path / "src").mkdir()
    for name in ("src/one.py", "readme.md"):
        (tmp_path / name).write_text("first\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    return tmp_path


def test_results_say_from_which_sources_version_day_and_machine_they_are(
    tmp_path: Path, results: ModuleType, repository: Path
) -> None:
    results.write_results(tmp_path / "new" / "one.json", [{"cycles": 3}])
    found = json.loads((tmp_path / "new" / "one.json").read_text())
    assert set(found) == {"command", "commit", "sources", "version", "day", "machine", "results"}
    assert found["results"] == [{"cycles": 3}]
    assert found["sources"] == git(repository, "rev-parse", "--short=12", "HEAD:src")
    assert found["version"] == version("onchip")
    assert date.fromisoformat(found["day"])


def test_the_same_sources_in_another_commit_are_named_alike(results: ModuleType, repository: Path) -> None:
    before = results.commit(), results.sources()
    (repository / "readme.md").write_text("second\n")
    git(repository, "commit", "-qam", "second", "--amend")
    assert results.commit() != before[0]
    assert results.sources() == before[1]


def test_files_that_differ_from_the_commit_are_marked(results: ModuleType, repository: Path) -> None:
    (repository / "readme.md").write_text("second\n")
    assert results.commit().endswith("+")
    assert not results.sources().endswith("+")
    (repository / "src/one.py").write_text("second\n")
    assert results.sources().endswith("+")


def test_outside_of_a_repository_there_is_no_commit(
    tmp_path: Path, results: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert (results.commit(), results.sources()) == ("", "")


def test_rows_are_printed_when_they_are_measured_and_a_table_begins_with_other_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows: list[dict[str, Any]] = [{"name": "a", "bytes": 12_345}, {"name": "b", "bytes": None}, {"share": 0.5}]
    assert shown(iter(rows)) == rows
    head, line = "\n| name | bytes |\n|---|---|\n", "| a | 12,345 |\n| b | - |\n"
    assert capsys.readouterr().out == f"{head}{line}\n| share |\n|---|\n| 0.5 |\n"


def test_rows_in_the_file_are_not_measured_again(tmp_path: Path) -> None:
    measured: list[str] = []

    def measure(name: str) -> dict[str, object]:
        measured.append(name)
        return {"length": len(name)}

    path = tmp_path / "rows.jsonl"
    assert [row["length"] for row in kept(path, ["a", "bb"], measure)] == [1, 2]
    assert [row["length"] for row in kept(path, ["bb", "ccc"], measure)] == [2, 3]
    assert measured == ["a", "bb", "ccc"]


def test_a_process_is_run_to_its_end_with_its_output_and_resources(tmp_path: Path) -> None:
    program = "import sys; print('words'); print('{\"a\": 1}'); print('no', file=sys.stderr); sys.exit(3)"
    ended = run([sys.executable, "-c", program], tmp_path)
    assert (ended.code, ended.answer, ended.errors) == (3, {"a": 1}, "no\n")
    assert ended.peak_mib > 0
