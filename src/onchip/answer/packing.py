"""Buffers with live ranges, their offsets, and static placements of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import lcm

from onchip.errors import InputError


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer, live over the half-open range of steps [start, stop) except in its gaps.

    Attributes
    ----------
    size_bytes
        Size; the buffer keeps its offset over all of its lifetime.
    offset_bytes
        Fixed offset, or None.
    alignment_bytes
        Divisor of the offset, besides the alignment of the memory.
    gaps
        Half-open ranges of steps within the lifetime in which other buffers may use the bytes, in order.
    memories
        Names of the memories that may hold the buffer, the preferred one first. Empty: any, in the given order.

    """

    start: int
    stop: int
    size_bytes: int
    offset_bytes: int | None = None
    alignment_bytes: int = 1
    gaps: tuple[tuple[int, int], ...] = ()
    memories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise InputError(f"a buffer lives over [{self.start}, {self.stop})", expected="0 <= start < stop")
        if self.size_bytes <= 0:
            raise InputError(f"a buffer has {self.size_bytes} bytes", expected="at least 1")
        if self.offset_bytes is not None and self.offset_bytes < 0:
            raise InputError(f"a buffer is fixed at {self.offset_bytes}", expected="at least 0")
        if self.alignment_bytes < 1:
            raise InputError(f"a buffer is aligned to {self.alignment_bytes} bytes", expected="at least 1")
        if self.gaps:
            self._check_gaps()

    def _check_gaps(self) -> None:
        ends = [self.start, *(step for gap in self.gaps for step in gap), self.stop]
        is_ordered = all(start < stop for start, stop in self.gaps) and ends == sorted(ends)
        if not is_ordered or not self.lives:
            expected = f"ranges in order within [{self.start}, {self.stop}), and not all of it"
            raise InputError(f"a buffer has the gaps {list(self.gaps)}", expected=expected)

    @property
    def lives(self) -> tuple[tuple[int, int], ...]:
        """Return the half-open ranges of steps in which the buffer is live."""
        if not self.gaps:
            return ((self.start, self.stop),)
        starts = (self.start, *(stop for _, stop in self.gaps))
        stops = (*(start for start, _ in self.gaps), self.stop)
        return tuple((start, stop) for start, stop in zip(starts, stops, strict=True) if start < stop)

    def overlaps(self, other: Buffer) -> bool:
        """Return True if both buffers are live in some step."""
        if not self.gaps and not other.gaps:
            return self.start < other.stop and other.start < self.stop
        return any(a < d and c < b for a, b in self.lives for c, d in other.lives)


@dataclass(frozen=True, slots=True)
class PackingProblem:
    """The problem of assigning each buffer an aligned offset so that no live buffers overlap in memory.

    A buffer with a fixed offset keeps it. An offset is a multiple of `alignment_bytes` and of the buffer's alignment.
    """

    buffers: tuple[Buffer, ...]
    capacity_bytes: int
    alignment_bytes: int = 1

    @property
    def has_fixed(self) -> bool:
        """Return True if some buffer has a fixed offset."""
        return any(buffer.offset_bytes is not None for buffer in self.buffers)

    @property
    def is_uniform(self) -> bool:
        """Return True if no buffer has gaps, or an alignment beyond that of the problem."""
        return not any(one.gaps or self.alignment_bytes % one.alignment_bytes for one in self.buffers)

    def alignment_of(self, buffer: Buffer) -> int:
        """Return the least common multiple of both alignments."""
        return lcm(self.alignment_bytes, buffer.alignment_bytes)

    @property
    def roomy_bytes(self) -> int:
        """Return a capacity that suffices unless fixed buffers overlap: all others above the highest fixed one."""
        highest, free = 0, 0
        for buffer in self.buffers:
            alignment = self.alignment_of(buffer)
            if buffer.offset_bytes is None:
                free += self.aligned(buffer.size_bytes) + alignment - self.alignment_bytes
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
    """The problem of assigning each buffer a memory and an offset at the least cost.

    Fixed offsets hold in memories with a capacity.

    Attributes
    ----------
    costs
        By buffer: map from each memory that may hold it, as an index into `memories`, to the cost of a byte there.
    together
        Groups of buffers that must lie in one memory.
    apart
        Groups of buffers of which no two may lie in one memory.

    Raises
    ------
    InputError
        A buffer has no memory, or an index is out of range.

    """

    buffers: tuple[Buffer, ...]
    memories: tuple[StaticMemory, ...]
    costs: tuple[Mapping[int, int], ...]
    together: tuple[tuple[int, ...], ...] = ()
    apart: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if len(self.costs) != len(self.buffers):
            raise InputError(f"{len(self.costs)} costs stand for {len(self.buffers)} buffers", expected="one for each")
        for costs in self.costs:
            for memory, cost in costs.items():
                if not 0 <= memory < len(self.memories):
                    raise InputError(f"there is no memory {memory}", expected=f"one of {len(self.memories)}, from 0")
                if cost < 0:
                    raise InputError(f"a byte in memory {memory} costs {cost}", expected="at least 0")
        has_own = any(one.alignment_bytes > 1 or one.offset_bytes is not None for one in self.buffers)
        if has_own and any(memory.reserved_bytes for memory in self.memories):
            what = "a memory has reserved bytes, and a buffer an alignment or a fixed offset"
            raise InputError(what, expected="one of the two")
        for index in (index for group in (*self.together, *self.apart) for index in group):
            if not 0 <= index < len(self.buffers):
                raise InputError(f"there is no buffer {index}", expected=f"one of {len(self.buffers)}, from 0")

    def cost(self, index: int, memory: int) -> int:
        """Return the cost of a buffer in a memory that may hold it."""
        return self.buffers[index].size_bytes * self.costs[index][memory]


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
