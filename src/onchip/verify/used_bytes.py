"""The last use of each byte of one memory, for a clock that passes through a program."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field


@dataclass(slots=True)
class UsedBytes:
    """The last use of each address range: cycle `until[i]` applies from `starts[i]` to the next start."""

    starts: list[int] = field(default_factory=lambda: [0])
    until: list[int] = field(default_factory=lambda: [0])

    def latest(self, start: int, stop: int) -> int:
        """Return the last cycle in which any of the bytes is in use."""
        first = bisect_right(self.starts, start) - 1
        return max(self.until[first : bisect_left(self.starts, stop)])

    def use(self, start: int, stop: int, cycle: int) -> None:
        """Mark all of the bytes as used until `cycle`, which must not precede their recorded last use."""
        self._begin_at(stop)
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, stop)
        self.starts[first:last] = [start]
        self.until[first:last] = [cycle]

    def _begin_at(self, address: int) -> None:
        place = bisect_left(self.starts, address)
        if place == len(self.starts) or self.starts[place] != address:
            self.starts.insert(place, address)
            self.until.insert(place, self.until[place - 1])
