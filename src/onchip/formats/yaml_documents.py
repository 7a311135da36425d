"""YAML documents as JSON values, with the line of every field.

libyaml, or PyYAML's own parser if PyYAML was built without libyaml, supplies the events. PyYAML's loaders are not used:
for 8,000 layers CSafeLoader takes twice the time and nine times the memory. It also has no limit on depth or size, and
of two fields with one name it keeps the last without an error.

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

GREATEST_VALUES: Final = 1_000_000
"""Largest number of values of a document, or of an entry of a list that is read entry by entry: about three seconds."""
GREATEST_VALUES_OF_ENTRIES: Final = 15_000_000
"""Largest number of values of all entries together: about half a minute."""
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
Lines: TypeAlias = Mapping[int | str, "tuple[int, Lines]"]
"""Map from each field or index of a value to its line and the lines of its parts."""
NO_LINES: Final[Lines] = {}

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
    """A value with its line and those of its parts (from 1), and its place in the file: `[3]`, `layers[3]` or ``."""

    value: object
    line: int
    lines: Lines
    at: str = ""

    def place(self, path: str) -> str:
        """Return `line 7: memories[0].capacity`. A missing field has the line of the value that should hold it."""
        line, lines, rest = self.line, self.lines, path.partition(" (")[0]
        while rest and (name := _first_part(lines, rest)) is not None:
            line, lines = lines[name]
            rest = rest[len(name if isinstance(name, str) else f"[{name}]") :].removeprefix(".")
        if self.at:
            path = self.at if path == field_path(()) else self.at + ("" if path[:1] in " [" else ".") + path
        return f"line {line}: {_short(path)}"

    @contextmanager
    def errors_in(self, file: str) -> Iterator[None]:
        """Raise any InputError of the block with the file and the line."""
        try:
            yield
        except InputError as error:
            error.place = self.place((error.place or "").removeprefix(self.at).removeprefix("."))
            raise error.in_file(file) from None


def _first_part(lines: Lines, path: str) -> int | str | None:
    """Return the longest field name, or the index, that the path begins with."""
    if index := re.match(r"\[(\d{1,9})\]", path):
        return int(index[1]) if int(index[1]) in lines else None
    names = (name for name in lines if isinstance(name, str) and path.startswith(name))
    return max((name for name in names if path[len(name) :][:1] in ("", ".", "[")), key=len, default=None)


def _short(path: str) -> str:
    return path if len(path) <= GREATEST_PATH_SHOWN else f"{path[: GREATEST_PATH_SHOWN - 3]}..."


def parse_yaml(text: str | bytes, file_format: Format, file: str, dialect: Dialect = PLAIN) -> YamlDocument:
    """Return the one document of a text. Raises the format's error, with the line."""
    (document,) = yaml_parts(text, file_format, file, dialect=dialect)
    return document


def yaml_parts(
    text: str | bytes, file_format: Format, file: str, list_name: str | None = None, dialect: Dialect = PLAIN
) -> Iterator[YamlDocument]:
    """Yield a document, entry by entry if it is the named list or has it. Raises the format's error, with the line.

    The name "" stands for a list that is the whole document. A mapping with the list yields the fields before the list,
    then its entries, then all fields with the list empty.
    """
    encoded = as_utf8(text, file_format, file)
    with _errors_named(encoded, file_format, file):
        reader = _Reader(file_format.error, _events(encoded), dialect)
        root = reader.root()
        if list_name == "" and kind_of(root) == LIST:
            yield from reader.entries()
        elif list_name and kind_of(root) == MAPPING and root.tag is None:
            yield from reader.fields(list_name, line_of(root))
        else:
            yield reader.document(root)
        reader.end()


def _events(encoded: bytes) -> Callable[[], Event]:
    """Return a function that returns the next event, and None after the last. Both raise YAMLError."""
    import yaml

    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    next_event: Callable[[], Event] = loader(encoded).get_event
    return next_event


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
        what = f"malformed YAML: {error.problem or error.context}"
        raise file_format.error(what, file=file, place=place, expected="YAML") from None
    except ReaderError as error:
        line = encoded.count(b"\n", 0, error.position) + 1
        what, place = f"malformed YAML: {error.reason}", f"line {line}"
        raise file_format.error(what, file=file, place=place, expected="YAML") from None
    except YAMLError as error:
        raise file_format.error(f"malformed YAML: {error}", file=file, expected="YAML") from None
    except InputError as error:
        raise error.in_file(file) from None


class _Anchored(NamedTuple):
    """A value that aliases repeat, with its number of values and levels."""

    value: object
    lines: Lines
    values: int
    levels: int


@dataclass(slots=True)
class _Reader:
    """Builds values from events, the path to the value being read in `location`."""

    error: type[InputError]
    next_event: Callable[[], Event]
    dialect: Dialect
    location: list[int | str] = field(default_factory=list)
    values: int = 0
    values_of_entries: int = 0
    anchors: dict[str, _Anchored | None] = field(default_factory=dict)
    """Anchored values by name, None while the value is being read."""
    deepest: int = 0
    """Greatest depth of the values read so far, or since the last anchor."""

    def root(self) -> Event:
        """Return the first event of the document. Raises if there is no document."""
        self.next_event()
        document = self.next_event()
        if kind_of(document) != DOCUMENT:
            raise self.error("it is empty", place="line 1", expected="a mapping")
        if document.version not in (None, (1, 2)):
            version = ".".join(map(str, document.version))
            raise self._refusal(line_of(document), f"it is YAML {version}", "YAML 1.2")
        return self.next_event()

    def end(self) -> None:
        """Raise if another document follows."""
        self.next_event()
        following = self.next_event()
        if kind_of(following) == DOCUMENT:
            raise self._refusal(line_of(following), "another document begins", "one document")

    def document(self, event: Event) -> YamlDocument:
        line = line_of(event)
        value, lines = self._value(event, line)
        return YamlDocument(value, line, lines)

    def fields(self, list_name: str, line: int) -> Iterator[YamlDocument]:
        """Yield the mapping that has just begun, and before it the entries of its list of that name."""
        values: dict[str, object] = {}
        lines: dict[int | str, tuple[int, Lines]] = {}
        while kind_of(event := self.next_event()) != MAPPING_END:
            field_line = line_of(event)
            name = self._name(event, field_line, lines)
            self.location.append(name)
            value = self.next_event()
            if name == list_name and kind_of(value) == LIST and value.tag is None:
                yield YamlDocument(values.copy(), line, lines.copy())
                values_before = self.values
                yield from self.entries(list_name)
                self.values = values_before
                values[name], parts = [], NO_LINES
            else:
                values[name], parts = self._value(value, field_line)
            self.location.pop()
            lines[name] = field_line, parts
        yield YamlDocument(values, line, lines)

    def entries(self, list_name: str = "") -> Iterator[YamlDocument]:
        """Yield the entries of the list that has just begun."""
        number = 0
        while kind_of(event := self.next_event()) != LIST_END:
            self.location.append(number)
            self.values = 0
            line = line_of(event)
            value, lines = self._value(event, line)
            yield YamlDocument(value, line, lines, f"{list_name}[{number}]")
            self.values_of_entries += self.values
            if self.values_of_entries > GREATEST_VALUES_OF_ENTRIES:
                raise self._refusal(line, "it is too large", f"at most {GREATEST_VALUES_OF_ENTRIES} values")
            self.location.pop()
            number += 1

    def _value(self, event: Event, line: int) -> tuple[Any, Lines]:
        kind = kind_of(event)
        if kind == ALIAS:
            return self._alias(event.anchor, line)
        if event.anchor is None or not self.dialect.shared_nodes:
            return self._node(kind, event, line)
        before, deepest, self.deepest = self.values, self.deepest, 0
        self.anchors[event.anchor] = None
        value, lines = self._node(kind, event, line)
        levels = max(0, self.deepest - len(self.location))
        self.anchors[event.anchor] = _Anchored(value, lines, self.values - before, levels)
        self.deepest = max(deepest, self.deepest)
        return value, lines

    def _alias(self, name: str, line: int) -> tuple[object, Lines]:
        """Return the value that an alias repeats; it counts as if it were written out."""
        if not self.dialect.shared_nodes:
            raise self._refusal(line, "it is an alias of another value", "each value written out")
        anchored = self.anchors.get(name)
        if anchored is None:
            where = "inside the value that it repeats" if name in self.anchors else "before the value that it repeats"
            raise self._refusal(line, f"the alias {quoted(f'*{name}')} stands {where}", "an alias of an earlier value")
        self._count(anchored.values, line)
        self._descend(anchored.levels, line)
        return anchored.value, anchored.lines

    def _node(self, kind: str, event: Event, line: int) -> tuple[object, Lines]:
        self._count(1, line)
        if kind == SCALAR:
            return self._scalar(event, line), NO_LINES
        self._descend(1, line)
        if event.tag in (None, "!", f"tag:yaml.org,2002:{'map' if kind == MAPPING else 'seq'}"):
            return self._list() if kind == LIST else self._mapping()
        if not self.dialect.shared_nodes:
            raise self._refusal(line, f"it is tagged {quoted(event.tag)}", "a plain mapping or list")
        value, lines = self._list() if kind == LIST else self._mapping()
        if isinstance(value, dict) and event.tag[0] == "!":
            value = {**value, KIND: event.tag[1:]}
        return value, lines

    def _count(self, values: int, line: int) -> None:
        self.values += values
        if self.values > GREATEST_VALUES:
            raise self._refusal(line, "it is too large", f"at most {GREATEST_VALUES} values")

    def _descend(self, levels: int, line: int) -> None:
        depth = len(self.location) + levels
        self.deepest = max(self.deepest, depth)
        if depth > GREATEST_DEPTH:
            raise self._refusal(line, "it is nested too deeply", "the format's few levels")

    def _list(self) -> tuple[object, Lines]:
        values: list[object] = []
        lines: dict[int | str, tuple[int, Lines]] = {}
        while kind_of(event := self.next_event()) != LIST_END:
            number, line = len(values), line_of(event)
            self.location.append(number)
            value, parts = self._value(event, line)
            self.location.pop()
            values.append(value)
            lines[number] = line, parts
        return values, lines

    def _mapping(self) -> tuple[dict[str, object], Lines]:
        values: dict[str, object] = {}
        lines: dict[int | str, tuple[int, Lines]] = {}
        merges: list[tuple[str, int, Any, Lines]] = []
        while kind_of(event := self.next_event()) != MAPPING_END:
            line = line_of(event)
            name = self._name(event, line, lines)
            self.location.append(name)
            value, parts = self._value(self.next_event(), line)
            self.location.pop()
            if name in MERGES:
                merges.append((name, line, value, parts))
            else:
                values[name] = value
                lines[name] = line, parts
        for name, line, value, parts in merges:
            is_list = isinstance(value, list)
            for at, base in enumerate(value) if is_list else [(0, value)]:
                if not isinstance(base, dict):
                    raise self._refusal(line, f"`{name}` merges what is no mapping", "an alias of a mapping")
                values = self._merged(values, base, line, is_deep=name == DEEP_MERGE)
                lines = {**(parts[at][1] if is_list else parts), **lines}
        return values, lines

    def _merged(self, own: dict[str, Any], base: dict[str, Any], line: int, *, is_deep: bool) -> dict[str, Any]:
        """Return a mapping with the fields of a base that it leaves out, as Timeloop's front end merges them.

        A deep merge merges mappings of the same name too, and joins lists. The tag is no field. Copies count as values.
        """
        self._count(len(own) + len(base), line)
        merged = own | {name: value for name, value in base.items() if name not in own and name != KIND}
        for name in own.keys() & base.keys() if is_deep else ():
            mine, theirs = own[name], base[name]
            if isinstance(mine, dict) and isinstance(theirs, dict):
                merged[name] = self._merged(mine, theirs, line, is_deep=True)
            elif isinstance(mine, list) and isinstance(theirs, list):
                self._count(len(mine) + len(theirs), line)
                merged[name] = mine + theirs
        return merged

    def _name(self, event: Event, line: int, lines: Lines) -> str:
        """Return the name of the next field, verbatim. `lines` has the earlier fields."""
        if kind_of(event) != SCALAR:
            what = {MAPPING: "a mapping", LIST: "a list"}.get(kind_of(event), "an alias")
            raise self._refusal(line, f"the field name is {what}", "plain names of fields")
        name: str = event.value
        if len(name) > GREATEST_NAME:
            raise self._refusal(line, "a field name is too long", f"at most {GREATEST_NAME} characters")
        if name in MERGES and not self.dialect.shared_nodes:
            raise self._refusal(line, f"`{name}` merges another mapping", "each field written out")
        if name in lines and not self.dialect.repeated_fields:
            self.location.append(name)
            raise self._refusal(line, f"the field stands twice, first in line {lines[name][0]}", "each field once")
        return name

    def _scalar(self, event: Event, line: int) -> object:
        if not event.implicit[0] and event.tag not in _JSON_TAGS:
            if event.tag in (None, "tag:yaml.org,2002:str"):
                return event.value
            if event.tag[0] == "!" and self.dialect.shared_nodes:
                return event.value or {KIND: event.tag[1:]}
            raise self._refusal(line, f"it is tagged {quoted(event.tag)}", "a plain value")
        try:
            return plain_value(event.value)
        except InputError as error:
            raise self._refusal(line, error.what, error.expected) from None

    def _refusal(self, line: int, what: str, expected: str | None) -> InputError:
        path = field_path(self.location)
        return self.error(what, place=f"line {line}: {_short(path)}", expected=expected)


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
