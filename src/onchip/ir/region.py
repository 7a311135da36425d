"""A part of a tensor: a half-open range of each of its dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
Region: TypeAlias = tuple[Range, ...]


def whole_region(shape: Sequence[int]) -> Region:
    """Return the region that is all of a tensor of that shape."""
    return tuple((0, size) for size in shape)


def size_of(region: Region) -> int:
    """Return how many elements are in a region."""
    return prod(stop - start for start, stop in region)
