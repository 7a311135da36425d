"""The YAML of Timeloop's files: tags that name the kind of a node, anchors, `<<` and `<<<` merges, Jinja templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from onchip.errors import InputError
from onchip.formats.timeloop.templates import is_template, rendered
from onchip.formats.validation import Format, as_utf8, quoted
from onchip.formats.yaml_events import (
    GREATEST_DEPTH,
    LIST,
    LIST_END,
    MAPPING,
    MAPPING_END,
    kind_of,
    malformed_named,
    yaml_events,
)
from onchip.formats.yaml_nodes import GREATEST_VALUES, Lines, YamlDocument
from onchip.formats.yaml_scalars import plain_value

KIND: Final = "!"
"""The field of a tagged node that holds its tag: `!Component {name: x}` is `{"!": "Component", "name": "x"}`."""
MERGE, DEEP_MERGE = "<<", "<<<"


def read_document(text: str | bytes, file_format: Format, file: str) -> YamlDocument:
    """Return the value of a file with the lines of its parts; raises the format's error with a line.

    A template is rendered first, and lines are then those of the rendered text.
    """
    encoded = as_utf8(text, file_format, file)
    if is_template(encoded):
        encoded = rendered(encoded.decode(), Path(file)).encode()
    with malformed_named(encoded, file_format, file):
        _check_depth(encoded, file_format)
        root = _root(encoded)
        if root is None:
            raise file_format.error("it is empty", place="line 1", expected="a mapping")
        part = _Composer(file_format.error).part(root)
    return YamlDocument(part.value, part.line, part.lines)


def field_names(text: bytes, file: str) -> frozenset[str]:
    """Return the names of a document's outermost fields, none if it is no mapping; raises InputError."""
    value = read_document(text, Format("Timeloop file", 4, InputError), file).value
    return frozenset(value) if isinstance(value, dict) else frozenset()


def _root(encoded: bytes) -> Any:  # noqa: ANN401 - PyYAML's nodes are untyped
    from yaml import compose
    from yaml.cyaml import CSafeLoader

    return compose(encoded, Loader=CSafeLoader)


def _check_depth(encoded: bytes, file_format: Format) -> None:
    """Raise the format's error for a file that is nested too deeply to be composed."""
    depth = 0
    for event in iter(yaml_events(encoded), None):
        depth += (kind_of(event) in (LIST, MAPPING)) - (kind_of(event) in (LIST_END, MAPPING_END))
        if depth > GREATEST_DEPTH:
            line = f"line {event.start_mark.line + 1}"
            raise file_format.error("it is nested too deeply", place=line, expected="the format's few levels")


@dataclass(frozen=True, slots=True)
class _Part:
    """The value of a node, the line where it begins, the lines of its parts, and the number of values in it."""

    value: Any
    line: int
    lines: Lines = field(default_factory=dict)
    values: int = 1


@dataclass(slots=True)
class _Composer:
    """Builds values out of PyYAML's nodes; an aliased node is built once and counted each time it is used."""

    error: type[InputError]
    parts: dict[int, _Part | None] = field(default_factory=dict)

    def part(self, node: Any) -> _Part:  # noqa: ANN401 - PyYAML's nodes are untyped
        """Return what a node means; raises the format's error with its line."""
        line = node.start_mark.line + 1
        if id(node) not in self.parts:
            self.parts[id(node)] = None
            self.parts[id(node)] = self._built(node, line)
        found = self.parts[id(node)]
        if found is None:
            raise self._refusal(line, "an alias stands inside what it repeats", "values that end")
        if found.values > GREATEST_VALUES:
            raise self._refusal(line, "it is too large", f"at most {GREATEST_VALUES} values")
        return found

    def _built(self, node: Any, line: int) -> _Part:  # noqa: ANN401 - PyYAML's nodes are untyped
        if node.id == "scalar":
            return _Part(self._scalar(node, line), line)
        if node.id == "sequence":
            entries = [self.part(one) for one in node.value]
            lines: dict[int | str, tuple[int, Lines]] = {at: (one.line, one.lines) for at, one in enumerate(entries)}
            return _Part([one.value for one in entries], line, lines, 1 + sum(one.values for one in entries))
        return self._mapping(node, line)

    def _mapping(self, node: Any, line: int) -> _Part:  # noqa: ANN401 - PyYAML's nodes are untyped
        own, merged = dict[str, _Part](), list[tuple[str, _Part]]()
        for key, value in node.value:
            key_line = key.start_mark.line + 1
            name = key.value if key.id == "scalar" else None
            if name is None:
                raise self._refusal(key_line, "a field name is no text", "plain names of fields")
            part = self.part(value)
            if name in (MERGE, DEEP_MERGE):
                merged.append((name, part))
                continue
            if name in own:
                raise self._refusal(key_line, f"the field {quoted(name)} stands twice", "each field once")
            own[name] = _Part(part.value, key_line, part.lines, part.values)
        fields: dict[str, _Part] = {}
        for name, part in merged:
            for base in part.value if isinstance(part.value, list) else [part.value]:
                if not isinstance(base, dict):
                    raise self._refusal(part.line, f"`{name}` merges what is no mapping", "an alias of a mapping")
                fields |= {key: _Part(value, part.line, {}, part.values) for key, value in base.items()}
        deep = any(name == DEEP_MERGE for name, _ in merged)
        for name, part in own.items():
            value = _merged(fields[name].value, part.value) if deep and name in fields else part.value
            fields[name] = _Part(value, part.line, part.lines, part.values)
        values = {name: part.value for name, part in fields.items()}
        if node.tag.startswith("!"):
            values = {KIND: node.tag.removeprefix("!"), **values}
        lines: dict[int | str, tuple[int, Lines]] = {name: (part.line, part.lines) for name, part in fields.items()}
        return _Part(values, line, lines, 1 + sum(part.values for part in fields.values()))

    def _scalar(self, node: Any, line: int) -> object:  # noqa: ANN401 - PyYAML's nodes are untyped
        if node.tag.startswith("!"):
            return {KIND: node.tag.removeprefix("!")} if not node.value else node.value
        if node.style in ("'", '"', "|", ">"):
            return node.value
        try:
            return plain_value(node.value)
        except InputError as error:
            raise self._refusal(line, error.what, error.expected) from None

    def _refusal(self, line: int, what: str, expected: str | None) -> InputError:
        return self.error(what, place=f"line {line}", expected=expected)


def _merged(base: object, over: object) -> object:
    """Return `over` with the fields of `base` that it leaves out, at every level."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {**base, **{key: _merged(base[key], value) if key in base else value for key, value in over.items()}}
    return over


def as_json(document: YamlDocument) -> bytes:
    """Return the value as JSON, which the shapes of fields are checked on."""
    return json.dumps(document.value).encode()
