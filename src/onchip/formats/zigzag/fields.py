"""The YAML of ZigZag as values of given shapes."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from typing import Final, TypeVar

from onchip.errors import InputError
from onchip.formats.validation import Format, validate
from onchip.formats.yaml_documents import Dialect, yaml_parts

ZIGZAG: Final = Dialect(repeated_fields=True)
ShapeT = TypeVar("ShapeT", bound=Hashable)


def read_fields(shape: type[ShapeT], file_format: Format, text: str | bytes, file: str) -> Iterator[ShapeT]:
    """The entries of a list, or the one that stands alone; raises the format's error with field and line.

    Of a field that stands twice the last value counts, as ZigZag reads it.
    """
    for entry in yaml_parts(text, file_format, file, "", ZIGZAG):
        try:
            yield validate(shape, json.dumps(entry.value).encode(), file_format, file)
        except InputError as error:
            error.place = entry.place(error.place or "")
            raise
