"""YAML as JSON, with the line of every field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from re import fullmatch
from typing import Any, Final

from onchip.errors import InputError
from onchip.formats.validation import LARGEST_INTEGER, Format, Location, field_path, quoted

GREATEST_YAML_CHARACTERS: Final = 2**20
"""What ruamel takes about ten seconds to read."""


@dataclass(slots=True)
class YamlDocument:
    """The value, and by field path the line (from 1) where each field stands."""

    value: object
    line_of: Mapping[str, int]

    def place(self, path: str) -> str:
        """`line 7: memories[0].capacity`; a field that is not there has the line of what should hold it."""
        known = path.partition(" (")[0]
        while known and known not in self.line_of:
            known = known[: max(known.rfind("."), known.rfind("["), 0)]
        return f"line {self.line_of.get(known, 1)}: {path}"


def parse_yaml(text: str, file_format: Format, file: str, *, last_field_counts: bool = False) -> YamlDocument:
    """One document of plain mappings, lists and scalars; raises the format's error, with the line.

    A field that stands twice is an error unless the last one counts.
    """
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return _Reader(file_format.error, last_field_counts).document(composed(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}" if mark else None
        what = f"malformed YAML: {error.problem or error.context}"
        raise file_format.error(what, file=file, place=place, expected="YAML") from None
    except (YAMLError, ValueError) as error:
        raise file_format.error(f"malformed YAML: {error}", file=file, expected="YAML") from None
    except RecursionError:
        raise file_format.error("it is nested too deeply", file=file, expected="the format's few levels") from None
    except InputError as error:
        raise error.in_file(file) from None


@lru_cache(maxsize=1)
def composed(text: str) -> Any:  # noqa: ANN401 - ruamel's nodes are untyped
    """The root node of the one document, looked at and read; raises YAMLError, ValueError and RecursionError."""
    from ruamel.yaml import YAML

    if len(text) > GREATEST_YAML_CHARACTERS:
        raise ValueError(f"it has more than {GREATEST_YAML_CHARACTERS} characters")
    return YAML(typ="safe", pure=True).compose(text)


@dataclass(slots=True)
class _Reader:
    error: type[InputError]
    last_field_counts: bool
    line_of: dict[str, int] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def document(self, root: Any) -> YamlDocument:  # noqa: ANN401 - ruamel's nodes are untyped
        if root is None:
            raise self.error("it is empty", place="line 1", expected="a mapping")
        return YamlDocument(self._value(root, ()), self.line_of)

    def _value(self, node: Any, location: Location) -> object:  # noqa: ANN401
        self.line_of.setdefault(field_path(location), node.start_mark.line + 1)
        if id(node) in self.seen:
            raise self._refusal(location, "it is an alias of another value", "each value written out")
        self.seen.add(id(node))
        kind = node.tag.rpartition(":")[2]
        if kind == "map" and isinstance(node.value, list):
            return dict(self._members(node, location))
        if kind == "seq" and isinstance(node.value, list):
            return [self._value(child, (*location, index)) for index, child in enumerate(node.value)]
        return self._scalar(kind, node.value, location)

    def _members(self, node: Any, location: Location) -> Iterator[tuple[str, object]]:  # noqa: ANN401
        names: set[str] = set()
        for key, child in node.value:
            name = key.value
            if key.tag.rpartition(":")[2] != "str" or not isinstance(name, str):
                raise self._refusal(location, f"the field name {quoted(name)} is no text", "plain names of fields")
            self.line_of[field_path((*location, name))] = key.start_mark.line + 1
            if name in names and not self.last_field_counts:
                raise self._refusal((*location, name), "the field stands twice", "each field once")
            names.add(name)
            yield name, self._value(child, (*location, name))

    def _scalar(self, kind: str, text: str, location: Location) -> object:
        match kind:
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return self._integer(text, location)
            case "float":
                value = float(text) if not text.lstrip("+-").startswith(".") else float("nan")
                if isfinite(value):
                    return value
        raise self._refusal(location, f"it is {quoted(text)}", "text, a finite number, true or false")

    def _integer(self, text: str, location: Location) -> int:
        if not fullmatch(r"[+-]?[0-9]+", text):
            raise self._refusal(location, f"it is {quoted(text)}", "a decimal integer")
        if len(text) > 20 or abs(int(text)) > LARGEST_INTEGER:
            raise self._refusal(location, "the integer is too large", "at most 2^63-1")
        return int(text)

    def _refusal(self, location: Location, what: str, expected: str) -> InputError:
        path = field_path(location)
        return self.error(what, place=YamlDocument(None, self.line_of).place(path), expected=expected)
