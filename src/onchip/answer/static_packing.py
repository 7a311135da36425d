"""Static packing: buffers with known lives, each to get one place in one of several memories for its whole life."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.packing import Buffer
from onchip.errors import InputError


@dataclass(frozen=True, slots=True)
class StaticMemory:
    """A memory with room for `capacity_bytes`, or for all that is asked of it (None).

    The first `reserved_bytes` are taken for good by something else.
    """

    capacity_bytes: int | None = None
    alignment_bytes: int = 1
    reserved_bytes: int = 0

    @property
    def first_free_byte(self) -> int:
        """The lowest offset at which a buffer may lie."""
        return -(-self.reserved_bytes // self.alignment_bytes) * self.alignment_bytes


@dataclass(frozen=True, slots=True)
class StaticPackingProblem:
    """Give each buffer a memory and an offset there; `pinned[i]` is the memory that `buffers[i]` has to lie in, if any.

    The memories stand fastest first. Those with a capacity are filled; `rest` is the one without that takes what they
    do not keep (None: there is none). Raises InputError where the numbers name no such memory.
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
        """The memories that have a capacity."""
        return tuple(index for index, one in enumerate(self.memories) if one.capacity_bytes is not None)


@dataclass(frozen=True, slots=True)
class StaticPlace:
    """A memory, by its index into the problem's `memories`, and an offset in it."""

    memory: int
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class StaticPacking:
    """`places[i]` belongs to the problem's `buffers[i]`."""

    places: tuple[StaticPlace, ...]

    def within(self, memory: int) -> tuple[int, ...]:
        """The buffers that lie in a memory, as indices into the problem's `buffers`."""
        return tuple(index for index, place in enumerate(self.places) if place.memory == memory)
