"""Benchmark results name the measured code so that it can be found again."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from datetime import date
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

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
