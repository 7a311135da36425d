"""Defects that the adversary once found are fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from adversary.frame import Program
from adversary.levels import LEVELS
from adversary.worker import FOLDER, read_found
from support.series import with_slow

SLOW = {"map-80875ef7", "plan-94404400", "schedule-44534079"}


@pytest.mark.parametrize(
    "path", with_slow(sorted(FOLDER.glob("*.json")), lambda path: path.stem in SLOW), ids=lambda path: path.stem
)
def test_what_was_found_wrong_is_right_now(path: Path, tmp_path: Path) -> None:
    found = read_found(path)
    (level,) = (level for level in LEVELS if level.name == found.level)

    verdict = level.judge(found.facts, Program(tmp_path))

    assert verdict.fault is None
    assert not verdict.refused
