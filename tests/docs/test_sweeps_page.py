"""The commands of docs/sweeps.md and docs/comparing.md work, and the study shown is valid."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from onchip.sweeps.point import VERBS, SweptVerb
from onchip.sweeps.study import StudyFields, read_study
from onchip.sweeps.sweep import PointResolver
from support.diamond import Program

DOCS = Path(__file__).parents[2] / "docs"
SWEEPS, COMPARING = ((DOCS / name).read_text(encoding="utf-8") for name in ("sweeps.md", "comparing.md"))
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", [SWEEPS, COMPARING], ids=["sweeps", "comparing"])
def test_the_commands_of_a_page_work(
    onchip: Program, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [line for language, body in BLOCK.findall(page) if language == "sh" for line in body.splitlines()]
    assert len(commands) == 3
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "onchip"
        assert onchip(*words).code == 0, command


def test_the_study_shown_has_every_field_and_fits_its_machine(tmp_path: Path) -> None:
    text = next(body for language, body in BLOCK.findall(SWEEPS) if language == "yaml")
    (tmp_path / "study.yaml").write_text(text)
    study = read_study(tmp_path / "study.yaml")
    resolver = PointResolver(study)
    assert study.name == "arrays"
    assert 0 < len(resolver.points(resolver.questions()[:100])) < study.greatest_count
    assert all(re.search(rf"^{name}:", text, re.MULTILINE) for name in StudyFields.__annotations__)


def test_every_option_of_a_study_is_listed() -> None:
    listed = SWEEPS[SWEEPS.index("Options of `plan`") :].split("\n\n")[0]
    for verb in SweptVerb:
        assert [name for name in VERBS[verb].options if not re.search(rf"\b{name}\b", listed)] == []
