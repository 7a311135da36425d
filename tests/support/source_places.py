"""The position of each node of a module's syntax tree: its function, and the lines that run it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """The lines of the statement, or of the head of a compound statement; `function` is None for code run at import.

    `function` is the outermost function, prefixed with its class. `shown` is the node itself or, for a number or name,
    the surrounding expression, which is enough to recognise it.
    """

    lines: range
    function: str | None
    shown: ast.AST


def source_places(tree: ast.Module) -> dict[int, SourcePlace]:
    """Return each node's position by the node's identity."""
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
    """Yield the children, with True if the parent runs them in its body instead of at its definition."""
    for field, value in ast.iter_fields(parent):
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield node, field == "body"


def _lines(node: ast.AST) -> range | None:
    """Return the lines of a statement, or None for a part of a statement."""
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
    """Return the node, or for a constant the surrounding expression, since a number alone is ambiguous."""
    if not isinstance(node, ast.Constant):
        return node
    return shown if isinstance(parent, ast.expr | ast.Return | ast.Assign | ast.AnnAssign | ast.keyword) else parent
