"""A public class name stands in one file of the sources only."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import onchip

SOURCES = Path(onchip.__file__).parent


def test_no_public_class_name_stands_in_two_files() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCES)))
    assert "Graph" in places
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
