"""Text from files as C99, CUDA and OpenCL can hold it: identifiers, strings, comments and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from onchip.errors import PlanError

GREATEST_C_NUMBER = 2**64 - 1
_GREATEST_SHORT_NUMBER = 2**32 - 1
_LONGEST_STRING_BYTES = 4095
"""What every C99 compiler takes (5.2.4.1)."""


def identifier(name: str) -> str:
    """The name with all but ASCII letters and digits as `_`."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def unique_identifiers(prefix: str, names: Iterable[str]) -> list[str]:
    """One identifier for each name, in upper case behind the prefix; equal ones are numbered from 2 on."""
    wanted = [f"{prefix}{identifier(name).upper()}" for name in names]
    found: set[str] = set()
    unique = []
    for name in wanted:
        one, number_of_equals = name, 1
        while one in found:
            number_of_equals += 1
            one = f"{name}_{number_of_equals}"
        found.add(one)
        unique.append(one)
    return unique


def string(text: str) -> str:
    r"""A string literal: what is not plain ASCII is octal, `\?` keeps trigraphs away; raises PlanError if too long."""
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
    """An unsigned literal; raises PlanError for what has more than 64 bits."""
    if value > GREATEST_C_NUMBER:
        raise PlanError(f"{what} is {value}", expected=f"at most {GREATEST_C_NUMBER}, to be written in C")
    return f"{value}u" if value <= _GREATEST_SHORT_NUMBER else f"{value}ull"


def fits_in_32_bits(values: Iterable[int]) -> bool:
    """Whether none of the values needs 64 bits."""
    return all(value <= _GREATEST_SHORT_NUMBER for value in values)
