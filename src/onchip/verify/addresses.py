"""Live residencies and the occupied address ranges of one memory: disjoint ranges, sorted by address."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

Range = tuple[int, int]
"""Addresses [start, stop)."""


@dataclass(slots=True)
class LiveResidency:
    """A tensor's residency at addresses [start, stop) of one scratchpad, since `start_step`.

    `is_written` is True once the tensor's bytes have been written. `own` lists the address ranges that the tensor does
    not share with an output that overwrites it in place.
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
        """Return the number of bytes that the residency shares with no other residency."""
        return sum(stop - start for start, stop in self.own)

    def __str__(self) -> str:
        return f"[{self.start_bytes}, {self.stop_bytes})"


@dataclass(slots=True)
class Addresses:
    """The occupied address ranges of one memory.

    `starts` is sorted; `stops` and `names` are parallel to it. A range that overlaps an occupied range is not entered.
    """

    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def take(self, name: str, start: int, stop: int) -> list[str]:
        """Occupy the half-open range unless it overlaps occupied ranges.

        Return the names of the ranges that it overlaps.
        """
        place = bisect_left(self.starts, start)
        begins_before = place > 0 and self.stops[place - 1] > start
        overlapped = self.names[place - begins_before : bisect_left(self.starts, stop)]
        if not overlapped:
            self.starts.insert(place, start)
            self.stops.insert(place, stop)
            self.names.insert(place, name)
        return overlapped

    def release(self, name: str, start: int) -> None:
        """Release the range with that name and start; do nothing if it was never entered."""
        place = bisect_left(self.starts, start)
        if place < len(self.starts) and self.names[place] == name:
            del self.starts[place], self.stops[place], self.names[place]
