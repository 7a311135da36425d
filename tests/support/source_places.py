"""Where each node of a module's syntax tree stands: in which function, and which lines of the file run it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """The lines of the statement, or of the head of a statement with a body; at import no function runs it.

    `function` is the outermost function, with its class in front. `shown` is the node itself, or, of a bare number
    or name, what it stands in: enough to recognize it by.
    """

    lines: range
    function: str | None
    shown: ast.AST


def source_places(tree: ast.Module) -> dict[int, SourcePlace]:
    """Each node's place by the node's identity."""
    found: dict[int, SourcePlace] = {}
    _place_children(tree, SourcePlace(range(0), None, tree), (), found)
    return found


def _place_children(parent: ast.AST, at: SourcePlace, names: tuple[str, ...], found: dict[int, SourcePlace]) -> None:
    for node, is_in_body in _children(parent):
        own = replace(at, lines=_lines(node) or at.lines, shown=_recognizable(node, parent, at.shown))
        inner = names
        if isinstance(parent, ast.FunctionDef | ast.ClassDef) and is_in_body and at.function is None:
            inner = (*names, parent.name)
            own = replace(own, function=".".join(inner) if isinstance(parent, ast.FunctionDef) else None)
        found[id(node)] = own
        _place_children(node, own, inner, found)


def _children(parent: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """With whether the parent runs it in its body, and not where it is defined."""
    for field, value in ast.iter_fields(parent):
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node, field == "body"


def _lines(node: ast.AST) -> range | None:
    """None for what is part of a statement."""
    if isinstance(node, ast.match_case):
        last = node.guard or node.pattern
        return range(node.pattern.lineno, (last.end_lineno or last.lineno) + 1)
    if not isinstance(node, ast.stmt):
        return None
    body = getattr(node, "body", None)
    if isinstance(body, list) and not isinstance(node, ast.Match):
        return range(node.lineno, max(body[0].lineno, node.lineno + 1))
    last_line = node.subject.end_lineno if isinstance(node, ast.Match) else node.end_lineno
    return range(node.lineno, (last_line or node.lineno) + 1)


def _recognizable(node: ast.AST, parent: ast.AST, shown: ast.AST) -> ast.AST:
    """A number by itself could be any: it is shown with what it stands in."""
    if not isinstance(node, ast.Constant):
        return node
    return shown if isinstance(parent, ast.expr | ast.Return | ast.Assign | ast.AnnAssign | ast.keyword) else parent
