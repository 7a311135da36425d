"""Residencies, and the addresses in use of one memory: ranges that share no byte, in the order of their addresses."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

Range = tuple[int, int]
"""Addresses [start, stop)."""


@dataclass(slots=True)
class LiveResidency:
    """Addresses [start, stop) of one scratchpad since `start_step`; `is_written` once the tensor's bytes are there.

    `own` are those of them that are not an output's, too.
    """

    start_bytes: int
    stop_bytes: int
    start_step: int
    is_written: bool = False
    own: list[Range] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own = [(self.start_bytes, self.stop_bytes)]

    @property
    def own_bytes(self) -> int:
        """How many bytes it takes beside all others."""
        return sum(stop - start for start, stop in self.own)

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

    def release(self, name: str, start: int) -> None:
        """The range of that name is free again; nothing happens where it has not been taken in."""
        place = bisect_left(self.starts, start)
        if place < len(self.starts) and self.names[place] == name:
            del self.starts[place], self.stops[place], self.names[place]
