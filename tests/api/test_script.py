"""The script of every verb runs; mypy checks it with the other examples."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "every_verb.py"


@pytest.mark.slow
def test_the_script_of_every_verb_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    printed = capsys.readouterr().out
    assert "OPTIMAL  0 bytes  bound 0 bytes  gap 0.0%  peak 39.1 KiB" in printed
    assert "['plan.html', 'sizes.html', 'timed.html']" in printed
