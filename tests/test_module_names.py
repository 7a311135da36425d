"""Dotted names of onchip in the repository's text are modules or attributes of modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = (".ci", ".github", "benchmarks", "docs", "examples", "src", "tests", "tools")
FILES: Final = ("CHANGELOG.md", "Makefile", "README.md", "pyproject.toml")
BUILT: Final = frozenset({"__pycache__", "CMakeFiles"})
NAME: Final = re.compile(r"(?<![\w./-])onchip(?:\.[A-Za-z_]\w*)+")
PLUGIN_GROUPS: Final = (
    "accelerators",
    "checks",
    "costs",
    "exports",
    "file_checks",
    "mapping_methods",
    "methods",
    "operators",
    "pictures",
    "readers",
)
PLACEHOLDERS: Final = ("GROUP",)
"""A name from a docstring."""
NO_MODULES: Final = frozenset(f"onchip.{name}" for name in (*PLUGIN_GROUPS, *PLACEHOLDERS))


def files() -> Iterator[Path]:
    yield from (ROOT / name for name in FILES)
    for folder in FOLDERS:
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file() and not BUILT & {*path.parts})


def names() -> dict[str, Path]:
    """Return each name with the first file that contains it."""
    found: dict[str, Path] = {}
    for path in files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for name in NAME.findall(text):
            found.setdefault(name, path.relative_to(ROOT))
    return found


def resolves(name: str) -> bool:
    """Return True if the name is a module or an attribute of one, or if it is a module whose extra is not installed."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if error.name is not None and not error.name.startswith("onchip"):
                return True
            continue
        for attribute in parts[count:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


NAMES: Final = names()


def test_names_are_found_in_every_folder() -> None:
    assert {path.parts[0] for path in NAMES.values()} >= {"benchmarks", "docs", "src", "tests"}


def test_every_name_is_a_module_or_an_attribute() -> None:
    wrong = {name: str(path) for name, path in NAMES.items() if name not in NO_MODULES and not resolves(name)}
    assert not wrong


def test_every_exception_is_used_and_needed() -> None:
    assert {name for name in NO_MODULES if name in NAMES and not resolves(name)} == NO_MODULES
