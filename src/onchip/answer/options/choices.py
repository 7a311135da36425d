"""Options as dataclass fields with their help text, and conversion of option values to their enumerations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from onchip.errors import UsageError

ValueT = TypeVar("ValueT")
KindT = TypeVar("KindT")
ChoiceT = TypeVar("ChoiceT", bound=StrEnum)
GREATEST_BITS: Final = 64
"""Maximum width of an element or of an accumulator."""
GREATEST_ALIGNMENT: Final = 2**30
"""Maximum alignment of an offset in bytes."""
_DESCRIBED: Final = "option"


@dataclass(frozen=True, slots=True)
class Described:
    """The description of an option for the Python API, the command line and sweeps.

    `metavar` is the placeholder of its value, `default` the default in words where the value None stands for it. `flag`
    is its name on the command line if it differs; for a truth value that is true by default the flag makes it false.
    `least` and `most` limit a number. `parse` converts text to the value. The command has it if it `is_flag`, and
    sweeps vary it if it `is_swept`.
    """

    help: str
    metavar: str | None = None
    default: str | None = None
    flag: str | None = None
    least: float | None = None
    most: float | None = None
    parse: Callable[[str], object] | None = None
    is_flag: bool = True
    is_swept: bool = True


def option(
    value: ValueT,
    help_text: str,
    metavar: str | None = None,
    default: str | None = None,
    **more: Any,  # noqa: ANN401 (the types of the fields of Described)
) -> ValueT:
    """Return a dataclass field with a default value and a description; `more` are fields of `Described`."""
    described = MappingProxyType({_DESCRIBED: Described(help_text, metavar, default, **more)})
    if isinstance(value, Mapping):
        return field(default_factory=lambda: value, metadata=described, hash=False)
    return field(default=value, metadata=described)


def all_described(options: type) -> Iterator[tuple[Field[Any], Described]]:
    """Yield the fields of an options dataclass that have a description."""
    for one in fields(options):
        found = one.metadata.get(_DESCRIBED)
        if found is not None:
            yield one, found


def meaning_of(one: Field[Any], described: Described) -> str:
    """Return the meaning of an option as a field: the flag of one that is true by default makes it false."""
    return f"False: {described.help}" if one.default is True and described.is_flag else described.help


def documented(options: type[KindT]) -> type[KindT]:
    """Add the descriptions of the fields of an options dataclass to its docstring."""
    named = []
    for one, found in all_described(options):
        default = f" By default {found.default}." if found.default else ""
        named.append(f"{one.name}\n    {meaning_of(one, found)}{default}")
    options.__doc__ = "\n".join((options.__doc__ or "", "\nAttributes\n----------", *named, ""))
    return options


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
