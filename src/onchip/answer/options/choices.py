"""Options as dataclass fields with their help text, and conversion of option values to their enumerations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from enum import StrEnum
from math import inf
from types import MappingProxyType
from typing import Any, Final, TypeVar

from onchip.errors import UsageError

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)
GREATEST_BITS: Final = 64
"""Maximum width of an element or of an accumulator."""
GREATEST_ALIGNMENT: Final = 2**30
"""Maximum alignment of an offset in bytes."""
_DESCRIBED: Final = "option"


@dataclass(frozen=True, slots=True)
class Described:
    """The description of an option for the command line and for sweeps.

    `metavar` is the placeholder of its value, `default` the default in words where the value None stands for it. `flag`
    is its name on the command line if it differs; for a truth value that is true by default the flag makes it false.
    `least` and `most` limit a number. `parse` converts text to the value. Sweeps vary it if it `is_swept`.
    """

    help: str
    metavar: str | None = None
    default: str | None = None
    flag: str | None = None
    least: int | None = None
    most: int | None = None
    parse: Callable[[str], object] | None = None
    is_swept: bool = True


def described(
    help_text: str,
    metavar: str | None = None,
    default: str | None = None,
    **more: Any,  # noqa: ANN401 (the types of the fields of Described)
) -> Mapping[str, object]:
    """Return the metadata of a dataclass field that describes an option; `more` are fields of `Described`."""
    return MappingProxyType({_DESCRIBED: Described(help_text, metavar, default, **more)})


def described_options(options: type) -> Iterator[tuple[Field[Any], Described]]:
    """Yield the fields of an options dataclass that have a description."""
    for one in fields(options):
        found = one.metadata.get(_DESCRIBED)
        if found is not None:
            yield one, found


ALIGNMENT: Final = described(
    "Alignment of every offset in bytes.",
    "N",
    "as the memory states, else 1",
    flag="--alignment",
    least=1,
    most=GREATEST_ALIGNMENT,
)
COST: Final = described("Cycle model of operators without a cycle count: mapping, macs or a plug-in.", "NAME")
PARTIAL_BITS: Final = described(
    "Accumulator width in bits.", "N", "16 more than an element, at most 32", least=1, most=GREATEST_BITS
)
CACHE: Final = described("Ignore cached mappings of earlier runs.", flag="--no-cache", is_swept=False)


def percent_of(text: str) -> float:
    """Return the number of a percentage such as `10%` or `10`; raises UsageError for another text."""
    try:
        return float(text.removesuffix("%"))
    except ValueError:
        raise UsageError(f"{text!r} is no percentage", expected="a number such as 10%") from None


MAX_RECOMPUTE: Final = described(
    "Multiply-accumulates that overlapping tiles may recompute, in percent of the network's.",
    "PERCENT",
    "100%",
    parse=percent_of,
    is_swept=False,
)


def ensure_percentage(max_recompute: float) -> None:
    """Raise UsageError unless the number is finite and at least 0."""
    if not 0 <= max_recompute < inf:
        raise UsageError(f"{max_recompute}% is invalid", place="max_recompute", expected="at least 0%")


def choice(kind: type[ChoiceT], value: str, place: str) -> ChoiceT:
    """Return the member of an enumeration with this value; raises UsageError that lists the valid values."""
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{value!r} is invalid", place=place, expected=f"one of {', '.join(kind)}") from None


def as_choices(options: object, **kinds: type[StrEnum]) -> None:
    """Convert the named fields of frozen options to members of their enumerations; None stays None.

    Raises UsageError for an invalid value.
    """
    for name, kind in kinds.items():
        value = getattr(options, name)
        if value is not None and not isinstance(value, kind):
            object.__setattr__(options, name, choice(kind, value, name))
