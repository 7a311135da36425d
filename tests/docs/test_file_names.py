"""Source files that documents name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("src", "tests", "benchmarks", "examples", "tools")
    for path in (ROOT / folder).rglob("*.py")
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_is_there(document: Path) -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", document.read_text()))
    assert not [name for name in named if not any(f"/{source}".endswith(f"/{name}") for source in SOURCES)]
