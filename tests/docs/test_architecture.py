"""Names of files, classes and packages, and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

import onchip

# docs/architecture.md names files that exist, and all ways to add something from outside


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


# A public class name stands in one file of the sources only


SOURCES = Path(onchip.__file__).parent


def test_no_public_class_name_stands_in_two_files() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCES)))
    assert "Graph" in places
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


# Source files that documents name exist


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED_SOURCES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("src", "tests", "benchmarks", "examples", "tools")
    for path in (ROOT / folder).rglob("*.py")
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_is_there(document: Path) -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", document.read_text()))
    assert not [name for name in named if not any(f"/{source}".endswith(f"/{name}") for source in NAMED_SOURCES)]


# Public functions document parameters, results and errors; public classes have a sentence, and their members, too


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


# Docstrings are sentences with facts that a signature lacks: result, unit and raised errors


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
