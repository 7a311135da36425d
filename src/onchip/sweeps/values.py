"""Values of a parameter: a list, or a range in steps or doubling, of sizes or of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

from onchip.errors import InputError, UsageError
from onchip.formats.sizes import parse_size

Scalar: TypeAlias = "int | float | str | bool"
ValueT = TypeVar("ValueT")

GREATEST_VALUES: Final = 100_000
RANGE: Final = ".."
DEFAULT_STEPS: Final = 20


def number_of(value: Scalar) -> int | float:
    """Return the number, or the bytes of a size; raises UsageError for any other text."""
    if isinstance(value, bool):
        raise UsageError(f"it is {str(value).lower()}", expected="a number or a size")
    if not isinstance(value, str):
        return value
    text = value.strip()
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return parse_size(text)
    except UsageError:
        return _real(text, value)


def _real(text: str, value: str) -> float:
    try:
        return float(text) if text.replace(".", "", 1).isdecimal() else _no_number(value)
    except ValueError:
        return _no_number(value)


def _no_number(value: str) -> float:
    raise UsageError(f"{value[:40]!r} is neither a number nor a size", expected="such as 64, 0.5 or 512KiB")


def is_size(value: Scalar) -> bool:
    """Return True if a value is written with a unit of bytes."""
    return isinstance(value, str) and value.strip()[-1:] == "B"


def range_of_text(text: str) -> tuple[str, str] | None:
    """Return the two ends of `256KiB..8MiB`; None for a text that is no range."""
    first, dots, last = text.partition(RANGE)
    return (first.strip(), last.strip()) if dots and first.strip() and last.strip() else None


def stepped(first: Scalar, last: Scalar, steps: int, unit: int = 1) -> tuple[int | float, ...]:
    """Return `steps` evenly spaced values from first to last, integers rounded down to multiples of `unit`.

    The ends are not rounded. Raises UsageError for an empty range, and for an invalid number of steps.
    """
    ends = _ends(first, last)
    if not 1 <= steps <= GREATEST_VALUES:
        raise UsageError(f"there are {steps} steps", expected=f"1 to {GREATEST_VALUES}")
    if steps == 1 and ends[0] != ends[1]:
        raise UsageError("one step is one value, and the range has two ends", expected="at least 2 steps")
    low, high = map(Fraction, ends)
    are_whole = all(isinstance(end, int) for end in ends)
    values: list[int | float] = [ends[0]]
    for at in range(1, steps - 1):
        exact = low + (high - low) * at / (steps - 1)
        values.append(int(exact) // unit * unit if are_whole else float(exact))
    return tuple(sorted({one for one in (*values, ends[1]) if ends[0] <= one <= ends[1]}))


def doubling(first: Scalar, last: Scalar) -> tuple[int | float, ...]:
    """Return first, twice first, and so on, up to last; raises UsageError for an empty range, or one from 0 on."""
    low, high = _ends(first, last)
    if low <= 0:
        raise UsageError("what is doubled is not above 0", expected="a range that begins above 0")
    values = [low]
    while values[-1] * 2 <= high:
        values.append(values[-1] * 2)
        if len(values) > GREATEST_VALUES:
            raise UsageError("the range has too many values", expected=f"at most {GREATEST_VALUES}")
    return tuple(values)


def _ends(first: Scalar, last: Scalar) -> tuple[int | float, int | float]:
    low, high = number_of(first), number_of(last)
    if low > high:
        raise UsageError(
            f"the range from {first} to {last} is empty", expected="a first value that is not above the last"
        )
    return low, high


def distinct(values: Sequence[ValueT]) -> tuple[ValueT, ...]:
    """Return the values, each once, in the order given; raises InputError for none or too many."""
    found = tuple(dict.fromkeys(values))
    if not 1 <= len(found) <= GREATEST_VALUES:
        raise InputError(f"it has {len(found)} values", expected=f"1 to {GREATEST_VALUES}")
    return found
