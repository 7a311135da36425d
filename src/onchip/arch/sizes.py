"""Sizes with units: `64KiB`, `1.5MB`, `1048576`."""

from __future__ import annotations

from fractions import Fraction
from re import fullmatch
from typing import Final

from onchip.errors import UsageError

_BYTES_PER_UNIT: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_LARGEST_SIZE: Final = 2**63 - 1

GREATEST_TOTAL_BYTES: Final = 2**50
"""Largest sum of all tensors or buffers, so that sums of sizes and addresses fit 63 bits."""


def parse_size(text: str) -> int:
    """Return the bytes that `text` states: a number and a unit, B if absent. KiB is 1024, KB 1000.

    Raises UsageError unless it is a positive whole number of bytes.
    """
    match = fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?([KMG]i?B|B|)", text.strip())
    expected = "a size such as 512KiB, 1.5MB or 1048576"
    if match is None:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise UsageError(f"{shown!r} is not a size", expected=expected)
    size = Fraction(match[1]) * _BYTES_PER_UNIT[match[2]]
    if size.denominator != 1:
        raise UsageError(f"{text!r} is not a whole number of bytes", expected=expected)
    if not 0 < size <= _LARGEST_SIZE:
        raise UsageError(f"{text!r} is out of range", expected="at least 1 byte and at most 2^63-1")
    return int(size)


def bytes_of(size: int | str, place: str) -> int:
    """Return a size in bytes; raises UsageError at `place` for a text that is not a size."""
    if isinstance(size, int):
        return size
    try:
        return parse_size(size)
    except UsageError as error:
        error.place = place
        raise


def format_size(size_bytes: int) -> str:
    """Return the shortest exact text of a size in binary units: `64KiB`, `1500B`."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes % _BYTES_PER_UNIT[unit] == 0:
            return f"{size_bytes // _BYTES_PER_UNIT[unit]}{unit}"
    return f"{size_bytes}B"
