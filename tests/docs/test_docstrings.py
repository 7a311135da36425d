"""Docstrings are sentences with facts that a signature lacks: result, unit and raised errors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "onchip"
FEWEST_WORDS = 5
FEWEST_WORDS_AFTER_A_PREPOSITION = 9
PREPOSITIONS = {"As", "At", "Between", "By", "For", "From", "In", "Of", "On", "Over", "Per", "To", "With", "Without"}
"""A short sentence that begins with one of these words has no verb: `Of all inputs.`"""
Definition: TypeAlias = ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class Documented:
    """A public class, function or method, and its location."""

    name: str
    node: Definition

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.node) or ""

    @property
    def has_no_sentence(self) -> bool:
        words = self.docstring.partition("\n\n")[0].split()
        if not words:
            return False  # compiled functions alone; ruff checks all others
        is_fragment = words[0].strip(",.") in PREPOSITIONS and len(words) < FEWEST_WORDS_AFTER_A_PREPOSITION
        return len(words) < FEWEST_WORDS or is_fragment

    @property
    def keeps_an_error_to_itself(self) -> bool:
        """Return True if the docstring omits a raised error; verbs are exempt: their help lists exit codes."""
        if isinstance(self.node, ast.ClassDef) or self.name.endswith("_command"):
            return False
        return any(map(_is_of_the_caller, _raised_in(self.node))) and "raise" not in self.docstring.lower()


def _raised_in(function: ast.FunctionDef) -> Iterator[ast.Raise]:
    """Yield the raise statements of the function's own body, without nested functions."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Raise):
            yield node
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _is_of_the_caller(statement: ast.Raise) -> bool:
    """Return True except for errors that are re-raised, and AssertionError for impossible states."""
    raised = statement.exc
    name = raised.func if isinstance(raised, ast.Call) else raised
    return name is not None and not (isinstance(name, ast.Name) and name.id == "AssertionError")


def documented(tree: ast.AST, prefix: str) -> Iterator[Documented]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If | ast.Try):
            yield from documented(node, prefix)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield Documented(f"{prefix}{node.name}", node)
            if isinstance(node, ast.ClassDef):
                yield from documented(node, f"{prefix}{node.name}.")


@cache
def in_source() -> list[Documented]:
    return [
        one
        for path in sorted(SOURCE.rglob("*.py"))
        for one in documented(ast.parse(path.read_text(encoding="utf-8")), f"{path.relative_to(SOURCE)}: ")
    ]


def test_every_docstring_is_a_sentence() -> None:
    assert [one.name for one in in_source() if one.has_no_sentence] == []


def test_what_raises_says_so() -> None:
    assert [one.name for one in in_source() if one.keeps_an_error_to_itself] == []


@pytest.mark.parametrize(
    ("text", "has_no_sentence", "keeps_an_error_to_itself"),
    [
        ('def f(): """Return all bits, rounded up."""', False, False),
        ('def f(): """All of them."""', True, False),
        ('def f(): """Of what it sees through the windows."""', True, False),
        ('def f():\n "Return what a thing costs."\n raise ValueError', False, True),
        ('def f():\n "Return what it costs; raises ValueError."\n raise ValueError', False, False),
        ('def f():\n "Return what a thing costs."\n def g(): raise ValueError', False, False),
        ('def f():\n "Return what a thing costs."\n try: g()\n except ValueError: raise', False, False),
        ('def f():\n "Return what a thing costs."\n raise AssertionError("it ends")', False, False),
        ('def f_command():\n "Cost everything that there is."\n raise ValueError', False, False),
    ],
)
def test_what_is_seen_of_a_docstring(text: str, has_no_sentence: bool, keeps_an_error_to_itself: bool) -> None:
    (one,) = documented(ast.parse(text), "")
    assert (one.has_no_sentence, one.keeps_an_error_to_itself) == (has_no_sentence, keeps_an_error_to_itself)
