"""Addresses of states that stay in a scratchpad for life: all else lies between them as if they were not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from onchip.arch.memory import Memory


@dataclass(frozen=True, slots=True)
class StateLayout:
    """States from address 0 on, one of them perhaps behind all else; the rest has `[start_bytes, stop_bytes)`.

    What stays for life splits a scratchpad into parts that nothing crosses, so that these may as well lie together.
    `offsets_bytes` are by the names of the old tensors.
    """

    offsets_bytes: Mapping[str, int]
    start_bytes: int
    stop_bytes: int

    @classmethod
    def of(cls, sizes_bytes: Mapping[str, int], memory: Memory) -> Self:
        """Leave the rest as much as possible: what ends short may end where the scratchpad does."""
        alignment = memory.alignment_bytes
        most_beyond = memory.capacity_bytes % alignment
        top = next((name for name, size in sizes_bytes.items() if (size - 1) % alignment < most_beyond), None)
        if top is None:
            return cls._stacked(sizes_bytes, None, alignment, memory.capacity_bytes)
        stop = (memory.capacity_bytes - sizes_bytes[top]) // alignment * alignment
        return cls._stacked(sizes_bytes, top, alignment, stop)

    @classmethod
    def of_least_arena(cls, sizes_bytes: Mapping[str, int], alignment_bytes: int, rest_bytes: int) -> Self:
        """Lay out states around a rest of so many bytes so that the highest address is least."""
        below = cls._stacked(sizes_bytes, None, alignment_bytes, 0)
        padding = {name: -size % alignment_bytes for name, size in sizes_bytes.items()}
        top = max(padding, key=padding.__getitem__, default=None)
        if top is None or padding[top] <= -rest_bytes % alignment_bytes:
            return cls(below.offsets_bytes, below.start_bytes, below.start_bytes + rest_bytes)
        start = below.start_bytes - sizes_bytes[top] - padding[top]
        return cls._stacked(sizes_bytes, top, alignment_bytes, start + _up(rest_bytes, alignment_bytes))

    @classmethod
    def _stacked(cls, sizes_bytes: Mapping[str, int], top: str | None, alignment: int, stop_bytes: int) -> Self:
        offsets, start = {}, 0
        for name, size in sizes_bytes.items():
            offsets[name] = stop_bytes if name == top else start
            start += 0 if name == top else _up(size, alignment)
        return cls(offsets, start, stop_bytes)

    @property
    def rest_bytes(self) -> int:
        """How many bytes are left for all else; negative where the states alone have too many."""
        return self.stop_bytes - self.start_bytes

    def arena_bytes(self, sizes_bytes: Mapping[str, int]) -> int:
        """Return the highest end of a state, or of the rest."""
        ends = (offset + sizes_bytes[name] for name, offset in self.offsets_bytes.items())
        return max(self.stop_bytes, *ends) if self.offsets_bytes else self.stop_bytes


def _up(size_bytes: int, alignment_bytes: int) -> int:
    return -(-size_bytes // alignment_bytes) * alignment_bytes
