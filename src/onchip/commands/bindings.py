"""Parsers of `--dim`, `--shape`, `--value`, `--state` and `--bands`: a name, `=`, and its value."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Final, TypeVar

from onchip.errors import SuggestedBindings, UsageError

BoundT = TypeVar("BoundT")

GREATEST_RANK: Final = 64
GREATEST_VALUES: Final = 4096
_GREATEST_DIGITS: Final = 18
_TRUTH: Final = {"true": 1, "false": 0}


def dims_of(bindings: Sequence[str] | None) -> dict[str, int]:
    """Return a map from symbol to size; raises UsageError for an invalid size or a symbol with two sizes."""
    return _bound(bindings, "--dim", "NAME=N with N at least 0", _size)


def shapes_of(bindings: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Return a map from network input to shape; raises UsageError for an invalid size or an input with two shapes."""
    return _bound(bindings, "--shape", "INPUT=1x3x224x224 with sizes of at least 0", _shape)


def values_of(bindings: Sequence[str] | None) -> dict[str, tuple[float, ...]]:
    """Return a map from network input to values, integers as such.

    Raises UsageError for an invalid number or two values.
    """
    return _bound(bindings, "--value", "INPUT=N, or INPUT=N,N,...", _numbers)


def states_of(bindings: Sequence[str] | None) -> dict[str, str]:
    """Return a map from network input to the output that is its next value; raises UsageError for an input with two."""
    return _bound(bindings, "--state", "INPUT=OUTPUT", lambda text: text or None)


def bands_of(bindings: Sequence[str] | None) -> dict[str, int]:
    """Return a map from operator to number of tiles; raises UsageError for less than 1, or for two numbers."""
    return _bound(bindings, "--bands", "OPERATOR=N with N at least 1", lambda text: _size(text) or None)


def options_of(bindings: SuggestedBindings) -> str:
    """Return the options that state the bindings, quoted for a shell."""
    dims = [("--dim", f"{symbol}={size}") for symbol, size in bindings.dims.items()]
    shapes = [("--shape", f"{name}={'x'.join(map(str, shape))}") for name, shape in bindings.shapes.items()]
    values = [("--value", f"{name}={','.join(map(str, numbers))}") for name, numbers in bindings.values.items()]
    return shlex.join(word for option in (*dims, *shapes, *values) for word in option)


def _bound(
    bindings: Sequence[str] | None, option: str, expected: str, parse: Callable[[str], BoundT | None]
) -> dict[str, BoundT]:
    found: dict[str, BoundT] = {}
    for binding in bindings or ():
        name, _, text = binding.rpartition("=")
        bound = parse(text) if name else None
        if bound is None:
            raise UsageError(f"{binding!r} binds nothing", place=option, expected=expected)
        if found.setdefault(name, bound) != bound:
            what = f"{name!r} is bound to {found[name]} and {bound}"
            raise UsageError(what, place=option, expected="one value")
    return found


def _size(text: str) -> int | None:
    is_size = text.isascii() and text.isdecimal() and len(text) <= _GREATEST_DIGITS
    return int(text) if is_size else None


def _shape(text: str) -> tuple[int, ...] | None:
    sizes = [_size(size) for size in text.lower().split("x")]
    if not 1 <= len(sizes) <= GREATEST_RANK:
        return None
    known = tuple(size for size in sizes if size is not None)
    return known if len(known) == len(sizes) else None


def _numbers(text: str) -> tuple[float, ...] | None:
    numbers = [_number(number.strip().lower()) for number in text.split(",", GREATEST_VALUES)]
    known = tuple(number for number in numbers if number is not None)
    return known if len(known) == len(numbers) <= GREATEST_VALUES else None


def _number(text: str) -> float | None:
    if text in _TRUTH:
        return _TRUTH[text]
    try:
        return int(text) if len(text) <= _GREATEST_DIGITS + 1 else None
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
