"""One dimension of a nest whose loops end short: where its tiles begin, and over what they reach."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TypeAlias

from onchip.ir.layer import Axis
from onchip.model.layer.tiles import Digit

Digits: TypeAlias = tuple[Digit, ...]
Interval: TypeAlias = tuple[int, int]  # the first position and the last


@dataclass(frozen=True, slots=True)
class Side:
    """Tiles along one dimension: where they begin, and which loops they span, have joined to them, or apart."""

    bound: int
    places: tuple[int, ...]
    within: Digits
    joined: Digits
    apart: Digits

    def starts(self) -> Iterator[int]:
        """Yield where each tile begins, at each instance."""
        own = _sums(self.apart)
        return (place + beside for place in self.places for beside in own)

    def intervals(self) -> Counter[tuple[Interval, ...]]:
        """From the first index to the last of what counts once together; how often there are the same."""
        inner, beside = sorted(_sums(self.within)), _sums(self.joined)
        found = Counter[tuple[Interval, ...]]()
        for start in self.starts():
            first = [start + one for one in beside if start + one < self.bound]
            found[tuple((one, one + inner[bisect_left(inner, self.bound - one) - 1]) for one in first)] += 1
        return found


@lru_cache(maxsize=1 << 12)
def lengths(side: Side, *, is_relevant: bool) -> Counter[int]:
    """How many indices tiles have; of a dimension that does not matter, whether any."""
    inner = sorted(_sums(side.within + side.joined))
    found = Counter(bisect_left(inner, side.bound - start) for start in side.starts())
    del found[0]
    return found if is_relevant else Counter({1: found.total()})


@lru_cache(maxsize=1 << 12)
def blocks(axis: Axis, outputs: Side, filters: Side) -> Counter[int]:
    """How many stored positions of an axis tiles reach over."""
    found: Counter[int] = Counter()
    for (rows, often), (taps, times) in product(outputs.intervals().items(), filters.intervals().items()):
        reached, covered = 0, 0
        spans = (
            (row[0] * axis.stride + tap[0] * axis.dilation, row[1] * axis.stride + tap[1] * axis.dilation)
            for row, tap in product(rows, taps)
        )
        for first, last in sorted(spans):
            start, stop = max(first - axis.padding, reached), min(last - axis.padding + 1, axis.size)
            covered += max(stop - start, 0)
            reached = max(reached, stop)
        if covered:
            found[covered] += often * times
    return found


@lru_cache(maxsize=1 << 12)
def places_of(digits: Digits, bound: int) -> tuple[int, ...]:
    """Return where these digits lead below the bound."""
    return tuple(place for place in _sums(digits) if place < bound)


def _sums(digits: Digits) -> list[int]:
    found = [0]
    for size, step in digits:
        found = [one + other for one in found for other in range(0, size * step, step)]
    return found
