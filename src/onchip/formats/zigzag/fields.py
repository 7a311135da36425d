"""The YAML of ZigZag as values of given shapes."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import TypeVar

from onchip.errors import InputError
from onchip.formats.validation import Format, as_utf8, validate
from onchip.formats.yaml_nodes import parse_yaml

ShapeT = TypeVar("ShapeT", bound=Hashable)


def read_fields(shape: type[ShapeT], file_format: Format, text: str | bytes, file: str) -> list[ShapeT]:
    """The entries of a list, or the one that stands alone; raises the format's error with field and line.

    Of a field that stands twice the last value counts, as ZigZag reads it.
    """
    decoded = as_utf8(text, file_format, file).decode()
    document = parse_yaml(decoded, file_format, file, last_field_counts=True)
    entries = document.value if isinstance(document.value, list) else [document.value]
    found = []
    for number, entry in enumerate(entries):
        try:
            found.append(validate(shape, json.dumps(entry).encode(), file_format, file))
        except InputError as error:
            path = error.place or ""
            error.place = document.place(f"[{number}].{path}" if isinstance(document.value, list) else path)
            raise
    return found
