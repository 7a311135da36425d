"""Packing: buffers with known lives, each to get an offset."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.errors import InputError


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size_bytes` wanted over the half-open range of steps [start, stop).

    `offset_bytes` is its fixed place, None if it may lie anywhere.
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
        """Whether both live in some step."""
        return self.start < other.stop and other.start < self.stop


@dataclass(frozen=True, slots=True)
class PackingProblem:
    """Give each buffer an offset, a multiple of the alignment, so that none overlap in memory.

    A buffer with a fixed offset keeps it.
    """

    buffers: tuple[Buffer, ...]
    capacity_bytes: int
    alignment_bytes: int = 1

    @property
    def has_fixed(self) -> bool:
        """True if some buffer has a fixed offset."""
        return any(buffer.offset_bytes is not None for buffer in self.buffers)

    @property
    def roomy_bytes(self) -> int:
        """Capacity that is always enough, unless fixed buffers overlap: all others above the highest fixed one."""
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
        """All steps in which a buffer may live, from 0."""
        return range(max((buffer.stop for buffer in self.buffers), default=0))


@dataclass(frozen=True, slots=True)
class Packing:
    """`offsets_bytes[i]` belongs to the problem's `buffers[i]`."""

    offsets_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Overflow:
    """Some buffers lie within the capacity for their whole life, the others outside it for theirs.

    `offsets_bytes[i]` belongs to the problem's `buffers[i]`; None says that it is outside.
    """

    offsets_bytes: tuple[int | None, ...]

    @property
    def outside(self) -> tuple[int, ...]:
        """The buffers that are outside, as indices into the problem's `buffers`."""
        return tuple(index for index, offset in enumerate(self.offsets_bytes) if offset is None)

    @property
    def kept(self) -> tuple[int, ...]:
        """The buffers that have an offset, by number."""
        return tuple(index for index, offset in enumerate(self.offsets_bytes) if offset is not None)
