"""Buffers with live ranges, their offsets, and static placements of tensors."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.errors import InputError


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of `size_bytes`, live over the half-open range of steps [start, stop).

    `offset_bytes` is its fixed offset, or None. Raises InputError for invalid values.
    """

    start: int
    stop: int
    size_bytes: int
    offset_bytes: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise InputError(f"a buffer lives over [{self.start}, {self.stop})", expected="0 <= start < stop")
        if self.size_bytes <= 0:
            raise InputError(f"a buffer has {self.size_bytes} bytes", expected="at least 1")
        if self.offset_bytes is not None and self.offset_bytes < 0:
            raise InputError(f"a buffer is fixed at {self.offset_bytes}", expected="at least 0")

    def overlaps(self, other: Buffer) -> bool:
        """Return True if both buffers are live in some step."""
        return self.start < other.stop and other.start < self.stop


@dataclass(frozen=True, slots=True)
class PackingProblem:
    """The problem of assigning each buffer an aligned offset so that no live buffers overlap in memory.

    A buffer with a fixed offset keeps it.
    """

    buffers: tuple[Buffer, ...]
    capacity_bytes: int
    alignment_bytes: int = 1

    @property
    def has_fixed(self) -> bool:
        """Return True if some buffer has a fixed offset."""
        return any(buffer.offset_bytes is not None for buffer in self.buffers)

    @property
    def roomy_bytes(self) -> int:
        """Return a capacity that suffices unless fixed buffers overlap: all others above the highest fixed one."""
        highest, free = 0, 0
        for buffer in self.buffers:
            if buffer.offset_bytes is None:
                free += self.aligned(buffer.size_bytes)
            else:
                highest = max(highest, self.aligned(buffer.offset_bytes + buffer.size_bytes))
        return highest + free

    def aligned(self, size_bytes: int) -> int:
        """Return the size, rounded up to the alignment."""
        return -(-size_bytes // self.alignment_bytes) * self.alignment_bytes

    @property
    def steps(self) -> range:
        """Return all steps in which a buffer may be live, from 0."""
        return range(max((buffer.stop for buffer in self.buffers), default=0))


@dataclass(frozen=True, slots=True)
class Packing:
    """A solution of a packing problem; `offsets_bytes[i]` belongs to the problem's `buffers[i]`."""

    offsets_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Overflow:
    """A partition of the buffers: some stay within the capacity for their whole live range, the others outside it.

    `offsets_bytes[i]` belongs to the problem's `buffers[i]`; None means that the buffer is outside.
    """

    offsets_bytes: tuple[int | None, ...]

    @property
    def outside(self) -> tuple[int, ...]:
        """Return the indices of the buffers outside the capacity."""
        return tuple(index for index, offset in enumerate(self.offsets_bytes) if offset is None)

    @property
    def kept(self) -> tuple[int, ...]:
        """Return the indices of the buffers that have an offset."""
        return tuple(index for index, offset in enumerate(self.offsets_bytes) if offset is not None)


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
