"""The page's code runs, and prints the output shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WHY = "ExecuTorch is not installed: pip install 'onchip[executorch]'"
PAGE = Path(__file__).parent.parent.parent / "docs" / "executorch.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_pages_code_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("executorch.exir", reason=WHY, exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), str(PAGE), "exec"), {})
    without_seconds = re.compile(r"\d+\.\d+ seconds")
    printed = without_seconds.sub("", capsys.readouterr().out)
    assert printed == without_seconds.sub("", block("text"))
    assert (tmp_path / "model.pte").stat().st_size > 0
