"""Until when the bytes of one memory are in use, as a clock goes through a program."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field


@dataclass(slots=True)
class UsedBytes:
    """When what used the bytes of one memory has ended: the cycle `until` holds from its start to the next start."""

    starts: list[int] = field(default_factory=lambda: [0])
    until: list[int] = field(default_factory=lambda: [0])

    def latest(self, start: int, stop: int) -> int:
        """The last cycle in which any of the bytes is in use."""
        first = bisect_right(self.starts, start) - 1
        return max(self.until[first : bisect_left(self.starts, stop)])

    def use(self, start: int, stop: int, cycle: int) -> None:
        """All of the bytes are in use until the cycle, which is none before those known."""
        self._begin_at(stop)
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, stop)
        self.starts[first:last] = [start]
        self.until[first:last] = [cycle]

    def _begin_at(self, address: int) -> None:
        place = bisect_left(self.starts, address)
        if place == len(self.starts) or self.starts[place] != address:
            self.starts.insert(place, address)
            self.until.insert(place, self.until[place - 1])
