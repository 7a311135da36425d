"""YAML as JSON, with the line of every field.

libyaml says what stands where; what it means is said here. Aliases are refused where they stand, so that no file
means more than it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from re import match
from typing import Final, TypeAlias

from onchip.errors import InputError
from onchip.formats.validation import Format, as_utf8, field_path, quoted
from onchip.formats.yaml_events import (
    ALIAS,
    DOCUMENT,
    GREATEST_DEPTH,
    LIST,
    LIST_END,
    MAPPING,
    MAPPING_END,
    SCALAR,
    Event,
    kind_of,
    line_of,
    malformed_named,
    yaml_events,
)
from onchip.formats.yaml_scalars import plain_value, tagged_value

GREATEST_VALUES: Final = 1_000_000
"""Of one document, or of one entry of a list that is read entry by entry: what is read in some three seconds."""
GREATEST_VALUES_OF_ENTRIES: Final = 15_000_000
"""Of all entries together: what is read in half a minute."""
GREATEST_NAME: Final = 1000
GREATEST_PATH_SHOWN: Final = 300

Lines: TypeAlias = Mapping[int | str, "tuple[int, Lines]"]
"""Of the parts of a value, by field or index: the line where each stands, and those of its own parts."""
NO_LINES: Final[Lines] = {}


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The value, the lines (from 1) of its parts, and where it stands in the file: `[3]`, `layers[3]`, or nowhere."""

    value: object
    line: int
    lines: Lines
    at: str = ""

    def place(self, path: str) -> str:
        """`line 7: memories[0].capacity`; a field that is not there has the line of what should hold it."""
        line, lines, rest = self.line, self.lines, path.partition(" (")[0]
        while rest and (name := _first_part(lines, rest)) is not None:
            line, lines = lines[name]
            rest = rest[len(name if isinstance(name, str) else f"[{name}]") :].removeprefix(".")
        if self.at:
            path = self.at if path == field_path(()) else self.at + ("" if path[:1] in " [" else ".") + path
        return f"line {line}: {_short(path)}"


def _first_part(lines: Lines, path: str) -> int | str | None:
    """The part of a value that a path begins with; of several names the longest."""
    if index := match(r"\[(\d{1,9})\]", path):
        return int(index[1]) if int(index[1]) in lines else None
    names = (name for name in lines if isinstance(name, str) and path.startswith(name))
    return max((name for name in names if path[len(name) :][:1] in ("", ".", "[")), key=len, default=None)


def _short(path: str) -> str:
    return path if len(path) <= GREATEST_PATH_SHOWN else f"{path[: GREATEST_PATH_SHOWN - 3]}..."


def parse_yaml(text: str | bytes, file_format: Format, file: str) -> YamlDocument:
    """One document of plain mappings, lists and scalars; raises the format's error, with the line."""
    encoded = as_utf8(text, file_format, file)
    with malformed_named(encoded, file_format, file):
        composer = _Composer(file_format.error, yaml_events(encoded))
        document = composer.document(composer.root())
        composer.end()
    return document


def yaml_entries(text: str | bytes, file_format: Format, file: str) -> Iterator[YamlDocument]:
    """The entries of a list one after another, or the one value that stands alone; raises the format's error.

    Of a field that stands twice the last one counts.
    """
    encoded = as_utf8(text, file_format, file)
    with malformed_named(encoded, file_format, file):
        composer = _Composer(file_format.error, yaml_events(encoded), last_field_counts=True)
        root = composer.root()
        if kind_of(root) == LIST:
            yield from composer.entries()
        else:
            yield composer.document(root)
        composer.end()


def yaml_with_entries(text: str | bytes, file_format: Format, file: str, name: str) -> Iterator[YamlDocument]:
    """One document whose field of that name may hold a long list; raises the format's error, with the line.

    First come the fields that stand before the list, then its entries one after another, last all fields, the list
    empty. What is no such document comes as a whole.
    """
    encoded = as_utf8(text, file_format, file)
    with malformed_named(encoded, file_format, file):
        composer = _Composer(file_format.error, yaml_events(encoded))
        root = composer.root()
        if kind_of(root) == MAPPING and root.tag is None:
            yield from composer.fields(name, line_of(root))
        else:
            yield composer.document(root)
        composer.end()


@dataclass(slots=True)
class _Composer:
    """Builds values out of events, those of which it has yet to see; `location` is where it is at."""

    error: type[InputError]
    next_event: Callable[[], Event]
    last_field_counts: bool = False
    location: list[int | str] = field(default_factory=list)
    values: int = 0
    values_of_entries: int = 0

    def root(self) -> Event:
        """The first event of the one document; raises where there is none."""
        self.next_event()
        document = self.next_event()
        if kind_of(document) != DOCUMENT:
            raise self.error("it is empty", place="line 1", expected="a mapping")
        if document.version not in (None, (1, 2)):
            version = ".".join(map(str, document.version))
            raise self._refusal(line_of(document), f"it is YAML {version}", "YAML 1.2")
        return self.next_event()

    def end(self) -> None:
        """Raise where another document follows."""
        self.next_event()
        following = self.next_event()
        if kind_of(following) == DOCUMENT:
            raise self._refusal(line_of(following), "another document begins", "one document")

    def document(self, event: Event) -> YamlDocument:
        line = line_of(event)
        value, lines = self._value(event, line)
        return YamlDocument(value, line, lines)

    def fields(self, name: str, line: int) -> Iterator[YamlDocument]:
        """Those of the mapping that has just begun, with the entries of its list of that name."""
        values: dict[str, object] = {}
        lines: dict[int | str, tuple[int, Lines]] = {}
        while kind_of(event := self.next_event()) != MAPPING_END:
            field_line = line_of(event)
            field_name = self._new_name(event, field_line, values)
            self.location.append(field_name)
            value = self.next_event()
            if field_name == name and kind_of(value) == LIST and value.tag is None:
                yield YamlDocument(values.copy(), line, lines.copy())
                values_before = self.values
                yield from self.entries(name)
                self.values = values_before
                values[field_name], parts = [], NO_LINES
            else:
                values[field_name], parts = self._value(value, field_line)
            self.location.pop()
            lines[field_name] = field_line, parts
        yield YamlDocument(values, line, lines)

    def entries(self, name: str = "") -> Iterator[YamlDocument]:
        """Those of the list that has just begun, in the field of that name if there is one."""
        number = 0
        while kind_of(event := self.next_event()) != LIST_END:
            self.location.append(number)
            self.values = 0
            line = line_of(event)
            value, lines = self._value(event, line)
            yield YamlDocument(value, line, lines, f"{name}[{number}]")
            self.values_of_entries += self.values
            if self.values_of_entries > GREATEST_VALUES_OF_ENTRIES:
                raise self._refusal(line, "it is too large", f"at most {GREATEST_VALUES_OF_ENTRIES} values")
            self.location.pop()
            number += 1

    def _value(self, event: Event, line: int) -> tuple[object, Lines]:
        self.values += 1
        if self.values > GREATEST_VALUES:
            raise self._refusal(line, "it is too large", f"at most {GREATEST_VALUES} values")
        kind = kind_of(event)
        if kind == SCALAR:
            return self._scalar(event, line), NO_LINES
        if kind == ALIAS:
            raise self._refusal(line, "it is an alias of another value", "each value written out")
        if len(self.location) > GREATEST_DEPTH:
            raise self._refusal(line, "it is nested too deeply", "the format's few levels")
        name = "map" if kind == MAPPING else "seq"
        if event.tag not in (None, "!", f"tag:yaml.org,2002:{name}"):
            raise self._refusal(line, f"it is tagged {quoted(event.tag)}", "a plain mapping or list")
        return self._mapping() if kind == MAPPING else self._list()

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

    def _mapping(self) -> tuple[object, Lines]:
        values: dict[str, object] = {}
        lines: dict[int | str, tuple[int, Lines]] = {}
        while kind_of(event := self.next_event()) != MAPPING_END:
            line = line_of(event)
            name = self._new_name(event, line, values)
            self.location.append(name)
            values[name], parts = self._value(self.next_event(), line)
            self.location.pop()
            lines[name] = line, parts
        return values, lines

    def _new_name(self, event: Event, line: int, values: Mapping[str, object]) -> str:
        """Of the next field of those values; raises where it stands twice, unless the last one counts."""
        name = self._name(event, line)
        if name in values and not self.last_field_counts:
            self.location.append(name)
            raise self._refusal(line, "the field stands twice", "each field once")
        return name

    def _name(self, event: Event, line: int) -> str:
        """Of a field; raises where it is no text."""
        self.values += 1
        if kind_of(event) != SCALAR:
            what = {MAPPING: "a mapping", LIST: "a list"}.get(kind_of(event), "an alias")
            raise self._refusal(line, f"the field name is {what}", "plain names of fields")
        name = self._scalar(event, line)
        if not isinstance(name, str):
            raise self._refusal(line, f"the field name {quoted(event.value)} is no text", "plain names of fields")
        if len(name) > GREATEST_NAME:
            raise self._refusal(line, "a field name is too long", f"at most {GREATEST_NAME} characters")
        return name

    def _scalar(self, event: Event, line: int) -> object:
        try:
            if event.implicit[0] or event.tag == "!":
                return plain_value(event.value)
            return event.value if event.tag is None else tagged_value(event.value, event.tag)
        except InputError as error:
            raise self._refusal(line, error.what, error.expected) from None

    def _refusal(self, line: int, what: str, expected: str | None) -> InputError:
        path = field_path(self.location)
        return self.error(what, place=f"line {line}: {_short(path)}", expected=expected)
