"""Until when the bytes of one memory were in use under residencies that have ended."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TypeAlias

from onchip.model.timeline.activity import START, Moment

Freed: TypeAlias = tuple[int, int, Moment]
"""Bytes [start, stop), and when their last use ended."""


class FreedPlaces:
    """Disjoint ranges of bytes in the order of their addresses; each is looked at once before it is forgotten.

    So a program with n residencies takes n log n steps: whoever writes over a range takes it, and gives one back.
    """

    def __init__(self) -> None:
        self._ranges: list[Freed] = []

    def take(self, start: int, stop: int) -> Moment:
        """When the last use of bytes of [start, stop) ended, the start for none; they are forgotten."""
        first = bisect_right(self._ranges, (start,))
        if first and self._ranges[first - 1][1] > start:
            first -= 1
        last, latest = first, START
        rests: list[Freed] = []
        while last < len(self._ranges) and self._ranges[last][0] < stop:
            begin, end, moment = self._ranges[last]
            latest = max(latest, moment)
            rests += [rest for rest in ((begin, start, moment), (stop, end, moment)) if rest[0] < rest[1]]
            last += 1
        self._ranges[first:last] = rests
        return latest

    def give_back(self, start: int, stop: int, moment: Moment) -> None:
        """Bytes [start, stop), which were taken before, are free from that moment on."""
        insort(self._ranges, (start, stop, moment))
