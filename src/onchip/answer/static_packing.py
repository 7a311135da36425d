"""Static packing: buffers with known live ranges, each assigned one address in one of several memories."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.packing import Buffer
from onchip.errors import InputError


@dataclass(frozen=True, slots=True)
class StaticMemory:
    """A memory of `capacity_bytes`, or of unlimited capacity (None).

    The first `reserved_bytes` are permanently reserved.
    """

    capacity_bytes: int | None = None
    alignment_bytes: int = 1
    reserved_bytes: int = 0

    @property
    def first_free_byte(self) -> int:
        """Return the lowest offset available for a buffer."""
        return -(-self.reserved_bytes // self.alignment_bytes) * self.alignment_bytes


@dataclass(frozen=True, slots=True)
class StaticPackingProblem:
    """The problem of assigning each buffer a memory and an offset; `pinned[i]` is the required memory of `buffers[i]`.

    The memories are in order of speed, fastest first. Memories with a capacity are filled; `rest` is the memory without
    a capacity for the remaining buffers (None: there is none). Raises InputError if an index names no such memory.
    """

    buffers: tuple[Buffer, ...]
    memories: tuple[StaticMemory, ...]
    pinned: tuple[int | None, ...]
    rest: int | None

    def __post_init__(self) -> None:
        if len(self.pinned) != len(self.buffers):
            raise InputError(f"{len(self.pinned)} pins stand for {len(self.buffers)} buffers", expected="one for each")
        for memory in (self.rest, *self.pinned):
            if memory is not None and not 0 <= memory < len(self.memories):
                raise InputError(f"there is no memory {memory}", expected=f"one of {len(self.memories)}, from 0")
        if self.rest is not None and self.memories[self.rest].capacity_bytes is not None:
            raise InputError("the memory for what is not kept has a capacity", expected="one without")

    @property
    def filled(self) -> tuple[int, ...]:
        """Return the indices of the memories with a capacity."""
        return tuple(index for index, one in enumerate(self.memories) if one.capacity_bytes is not None)


@dataclass(frozen=True, slots=True)
class StaticPlace:
    """A memory, by its index into the problem's `memories`, and an offset in it."""

    memory: int
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class StaticPacking:
    """A solution of a static packing problem; `places[i]` belongs to the problem's `buffers[i]`."""

    places: tuple[StaticPlace, ...]

    def within(self, memory: int) -> tuple[int, ...]:
        """Return the indices of the buffers assigned to a memory."""
        return tuple(index for index, place in enumerate(self.places) if place.memory == memory)
