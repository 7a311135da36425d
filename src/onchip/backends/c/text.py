"""Text of C, CUDA and OpenCL: identifiers, strings, comments, numbers and rows of arrays."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from importlib.resources import files
from itertools import chain, count
from math import isinf, isnan
from string import Template
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.errors import PlanError

GREATEST_C_NUMBER = 2**64 - 1
_GREATEST_SHORT_NUMBER = 2**32 - 1
_LONGEST_STRING_BYTES = 4095
"""Limit that every C99 compiler supports (5.2.4.1)."""


def identifier(name: str) -> str:
    """Return the name with `_` for all characters but ASCII letters and digits."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def unique_identifiers(prefix: str, names: Iterable[str]) -> list[str]:
    """Return an identifier for each name, in upper case behind the prefix; duplicates are numbered from 2."""
    found: dict[str, None] = {}
    for name in names:
        found[unused_name(f"{prefix}{identifier(name).upper()}", found)] = None
    return list(found)


def unused_name(wanted: str, used: Container[str]) -> str:
    """Return the name, with the lowest number from 2 on that makes it an unused one if it is used."""
    numbered = (f"{wanted}_{number}" for number in count(2))
    return next(name for name in chain((wanted,), numbered) if name not in used)


def template(name: str, **values: object) -> str:
    """Return the text of a template of this package with these values."""
    text = files("onchip.backends.c").joinpath("templates", f"{name}.template").read_text(encoding="utf-8")
    return Template(text).substitute(values)


def string(text: str) -> str:
    """Return a string literal with octal escapes outside ASCII and without trigraphs; raises PlanError if too long."""
    encoded = text.encode(errors="surrogatepass")
    if len(encoded) >= _LONGEST_STRING_BYTES:
        raise PlanError(f"a name has {len(encoded)} bytes", place=text[:20], expected="names that fit a C string")
    return f'"{"".join(_character(byte) for byte in encoded)}"'


def comment(text: str) -> str:
    """Return text that can stand in a `/* */` comment without ending it, opening another or leaving its line.

    Every name from a file that a backend writes into a comment passes through here. It also breaks up trigraphs.
    """
    shown = "".join(letter if letter.isprintable() and letter != "\\" else "_" for letter in text)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", shown)


def _character(byte: int) -> str:
    character = chr(byte)
    if character in '"\\?':
        return f"\\{character}"
    return character if " " <= character <= "~" else f"\\{byte:03o}"


def number(value: int, what: str) -> str:
    """Return an unsigned literal; raises PlanError for a value of more than 64 bits."""
    if value > GREATEST_C_NUMBER:
        raise PlanError(f"{what} is {value}", expected=f"at most {GREATEST_C_NUMBER}, to be written in C")
    return f"{value}u" if value <= _GREATEST_SHORT_NUMBER else f"{value}ull"


def fits_in_32_bits(values: Iterable[int]) -> bool:
    """Return True if all values fit in 32 bits."""
    return all(value <= _GREATEST_SHORT_NUMBER for value in values)


_A_LINE: Final = 16
_LEAST_32, _LEAST_64 = -(2**31), -(2**63)


def integer(value: int) -> str:
    """Return an integer literal; the least of a type is a difference, as C has no negative literals."""
    if value in (_LEAST_32, _LEAST_64):
        return f"({integer(value + 1)} - 1)"
    return str(value) if _LEAST_32 < value < -_LEAST_32 else f"{value}ll" if value < 2**63 else f"{value}ull"


def real(value: float) -> str:
    """Return the literal of a float that reads back as the same one."""
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    digits = f"{value:.9g}"
    return f"{digits}f" if {".", "e"} & set(digits) else f"{digits}.0f"


def rows(values: npt.NDArray[Any]) -> Iterator[str]:
    """Yield the lines between an array's braces."""
    flat = values.reshape(-1)
    if flat.dtype == np.float16:
        flat = flat.view(np.uint16)
    if flat.dtype == np.float32:
        numbers = list(map(real, flat.tolist()))
    elif flat.dtype == np.float64:
        numbers = list(map(repr, flat.tolist()))
    else:
        numbers = list(map(integer, flat.astype(object if flat.dtype == np.uint64 else np.int64).tolist()))
    for at in range(0, len(numbers), _A_LINE):
        yield f"    {', '.join(numbers[at : at + _A_LINE])},"
