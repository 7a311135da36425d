"""What a user says of a file that says it itself: it has to be the same."""

from __future__ import annotations

from collections.abc import Mapping

from onchip.answer.document import Reading
from onchip.errors import UsageError


def ensure_reading_is(reading: Reading, insisted: Mapping[str, object], file: str) -> None:
    """Raise UsageError where a field of `reading`, which the file says, is not what is insisted on."""
    for name, value in insisted.items():
        if value != (said := getattr(reading, name)):
            raise UsageError(f"{value} contradicts the plan", file=file, place=name, expected=f"{said}")
