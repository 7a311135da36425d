"""The first page and the tutorials run, block after block, and print the shown output; a titled block is a file."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from support.shown_text import ROOT, printed_by_shell, shown_in

PAGES = [ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
BLOCK = re.compile(r'```(sh|python|yaml)(?: title="(.*?)")?\n(.*?)```(?:\n\n```text\n(.*?)```)?', re.DOTALL)


def printed_by_python(program: str, names: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "tutorial", "exec"), names)
    return printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert len(blocks) >= 3
    for language, title, text, shown in blocks:
        if title:
            (tmp_path / title).write_text(text)
        else:
            printed = printed_by_shell(text, tmp_path) if language == "sh" else printed_by_python(text, names)
            assert not shown or shown_in(shown, printed), printed


def test_a_line_of_dots_stands_for_any_lines() -> None:
    assert shown_in("...\nlast 0.5\n", "first\nsecond\nlast 0.5\n")
    assert shown_in("took 0.123\n", "took 4.567\n")
    assert not shown_in("first\n", "first\nsecond\n")
    assert not shown_in("...\nthird\n...\n", "first\nsecond\n")
