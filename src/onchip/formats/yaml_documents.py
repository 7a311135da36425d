"""YAML documents as JSON values, with the line of every field.

libyaml, or PyYAML's own parser if PyYAML was built without libyaml, supplies the events. PyYAML's loaders are not used:
for 8,000 layers CSafeLoader takes twice the time. It also has no limit on depth or size, and of two fields with one
name it keeps the last without an error.

Scalars follow YAML 1.2: `yes`, `on` and `N` are text, `1e-3` is a number and `017` is 17. Beyond it, `32_000` is an
integer and dates are text. Numbers that JSON lacks (not decimal, NaN or infinity) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

from onchip.errors import InputError
from onchip.formats.validation import LARGEST_INTEGER, Format, as_utf8, field_path, quoted

GREATEST_VALUES: Final = 2_000_000
"""Largest number of values of a document: about six seconds."""
GREATEST_DEPTH: Final = 100
"""Deepest nesting of lists and mappings. The time that libyaml takes for a token grows with the depth."""
GREATEST_NAME: Final = 1000
GREATEST_PATH_SHOWN: Final = 300

KIND: Final = "!"
"""The field that holds the tag of a mapping: `!Component {name: x}` is `{"!": "Component", "name": "x"}`."""
DEEP_MERGE: Final = "<<<"
MERGES: Final = ("<<", DEEP_MERGE)

Event: TypeAlias = Any
"""PyYAML's events are untyped."""
DOCUMENT: Final = "DocumentStartEvent"
SCALAR: Final = "ScalarEvent"
ALIAS: Final = "AliasEvent"
LIST: Final = "SequenceStartEvent"
LIST_END: Final = "SequenceEndEvent"
MAPPING: Final = "MappingStartEvent"
MAPPING_END: Final = "MappingEndEvent"

_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBERS_BEGIN_WITH: Final = frozenset("0123456789+-.")
_INTEGER: Final = re.compile(r"[-+]?([0-9]+|[1-9][0-9_]*)")
_OTHER_INTEGER: Final = re.compile(r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-9_]+)")
_REAL: Final = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?")
_JSON_TAGS: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))


@dataclass(frozen=True, slots=True)
class Dialect:
    """The features of YAML that a tool's files may use beyond plain mappings, lists and scalars."""

    repeated_fields: bool = False
    """True if the last of several fields with one name counts, as in ZigZag."""
    shared_nodes: bool = False
    """True if files may have aliases, merges (`<<`, and `<<<` at every level) and tags of mappings, as in Timeloop."""


PLAIN: Final = Dialect()


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A value, and the line of each of its parts that is not in the line of the part around it, by path."""

    value: Any
    lines: Mapping[str, int]

    def place(self, path: str) -> str:
        """Return `line 7: memories[0].capacity`. A missing field has the line of the value that should hold it."""
        part = path.partition(" (")[0]
        while part and part not in self.lines:
            part = part[: max(part.rfind("."), part.rfind("["), 0)]
        return f"line {self.lines.get(part, self.lines[''])}: {_short(path)}"

    @contextmanager
    def errors_in(self, file: str) -> Iterator[None]:
        """Raise any InputError of the block with the file and the line."""
        try:
            yield
        except InputError as error:
            error.place = self.place(error.place or "")
            raise error.in_file(file) from None


def _short(path: str) -> str:
    return path if len(path) <= GREATEST_PATH_SHOWN else f"{path[: GREATEST_PATH_SHOWN - 3]}..."


def parse_yaml(text: str | bytes, file_format: Format, file: str, dialect: Dialect = PLAIN) -> YamlDocument:
    """Return the one document of a text. Raises the format's error, with the line."""
    import yaml

    encoded = as_utf8(text, file_format, file)
    with _errors_named(encoded, file_format, file):
        loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        return _Reader(file_format.error, loader(encoded).get_event, dialect).document()


def kind_of(event: Event) -> str:
    """Return the name of an event's class."""
    return type(event).__name__


def line_of(event: Event) -> int:
    """Return the line, from 1, where an event begins."""
    line: int = event.start_mark.line
    return line + 1


@contextmanager
def _errors_named(encoded: bytes, file_format: Format, file: str) -> Iterator[None]:
    """Raise PyYAML's errors as the format's error with their line, and put the file into every InputError."""
    from yaml import MarkedYAMLError, YAMLError
    from yaml.reader import ReaderError

    try:
        yield
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}" if mark else None
        raise file_format.error(f"malformed YAML: {error.problem or error.context}", place, "YAML", file=file) from None
    except ReaderError as error:
        line = encoded.count(b"\n", 0, error.position) + 1
        raise file_format.error(f"malformed YAML: {error.reason}", f"line {line}", "YAML", file=file) from None
    except YAMLError as error:
        raise file_format.error(f"malformed YAML: {error}", file=file, expected="YAML") from None
    except InputError as error:
        raise error.in_file(file) from None


class _Node(NamedTuple):
    """A value with its number of values and levels, both as if its aliases were written out."""

    value: Any
    values: int = 1
    levels: int = 0


@dataclass(slots=True)
class _Reader:
    """Builds values from events; `anchors` are None while their value is being read."""

    error: type[InputError]
    next_event: Callable[[], Event]
    dialect: Dialect
    lines: dict[str, int] = field(default_factory=dict)
    values: int = 0
    anchors: dict[str, _Node | None] = field(default_factory=dict)

    def document(self) -> YamlDocument:
        """Return the document; raises if there is none, or another one."""
        self.next_event()
        start = self.next_event()
        if kind_of(start) != DOCUMENT:
            raise self.error("it is empty", "line 1", "a mapping")
        if start.version not in (None, (1, 2)):
            version = ".".join(map(str, start.version))
            raise self._refusal(line_of(start), "", f"it is YAML {version}", "YAML 1.2")
        event = self.next_event()
        self.lines[""] = line_of(event)
        value = self._node(event, line_of(event), "", 0).value
        self.next_event()
        following = self.next_event()
        if kind_of(following) == DOCUMENT:
            raise self._refusal(line_of(following), "", "another document begins", "one document")
        return YamlDocument(value, self.lines)

    def _part(self, event: Event, line: int, path: str, outer: int, depth: int) -> _Node:
        """Return a part of a list or a mapping that begins in line `outer`."""
        if line != outer:
            self.lines[path] = line
        return self._node(event, line, path, depth)

    def _node(self, event: Event, line: int, path: str, depth: int) -> _Node:
        """Return a value; an alias counts as if the value were written out."""
        if kind_of(event) != ALIAS:
            if event.anchor is None or not self.dialect.shared_nodes:
                return self._own_node(event, line, path, depth)
            self.anchors[event.anchor] = None
            node = self.anchors[event.anchor] = self._own_node(event, line, path, depth)
            return node
        if not self.dialect.shared_nodes:
            raise self._refusal(line, path, "it is an alias of another value", "each value written out")
        repeated = self.anchors.get(event.anchor)
        if repeated is None:
            where = "inside" if event.anchor in self.anchors else "before"
            what = f"the alias {quoted(f'*{event.anchor}')} stands {where} the value that it repeats"
            raise self._refusal(line, path, what, "an alias of an earlier value")
        self._count(repeated.values, line, path)
        self._ensure_shallow(depth + repeated.levels, line, path)
        return repeated

    def _own_node(self, event: Event, line: int, path: str, depth: int) -> _Node:
        self._count(1, line, path)
        kind, before = kind_of(event), self.values
        if kind == SCALAR:
            return _Node(self._scalar(event, line, path))
        self._ensure_shallow(depth + 1, line, path)
        is_plain = event.tag in (None, "!", f"tag:yaml.org,2002:{'map' if kind == MAPPING else 'seq'}")
        if not is_plain and not self.dialect.shared_nodes:
            raise self._refusal(line, path, f"it is tagged {quoted(event.tag)}", "a plain mapping or list")
        value, levels = (self._list if kind == LIST else self._mapping)(line, path, depth + 1)
        if isinstance(value, dict) and not is_plain and event.tag[0] == "!":
            value = {**value, KIND: event.tag[1:]}
        return _Node(value, self.values - before + 1, levels + 1)

    def _count(self, values: int, line: int, path: str) -> None:
        self.values += values
        if self.values > GREATEST_VALUES:
            raise self._refusal(line, path, "it is too large", f"at most {GREATEST_VALUES} values")

    def _ensure_shallow(self, depth: int, line: int, path: str) -> None:
        if depth > GREATEST_DEPTH:
            raise self._refusal(line, path, "it is nested too deeply", "the format's few levels")

    def _list(self, outer: int, path: str, depth: int) -> tuple[list[object], int]:
        values, levels = list[object](), 0
        while kind_of(event := self.next_event()) != LIST_END:
            node = self._part(event, line_of(event), _joined(path, f"[{len(values)}]"), outer, depth)
            values.append(node.value)
            levels = max(levels, node.levels)
        return values, levels

    def _mapping(self, outer: int, path: str, depth: int) -> tuple[dict[str, object], int]:
        values, first, levels = dict[str, object](), dict[str, int](), 0
        merges: list[tuple[str, int, Any]] = []
        while kind_of(event := self.next_event()) != MAPPING_END:
            line = line_of(event)
            name = self._name(event, line, path)
            of_field = _joined(path, f".{name}" if path else name)
            if name in first and not self.dialect.repeated_fields:
                what = f"the field stands twice, first in line {first[name]}"
                raise self._refusal(line, of_field, what, "each field once")
            node = self._part(self.next_event(), line, of_field, outer, depth)
            levels = max(levels, node.levels)
            if name in MERGES:
                merges.append((name, line, node.value))
            else:
                values[name], first[name] = node.value, line
        for name, line, value in merges:
            for base in value if isinstance(value, list) else [value]:
                if not isinstance(base, dict):
                    raise self._refusal(line, path, f"`{name}` merges what is no mapping", "an alias of a mapping")
                values = self._merged(values, base, line, path, is_deep=name == DEEP_MERGE)
        return values, levels

    def _merged(
        self, own: dict[str, Any], base: dict[str, Any], line: int, path: str, *, is_deep: bool
    ) -> dict[str, Any]:
        """Return a mapping with the fields of a base that it leaves out, as Timeloop's front end merges them.

        A deep merge merges mappings of the same name too, and joins lists. The tag is no field. Copies count as values.
        """
        self._count(len(own) + len(base), line, path)
        merged = own | {name: value for name, value in base.items() if name not in own and name != KIND}
        for name in own.keys() & base.keys() if is_deep else ():
            mine, theirs = own[name], base[name]
            if isinstance(mine, dict) and isinstance(theirs, dict):
                merged[name] = self._merged(mine, theirs, line, path, is_deep=True)
            elif isinstance(mine, list) and isinstance(theirs, list):
                self._count(len(mine) + len(theirs), line, path)
                merged[name] = mine + theirs
        return merged

    def _name(self, event: Event, line: int, path: str) -> str:
        """Return the name of the next field, verbatim."""
        if kind_of(event) != SCALAR:
            what = {MAPPING: "a mapping", LIST: "a list"}.get(kind_of(event), "an alias")
            raise self._refusal(line, path, f"the field name is {what}", "plain names of fields")
        name: str = event.value
        if len(name) > GREATEST_NAME:
            raise self._refusal(line, path, "a field name is too long", f"at most {GREATEST_NAME} characters")
        if name in MERGES and not self.dialect.shared_nodes:
            raise self._refusal(line, path, f"`{name}` merges another mapping", "each field written out")
        return name

    def _scalar(self, event: Event, line: int, path: str) -> object:
        if not event.implicit[0] and event.tag not in _JSON_TAGS:
            if event.tag in (None, "tag:yaml.org,2002:str"):
                return event.value
            if event.tag[0] == "!" and self.dialect.shared_nodes:
                return event.value or {KIND: event.tag[1:]}
            raise self._refusal(line, path, f"it is tagged {quoted(event.tag)}", "a plain value")
        try:
            return plain_value(event.value)
        except InputError as error:
            raise self._refusal(line, path, error.what, error.expected) from None

    def _refusal(self, line: int, path: str, what: str, expected: str | None) -> InputError:
        return self.error(what, f"line {line}: {_short(path or field_path(()))}", expected)


def _joined(path: str, part: str) -> str:
    """Return the path of a part; a long path stays as it is, because its end is never shown."""
    return path + part if len(path) <= GREATEST_PATH_SHOWN else path


def plain_value(text: str) -> object:
    """Return the value of a scalar without quotes. Raises InputError for a number that JSON lacks."""
    if text[:1] not in _NUMBERS_BEGIN_WITH:
        return _CONSTANTS.get(text, text)
    if _INTEGER.fullmatch(text):
        digits = text.replace("_", "")
        if len(digits) > 20 or abs(int(digits)) > LARGEST_INTEGER:
            raise InputError("the integer is too large", expected="at most 2^63-1")
        return int(digits)
    if _OTHER_INTEGER.fullmatch(text):
        raise InputError(f"it is {quoted(text)}", expected="a decimal integer")
    if _REAL.fullmatch(text) and isfinite(value := float(text.replace("_", ""))):
        return value
    if _REAL.fullmatch(text) or text.lstrip("+-").lower() in (".inf", ".nan"):
        raise InputError(f"it is {quoted(text)}", expected="a finite number")
    return text
