"""The check of user options against the reading recorded in a file."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.answer.document import Reading
from onchip.errors import UsageError


def ensure_reading_is(reading: Reading, insisted: Mapping[str, object], file: str) -> None:
    """Raise UsageError if a field of `reading`, which comes from the file, differs from the insisted value."""
    for name, value in insisted.items():
        if value != (said := getattr(reading, name)):
            expected = "none: the model's own" if said is None else f"{said}"
            raise UsageError(f"{value} differs from the reading in the file", file=file, place=name, expected=expected)
