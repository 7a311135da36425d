"""A region of a tensor: a half-open range of each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
Region: TypeAlias = tuple[Range, ...]


def whole_region(shape: Sequence[int]) -> Region:
    """Return the region that covers a whole tensor of that shape."""
    return tuple((0, size) for size in shape)


def size_of(region: Region) -> int:
    """Return the number of elements in a region."""
    return prod(stop - start for start, stop in region)
