"""Conversion of option values to their enumerations."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from onchip.errors import UsageError

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


def choice(kind: type[ChoiceT], value: str, place: str) -> ChoiceT:
    """Return the member of an enumeration with this value; raises UsageError that lists the valid values."""
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"it is {value!r}", place=place, expected=f"one of {', '.join(kind)}") from None


def as_choices(options: object, **kinds: type[StrEnum]) -> None:
    """Convert the named fields of frozen options to members of their enumerations; None stays None.

    Raises UsageError for an invalid value.
    """
    for name, kind in kinds.items():
        value = getattr(options, name)
        if value is not None and not isinstance(value, kind):
            object.__setattr__(options, name, choice(kind, value, name))
