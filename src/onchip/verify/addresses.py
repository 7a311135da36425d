"""Residencies, and the addresses in use of one memory: ranges that share no byte, in the order of their addresses."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field


@dataclass(slots=True)
class LiveResidency:
    """Addresses [start, stop) of one scratchpad since `start_step`; `is_written` once the tensor's bytes are there.

    `lent_bytes` of them are an output's, too, and counted there.
    """

    start_bytes: int
    stop_bytes: int
    start_step: int
    is_written: bool = False
    lent_bytes: int = 0

    @property
    def counted_bytes(self) -> int:
        """How many bytes it takes beside all others."""
        return self.stop_bytes - self.start_bytes - self.lent_bytes

    def __str__(self) -> str:
        return f"[{self.start_bytes}, {self.stop_bytes})"


@dataclass(slots=True)
class Addresses:
    """`starts` are sorted; `stops` and `names` belong to them. A range that overlaps another is not taken in."""

    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def take(self, name: str, start: int, stop: int) -> list[str]:
        """The half-open range is in use from now on, unless others overlap it: their names are returned."""
        place = bisect_left(self.starts, start)
        begins_before = place > 0 and self.stops[place - 1] > start
        overlapped = self.names[place - begins_before : bisect_left(self.starts, stop)]
        if not overlapped:
            self.starts.insert(place, start)
            self.stops.insert(place, stop)
            self.names.insert(place, name)
        return overlapped

    def release(self, name: str, start: int, stop: int) -> None:
        """Whatever of the range [start, stop) is of that name is free again."""
        for place in reversed(range(bisect_left(self.starts, start), bisect_left(self.starts, stop))):
            if self.names[place] == name:
                del self.starts[place], self.stops[place], self.names[place]

    def lend(self, name: str, start: int, stop: int) -> int:
        """Of the ranges of that name only what lies outside of [start, stop) stays taken; returns the bytes inside."""
        lent = 0
        for place in reversed(range(max(0, bisect_left(self.starts, start) - 1), bisect_left(self.starts, stop))):
            begin, end = self.starts[place], self.stops[place]
            if self.names[place] == name and end > start:
                rest = [part for part in ((begin, min(end, start)), (max(begin, stop), end)) if part[0] < part[1]]
                self.starts[place : place + 1] = [part[0] for part in rest]
                self.stops[place : place + 1] = [part[1] for part in rest]
                self.names[place : place + 1] = [name] * len(rest)
                lent += min(end, stop) - max(begin, start)
        return lent
