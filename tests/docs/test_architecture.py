"""docs/architecture.md names files that exist, and all ways to add something from outside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
FILES = sorted({name for name in re.findall(r"`([\w/.]+)`", PROSE) if "/" in name})
GROUPS = set(re.findall(r"^\| `(onchip\.\w+)` \|", PROSE, flags=re.MULTILINE))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_named_is_there(name: str) -> None:
    assert any((place / name).exists() for place in (ROOT / "src" / "onchip", ROOT)), name


def test_every_room_is_described() -> None:
    house = (ROOT / "src" / "onchip").iterdir()
    rooms = {path.stem for path in house if path.suffix == ".py" or (path / "__init__.py").exists()}
    rooms -= {"__init__", "__main__"}
    described = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PROSE, re.MULTILINE))))
    assert rooms <= described


def test_the_groups_of_plugins_are_those_of_the_code() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "onchip").rglob("*.py"))
    assert set(re.findall(r"PluginGroup\[.*\]\(\s*\"(onchip\.\w+)\"", text)) == GROUPS


def test_every_group_is_tried_by_a_small_package() -> None:
    tried = (ROOT / "tests" / "contract" / "test_added_from_outside.py").read_text(encoding="utf-8")
    assert {group for group in GROUPS if f'"{group}": {{"' not in tried} == set()
