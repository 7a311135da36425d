"""Validate bytes of a file format as a TypedDict, or raise one line with the error and its place.

The TypedDicts are validated strictly by pydantic. JSON that Python would accept leniently (duplicate keys, NaN,
integers of a thousand digits) is refused here, with the field path.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import isfinite
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NotRequired,
    Required,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from onchip.errors import InputError, nearest_first
from onchip.formats.files import GREATEST_FILE_BYTES

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import ErrorDetails, SchemaValidator

ShapeT = TypeVar("ShapeT", bound=Hashable)
Location = tuple[int | str, ...]

LARGEST_INTEGER: Final = 2**63 - 1
GREATEST_CONTAINERS: Final = 6_000_000
"""Largest number of objects and lists in a file: each takes 60 to 200 bytes in Python."""
GREATEST_VALUES: Final = GREATEST_FILE_BYTES // 8
"""Largest number of values in a file, each up to 40 bytes in Python; large networks have one per ten bytes of text."""
_EXPECTED_BY_ERROR: Final = {
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
}

_MAY_BE_TOO_LARGE: Final = re.compile(rb"[0-9](?:[0-9]{18}|[eE])")
"""Matches in every number that exceeds 64 bits or is not finite; it may match in text, too."""
_FORMAT_IN_YAML: Final = re.compile(rb"""(?m)^format:[ \t]*["']?(onchip-[a-z]+)\b""")


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: its name, the version that is read, and the error class for bad files."""

    name: str
    version: int
    error: type[InputError]


@dataclass(frozen=True, slots=True)
class Doc:
    """The description of a field in the JSON schema."""

    text: str

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's
        return handler(schema) | {"description": self.text}


def parse(shape: type[ShapeT], file_format: Format, text: str | bytes, file: str) -> ShapeT:
    """Return the value of `shape` in a JSON file; raises the format's error, with file and place.

    The first wrong entry of a list ends the validation, because a file may hold millions of entries.
    """
    from pydantic import ValidationError

    encoded = as_utf8(text, file_format, file)
    ensure_few_values(encoded, file_format, file)
    try:
        value = cast("ShapeT", _validator(shape).validate_json(encoded))
    except ValidationError as error:
        wrong = first_error(error, file_format, shape).in_file(file)
        if not all(any(isinstance(part, int) for part in one["loc"]) for one in error.errors(include_url=False)):
            check_format(_load(encoded, file_format, file), file_format, file)
        raise wrong from None
    check_format(_load(encoded, file_format, file), file_format, file)
    return value


def validate(shape: type[ShapeT], value: object, file_format: Format, file: str) -> ShapeT:
    """Return a value of JSON as a value of `shape`; raises the format's error, with file and place."""
    from pydantic import ValidationError

    try:
        return cast("ShapeT", _validator(shape).validate_json(json.dumps(value).encode()))
    except ValidationError as error:
        raise first_error(error, file_format, shape).in_file(file) from None


def first_error(error: ValidationError, file_format: Format, shape: object) -> InputError:
    """Return the first of pydantic's errors on a value of `shape` as an error of the format."""
    first, *others = error.errors(include_url=False)
    location, (what, expected) = first["loc"], _what_and_expected(first)
    if first["type"] == "extra_forbidden" and (known := _fields_at(shape, location[:-1])):
        expected = f"{nearest_first(str(location[-1]), known) or 'one '}of {', '.join(known)}"
    if location[-1:] == ("int",) and any(other["loc"] == (*location[:-1], "str") for other in others):
        location, expected = location[:-1], "an integer or a string"
    return file_format.error(what, field_path(location), expected)


def _fields_at(shape: object, location: Iterable[int | str]) -> list[str]:
    """Return the names of the fields that a TypedDict has at a place of a value of `shape`."""
    kinds = [*_alternatives(shape)]
    for part in location:
        inner = [
            kind
            for outer in kinds
            for kind in (
                _alternatives(get_type_hints(outer, include_extras=True).get(str(part)))
                if hasattr(outer, "__required_keys__")
                else [one for argument in get_args(outer)[-1:] for one in _alternatives(argument)]
            )
        ]
        kinds = inner or kinds  # a part may name an alternative
    return sorted({name for kind in kinds if hasattr(kind, "__required_keys__") for name in get_type_hints(kind)})


def _alternatives(kind: object) -> Iterator[Any]:
    """Yield the types that a type allows, without the marks of TypedDicts and unions."""
    if get_origin(kind) in (Annotated, NotRequired, Required):
        yield from _alternatives(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from _alternatives(one)
    elif kind is not None:
        yield kind


def field_path(location: Iterable[int | str]) -> str:
    """Return `tensors[3].shape` for ("tensors", 3, "shape")."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".") or "the whole file"


def quoted(value: object) -> str:
    """Return a value for a message: as JSON, at most 60 characters."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def strict_adapter(shape: Any) -> TypeAdapter[object]:  # noqa: ANN401 - pydantic marks the type
    """Return pydantic's adapter of a TypedDict, which refuses unknown fields and conversions at every level."""
    from pydantic import ConfigDict, TypeAdapter

    shape.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    return TypeAdapter(shape)


@cache
def _validator(shape: Any) -> SchemaValidator:  # noqa: ANN401 - pydantic marks the type
    """Return a validator that stops at the first bad entry of a list, because a file may hold millions."""
    from pydantic_core import SchemaValidator

    return SchemaValidator(_failing_fast(strict_adapter(shape).core_schema))


def _failing_fast(schema: Any) -> Any:  # noqa: ANN401 - pydantic's schemas are nested dicts
    if isinstance(schema, list):
        return [_failing_fast(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _failing_fast(part) for key, part in schema.items()}
    return parts | {"fail_fast": True} if parts.get("type") in ("list", "dict", "tuple") else parts


def _what_and_expected(details: ErrorDetails) -> tuple[str, str]:
    kind, context = details["type"], details.get("ctx", {})
    match kind:
        case "missing":
            return "the field is missing", "a value"
        case "extra_forbidden":
            return "the field is unknown", "only fields of the format"
        case "literal_error" | "enum":
            return f"it is {quoted(details['input'])}", str(context.get("expected"))
        case "too_long" | "too_short":
            side = "at most" if "max_length" in context else "at least"
            bound = context.get("max_length", context.get("min_length"))
            return f"it has {context.get('actual_length')} entries", f"{side} {bound} entries"
        case _ if kind in _EXPECTED_BY_ERROR:
            return f"it is {quoted(details['input'])}", _EXPECTED_BY_ERROR[kind]
        case _:
            return details["msg"], "valid JSON of the format"


def placed(error: InputError, place: str) -> InputError:
    """Return the error with the value's place in the file in front of the error's place."""
    error.place = f"{place} ({error.place})" if error.place else place
    return error


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """Raise any InputError of the block with the place of the value in the file."""
    try:
        yield
    except InputError as error:
        raise placed(error, place) from None


def as_utf8(text: str | bytes, file_format: Format, file: str) -> bytes:
    """Return the text as UTF-8 bytes; raises the format's error."""
    try:
        encoded = text.encode() if isinstance(text, str) else text
        encoded.decode()
    except UnicodeError as error:
        place = f"position {error.start}" if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else None
        raise file_format.error("it is not UTF-8", file=file, place=place, expected="UTF-8 text") from None
    return encoded


@dataclass(frozen=True, slots=True)
class _Refused:
    """Marks a value in the loaded JSON that JSON allows and no format does."""

    what: str
    expected: str


@dataclass(slots=True)
class _Hooks:
    """Callbacks of json.loads that put a _Refused in place of values that Python accepts leniently."""

    has_refused: bool = False

    def constant(self, text: str) -> _Refused:
        return self._refuse(f"it is {text}", "a finite number")

    def integer(self, text: str) -> int | _Refused:
        if len(text) > 20 or not -LARGEST_INTEGER <= int(text) <= LARGEST_INTEGER:
            return self._refuse("the integer is too large", "at most 2^63-1")
        return int(text)

    def real(self, text: str) -> float | _Refused:
        value = float(text)
        return value if isfinite(value) else self._refuse("the number is too large", "a finite number")

    def members(self, pairs: list[tuple[str, object]]) -> dict[str, object] | _Refused:
        value = dict(pairs)
        if len(value) < len(pairs):
            ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
            return self._refuse(f"the field {quoted(twice)} stands twice", "each field once")
        return value

    def _refuse(self, what: str, expected: str) -> _Refused:
        self.has_refused = True
        return _Refused(what, expected)


def ensure_few_values(encoded: bytes, file_format: Format, file: str) -> None:
    """Raise the format's error for too many values, before Python makes any."""
    containers = encoded.count(b"{") + encoded.count(b"[")
    for count, what, most in (
        (containers, "objects and lists", GREATEST_CONTAINERS),
        (containers + encoded.count(b","), "values", GREATEST_VALUES),
    ):
        if count > most:
            raise file_format.error(f"it has {count} {what}", file=file, expected=f"at most {most}")


def _load(encoded: bytes, file_format: Format, file: str) -> object:
    """Return the JSON as Python objects; raises for text that is malformed or refused in every format.

    Numbers are checked one by one only if some may be too large.
    """
    has_large = _MAY_BE_TOO_LARGE.search(encoded) is not None
    hooks = _Hooks()
    try:
        value = json.loads(
            encoded.decode(),
            parse_constant=hooks.constant,
            parse_int=hooks.integer if has_large else None,
            parse_float=hooks.real if has_large else None,
            object_pairs_hook=hooks.members,
        )
    except json.JSONDecodeError as error:
        named = _FORMAT_IN_YAML.search(encoded)
        if named is not None and (other := named.group(1).decode()) != file_format.name:
            raise file_format.error(f"it is {quoted(other)}", "format", quoted(file_format.name), file=file) from None
        place = f"line {error.lineno} column {error.colno}"
        raise file_format.error(f"malformed JSON: {error.msg}", file=file, place=place, expected="JSON") from None
    except RecursionError:
        what = "it is nested too deeply"
        raise file_format.error(what, file=file, place="the whole file", expected="the format's few levels") from None
    if hooks.has_refused:
        location, first = next(_refused_values(value))
        raise file_format.error(first.what, file=file, place=field_path(location), expected=first.expected)
    return value


def _refused_values(value: object) -> Iterator[tuple[Location, _Refused]]:
    """Yield the refused values with their places, in reading order (iteratively: the nesting may be deep)."""
    pending: list[tuple[Location, object]] = [((), value)]
    while pending:
        location, here = pending.pop()
        if isinstance(here, _Refused):
            yield location, here
        children: Iterable[tuple[int | str, object]] = ()
        if isinstance(here, dict):
            children = here.items()
        elif isinstance(here, list):
            children = enumerate(here)
        pending.extend(reversed([((*location, key), child) for key, child in children]))


def check_format(value: object, file_format: Format, file: str) -> None:
    """Raise the format's error for another format or version, before the other fields are read."""
    if not isinstance(value, dict):
        raise file_format.error(f"it is {quoted(value)}", file=file, place="the whole file", expected="an object")
    if value.get("format") != file_format.name:
        what = f"it is {quoted(value['format'])}" if "format" in value else "the field is missing"
        raise file_format.error(what, file=file, place="format", expected=quoted(file_format.name))
    version = value.get("version")
    if type(version) is not int or version != file_format.version:
        what = f"it is {quoted(version)}" if "version" in value else "the field is missing"
        is_newer = type(version) is int and version > file_format.version
        what = f"{what}, newer than this onchip reads" if is_newer else what
        raise file_format.error(what, file=file, place="version", expected=str(file_format.version))
