"""The rules that a module of the verifier reports, read from its source: a table of refusals needs a row for each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import onchip.verify
from onchip.verify.rules import Rule


def reported_by(*modules: str) -> set[Rule]:
    """Return the rules that the modules name; `schedule/costs` is such a module."""
    folder = Path(onchip.verify.__path__[0])
    return {rule for module in modules for rule in _named_in(folder / f"{module}.py")}


def reported_anywhere() -> set[Rule]:
    """Return the rules that any file of the program names."""
    files = Path(onchip.__path__[0]).rglob("*.py")
    return {rule for file in files for rule in _named_in(file)}


def _named_in(file: Path) -> Iterator[Rule]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Rule":
            yield Rule[node.attr]
