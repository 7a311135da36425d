"""Which rules a module of the verifier reports, read from its source: what a table of refusals must have a row for."""

from __future__ import annotations

import ast
from pathlib import Path

import onchip.verify
from onchip.verify.rules import Rule


def reported_by(*modules: str) -> set[Rule]:
    """The rules that the modules name, `schedule/stacks` among them as `schedule/stacks`."""
    found: set[Rule] = set()
    for module in modules:
        tree = ast.parse((Path(onchip.verify.__path__[0]) / f"{module}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Rule":
                found.add(Rule[node.attr])
    return found
