"""Until when the bytes of one memory were in use under residencies that have ended."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TypeAlias

Freed: TypeAlias = tuple[int, int, int]
"""Bytes [start, stop), and the cycle at which their last use ended."""


class FreedPlaces:
    """Disjoint ranges of bytes in the order of their addresses; each is looked at once before it is forgotten.

    So a program with n residencies takes n log n steps: whoever writes over a range takes it, and gives one back.
    """

    def __init__(self) -> None:
        self._ranges: list[Freed] = []

    def take(self, start: int, stop: int) -> int:
        """The last cycle in which bytes of [start, stop) were in use, 0 for none; they are forgotten."""
        first = bisect_right(self._ranges, (start,))
        if first and self._ranges[first - 1][1] > start:
            first -= 1
        last, latest = first, 0
        rests: list[Freed] = []
        while last < len(self._ranges) and self._ranges[last][0] < stop:
            begin, end, cycle = self._ranges[last]
            latest = max(latest, cycle)
            rests += [rest for rest in ((begin, start, cycle), (stop, end, cycle)) if rest[0] < rest[1]]
            last += 1
        self._ranges[first:last] = rests
        return latest

    def give_back(self, start: int, stop: int, cycle: int) -> None:
        """Bytes [start, stop), which were taken before, are free from the cycle on."""
        insort(self._ranges, (start, stop, cycle))
