"""Addresses of what is resident, from the top of each memory down: the bottom is left to workspaces."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from onchip.arch.memory import Memory


@dataclass(slots=True)
class AddressSpace:
    """Who lies where in one memory: half-open ranges of bytes, and the gaps between them.

    Gaps are kept by length and begin, by begin and by end; below `free_below` nothing is resident.
    """

    memory: Memory
    free_below: int = field(init=False)
    _taken: dict[str, tuple[int, int]] = field(default_factory=dict)
    _gaps: list[tuple[int, int]] = field(default_factory=list)
    _gap_ends: dict[int, int] = field(default_factory=dict)
    _gap_begins: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free_below = self.memory.capacity_bytes

    @classmethod
    def of(cls, memory: Memory, taken: Mapping[str, tuple[int, int]]) -> AddressSpace:
        """A memory in which tensors have these ranges of bytes."""
        space = cls(memory)
        for name, (begin, end) in sorted(taken.items(), key=lambda one: one[1], reverse=True):
            space._open(end, space.free_below)
            space.free_below = begin
            space._taken[name] = begin, end
        return space

    @property
    def taken(self) -> Mapping[str, tuple[int, int]]:
        """Return the range of bytes of each tensor that is resident."""
        return self._taken

    def take(self, tensor: str, size_bytes: int) -> int | None:
        """The address of the tightest gap between residents, at its upper end; else the highest below them all.

        None where there is no such place.
        """
        for at in range(bisect_left(self._gaps, (size_bytes, -1)), len(self._gaps)):
            length, begin = self._gaps[at]
            offset = self._aligned(begin + length - size_bytes)
            if offset >= begin:
                self._fill(begin)
                self._open(begin, offset)
                self._open(offset + size_bytes, begin + length)
                break
        else:
            offset = self._aligned(self.free_below - size_bytes)
            if offset < 0:
                return None
            self._open(offset + size_bytes, self.free_below)
            self.free_below = offset
        self._taken[tensor] = offset, offset + size_bytes
        return offset

    def give_back(self, tensor: str) -> None:
        """End the residency of a tensor."""
        begin, end = self._taken.pop(tensor)
        if end in self._gap_ends:
            end = self._fill(end)
        if begin in self._gap_begins:
            begin = self._gap_begins[begin]
            self._fill(begin)
        if begin == self.free_below:
            self.free_below = end
        else:
            self._open(begin, end)

    def _aligned(self, offset: int) -> int:
        return offset // self.memory.alignment_bytes * self.memory.alignment_bytes

    def _open(self, begin: int, end: int) -> None:
        if begin < end:
            insort(self._gaps, (end - begin, begin))
            self._gap_ends[begin], self._gap_begins[end] = end, begin

    def _fill(self, begin: int) -> int:
        """Forget a gap; return its end."""
        end = self._gap_ends.pop(begin)
        del self._gap_begins[end]
        del self._gaps[bisect_left(self._gaps, (end - begin, begin))]
        return end
