"""What a YAML text means, by the nodes that ruamel's pure Python reader makes of it: slow, and nothing shared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from re import fullmatch
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

Path: TypeAlias = tuple[int | str, ...]
LARGEST_INTEGER = 2**63 - 1


class NoValueError(Exception):
    """The text is no YAML, or means what JSON cannot say."""


@dataclass(frozen=True, slots=True)
class Values:
    """The value, and the line, from 1, where each of its parts stands."""

    value: object
    line_of: dict[Path, int]


def yaml_values(text: str, *, last_field_counts: bool = False) -> Values:
    """Raise NoValueError for what is no plain mapping, list or scalar, and for fields that stand twice."""
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except (YAMLError, ValueError) as error:
        raise NoValueError(str(error)) from None
    if root is None:
        raise NoValueError("it is empty")
    reader = _Reader(last_field_counts)
    return Values(reader.value(root, ()), reader.line_of)


@dataclass(slots=True)
class _Reader:
    last_field_counts: bool
    line_of: dict[Path, int] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def value(self, node: Any, path: Path) -> object:  # noqa: ANN401 - ruamel's nodes are untyped
        self.line_of.setdefault(path, node.start_mark.line + 1)
        if id(node) in self.seen:
            raise NoValueError(f"{path} is an alias")
        self.seen.add(id(node))
        kind = node.tag.rpartition(":")[2]
        if isinstance(node.value, str):
            return _scalar(kind, node.value)
        if kind == "map":
            return dict(self._members(node, path))
        if kind == "seq":
            return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
        raise NoValueError(f"{path} is tagged {kind}")

    def _members(self, node: Any, path: Path) -> Iterator[tuple[str, object]]:  # noqa: ANN401
        names: set[str] = set()
        for key, child in node.value:
            name = key.value
            if key.tag.rpartition(":")[2] != "str" or not isinstance(name, str):
                raise NoValueError(f"{path} has a field whose name is no text")
            if name in names and not self.last_field_counts:
                raise NoValueError(f"{path} has {name} twice")
            if name in names:
                self._forget((*path, name))
            names.add(name)
            self.line_of[(*path, name)] = key.start_mark.line + 1
            yield name, self.value(child, (*path, name))

    def _forget(self, path: Path) -> None:
        self.line_of = {known: line for known, line in self.line_of.items() if known[: len(path)] != path}


def _scalar(kind: str, text: str) -> object:
    match kind:
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int" if fullmatch(r"[+-]?[0-9]+", text) and len(text) <= 20 and abs(int(text)) <= LARGEST_INTEGER:
            return int(text)
        case "int" if fullmatch(r"[+-]?[1-9][0-9_]*", text) and len(text.replace("_", "")) <= 18:
            return int(text.replace("_", ""))
        case "float" if not text.lstrip("+-").startswith("."):
            try:
                value = float(text)
            except ValueError as error:
                raise NoValueError(str(error)) from None
            if isfinite(value):
                return value
    raise NoValueError(f"{text[:60]!r} is a {kind}")
