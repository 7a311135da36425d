"""Public functions document parameters, results and errors; public classes have a sentence, and their members, too."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import onchip

FUNCTIONS = [name for name in onchip.__all__ if inspect.isfunction(getattr(onchip, name))]
CLASSES = [name for name in onchip.__all__ if inspect.isclass(getattr(onchip, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_documents_its_parameters_result_and_errors(name: str) -> None:
    function = getattr(onchip, name)
    text = inspect.getdoc(function) or ""
    sections = {"Parameters", "Raises"} | ({"Returns"} if name != "report" else set())
    assert {one for one in sections if f"\n{one}\n---" not in text} == set()
    undocumented = {one for one in inspect.signature(function).parameters if one not in text}
    assert undocumented == set()


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_and_its_public_members_have_documentation(name: str) -> None:
    shown = getattr(onchip, name)
    members = {key: value for key, value in vars(shown).items() if not key.startswith("_")}
    methods = {key for key, value in members.items() if inspect.isfunction(value) or isinstance(value, property)}
    assert inspect.getdoc(shown)
    assert {key for key in methods if not inspect.getdoc(members[key])} == set()


def test_the_api_page_lists_each_public_name_once() -> None:
    """The page is made with the site, by a program that needs MkDocs."""
    program = ast.parse((Path(__file__).parents[2] / "tools" / "site_pages.py").read_text(encoding="utf-8"))
    assigned = (node for node in program.body if isinstance(node, ast.Assign))
    (groups,) = (ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == "GROUPS")
    assert sorted(" ".join(groups.values()).split()) == sorted(onchip.__all__)
