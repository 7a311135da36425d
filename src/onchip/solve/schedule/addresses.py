"""Addresses of what is resident, from the top of each memory down: the bottom is left to workspaces."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from onchip.arch.memory import Memory


@dataclass(slots=True)
class AddressSpace:
    """The residencies of one memory: half-open ranges of bytes, in order, and whose they are."""

    memory: Memory
    _ranges: list[tuple[int, int]] = field(default_factory=list)
    _of_tensors: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, tensor: str, size_bytes: int) -> int | None:
        """The address of the tightest gap between residents, at its upper end; else the highest below them all.

        None where there is no such place.
        """
        alignment, above = self.memory.alignment_bytes, self.memory.capacity_bytes
        tightest: tuple[int, int] | None = None
        for start, stop in reversed(self._ranges):
            offset = (above - size_bytes) // alignment * alignment
            if offset >= stop and (tightest is None or above - stop < tightest[0]):
                tightest = above - stop, offset
            above = start
        lowest = (above - size_bytes) // alignment * alignment
        if tightest is None and lowest < 0:
            return None
        offset = lowest if tightest is None else tightest[1]
        self._of_tensors[tensor] = offset, offset + size_bytes
        insort(self._ranges, self._of_tensors[tensor])
        return offset

    def give_back(self, tensor: str) -> None:
        """End the residency of a tensor."""
        del self._ranges[bisect_left(self._ranges, self._of_tensors.pop(tensor))]

    @property
    def free_below(self) -> int:
        """The bytes below all residents."""
        return self._ranges[0][0] if self._ranges else self.memory.capacity_bytes
