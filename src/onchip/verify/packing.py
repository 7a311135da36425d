"""Is a packing legal? Every buffer is held against every other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem

Placed: TypeAlias = tuple[int, Buffer, int]  # which buffer, the buffer, its offset


class PackingRule(StrEnum):
    """The name of each way in which a packing can be wrong."""

    OFFSETS_MISCOUNTED = "offsets-miscounted"  # there is not one offset for each buffer
    NEGATIVE_OFFSET = "negative-offset"  # a buffer starts below address 0
    MISALIGNED = "misaligned"  # its offset is no multiple of the alignment
    BEYOND_CAPACITY = "beyond-capacity"  # it ends above the capacity
    OVERLAP = "overlap"  # it shares bytes and a step with another buffer
    ARENA_MISCOUNTED = "arena-miscounted"  # the arena said is not the highest end of a buffer
    OUTSIDE_MISCOUNTED = "outside-miscounted"  # the bytes said to be outside are not the sum of the sizes there


@dataclass(frozen=True, slots=True)
class PackingViolation:
    """One rule broken by one buffer, an index into the problem's `buffers` (None: by all together)."""

    rule: PackingRule
    detail: str
    buffer: int | None = None

    def __str__(self) -> str:
        where = "" if self.buffer is None else f"buffer {self.buffer}: "
        return f"{self.rule}: {where}{self.detail}"


def verify_packing(
    problem: PackingProblem, packing: Packing, arena_bytes: int | None = None
) -> tuple[PackingViolation, ...]:
    """Return all that is wrong; a packing is legal exactly when that is nothing.

    `arena_bytes` is the arena that is claimed, None where none is.
    """
    violations = tuple(_violations(problem, packing.offsets_bytes))
    if arena_bytes is None or len(packing.offsets_bytes) != len(problem.buffers):
        return violations
    highest = 0
    for buffer, offset in zip(problem.buffers, packing.offsets_bytes, strict=True):
        highest = max(highest, offset + buffer.size_bytes)
    if highest != arena_bytes:
        detail = f"the arena is said to be {arena_bytes} bytes, it is {highest}"
        return (*violations, PackingViolation(PackingRule.ARENA_MISCOUNTED, detail))
    return violations


def verify_overflow(problem: PackingProblem, overflow: Overflow, outside_bytes: int) -> tuple[PackingViolation, ...]:
    """Return all that is wrong with what is kept, and with the count of bytes that are not."""
    violations = tuple(_violations(problem, overflow.offsets_bytes))
    if len(overflow.offsets_bytes) != len(problem.buffers):
        return violations
    counted = 0
    for buffer, offset in zip(problem.buffers, overflow.offsets_bytes, strict=True):
        if offset is None:
            counted += buffer.size_bytes
    if counted != outside_bytes:
        detail = f"{outside_bytes} bytes are said to be outside, {counted} are"
        return (*violations, PackingViolation(PackingRule.OUTSIDE_MISCOUNTED, detail))
    return violations


def _violations(problem: PackingProblem, offsets: Sequence[int | None]) -> Iterator[PackingViolation]:
    if len(offsets) != len(problem.buffers):
        detail = f"{len(offsets)} offsets for {len(problem.buffers)} buffers"
        yield PackingViolation(PackingRule.OFFSETS_MISCOUNTED, detail)
        return
    placed = [
        (index, buffer, offset)
        for index, (buffer, offset) in enumerate(zip(problem.buffers, offsets, strict=True))
        if offset is not None
    ]
    yield from _places(problem, placed)
    yield from _overlaps(placed)


def _places(problem: PackingProblem, placed: Sequence[Placed]) -> Iterator[PackingViolation]:
    for index, buffer, offset in placed:
        if offset < 0:
            yield PackingViolation(PackingRule.NEGATIVE_OFFSET, f"it is at {offset}", index)
        if offset % problem.alignment_bytes:
            detail = f"it is at {offset}, no multiple of {problem.alignment_bytes}"
            yield PackingViolation(PackingRule.MISALIGNED, detail, index)
        if offset + buffer.size_bytes > problem.capacity_bytes:
            detail = f"it ends at {offset + buffer.size_bytes}, above {problem.capacity_bytes}"
            yield PackingViolation(PackingRule.BEYOND_CAPACITY, detail, index)


def _overlaps(placed: Sequence[Placed]) -> Iterator[PackingViolation]:
    for position, (index, buffer, offset) in enumerate(placed):
        for before, other, place in placed[:position]:
            shares_a_step = buffer.start < other.stop and other.start < buffer.stop
            if shares_a_step and offset < place + other.size_bytes and place < offset + buffer.size_bytes:
                detail = (
                    f"it is at [{offset}, {offset + buffer.size_bytes}) over steps [{buffer.start}, {buffer.stop}), "
                    f"buffer {before} at [{place}, {place + other.size_bytes}) over [{other.start}, {other.stop})"
                )
                yield PackingViolation(PackingRule.OVERLAP, detail, index)
