"""Sets of small integers as the bits of one integer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LONG_MASK = 1 << 12
"""Length from which masks are read as text and built as bytes, in linear instead of quadratic time."""


def bits(mask: int) -> Iterator[int]:
    """Yield the indices of the set bits, lowest first."""
    if mask.bit_length() > LONG_MASK:
        yield from _bits_of_long(mask)
        return
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def mask_of(indices: Iterable[int]) -> int:
    """Return the mask with these bits set."""
    listed = tuple(indices)
    if max(listed, default=0) > LONG_MASK:
        return _long_mask_of(listed)
    mask = 0
    for index in listed:
        mask |= 1 << index
    return mask


def _bits_of_long(mask: int) -> Iterator[int]:
    text = bin(mask)[:1:-1]
    index = text.find("1")
    while index >= 0:
        yield index
        index = text.find("1", index + 1)


def _long_mask_of(indices: tuple[int, ...]) -> int:
    held = bytearray(max(indices) // 8 + 1)
    for index in indices:
        held[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(held, "little")
