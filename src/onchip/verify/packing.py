"""Is a packing legal? Every buffer is held against every other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from onchip.plan.packing import Packing, PackingProblem


class PackingRule(StrEnum):
    """The name of each way in which a packing can be wrong."""

    OFFSETS_MISCOUNTED = "offsets-miscounted"  # there is not one offset for each buffer
    NEGATIVE_OFFSET = "negative-offset"  # a buffer starts below address 0
    MISALIGNED = "misaligned"  # its offset is no multiple of the alignment
    BEYOND_CAPACITY = "beyond-capacity"  # it ends above the capacity
    OVERLAP = "overlap"  # it shares bytes and a step with another buffer


@dataclass(frozen=True, slots=True)
class PackingViolation:
    """One rule broken by one buffer, an index into the problem's `buffers` (None: by all together)."""

    rule: PackingRule
    detail: str
    buffer: int | None = None

    def __str__(self) -> str:
        where = "" if self.buffer is None else f"buffer {self.buffer}: "
        return f"{self.rule}: {where}{self.detail}"


def verify_packing(problem: PackingProblem, packing: Packing) -> tuple[PackingViolation, ...]:
    """Return all that is wrong; a packing is legal exactly when that is nothing."""
    buffers, offsets = problem.buffers, packing.offsets_bytes
    if len(offsets) != len(buffers):
        detail = f"{len(offsets)} offsets for {len(buffers)} buffers"
        return (PackingViolation(PackingRule.OFFSETS_MISCOUNTED, detail),)
    return (*_places(problem, offsets), *_overlaps(problem, offsets))


def _places(problem: PackingProblem, offsets: tuple[int, ...]) -> Iterator[PackingViolation]:
    for index, (buffer, offset) in enumerate(zip(problem.buffers, offsets, strict=True)):
        if offset < 0:
            yield PackingViolation(PackingRule.NEGATIVE_OFFSET, f"it is at {offset}", index)
        if offset % problem.alignment_bytes:
            detail = f"it is at {offset}, no multiple of {problem.alignment_bytes}"
            yield PackingViolation(PackingRule.MISALIGNED, detail, index)
        if offset + buffer.size_bytes > problem.capacity_bytes:
            detail = f"it ends at {offset + buffer.size_bytes}, above {problem.capacity_bytes}"
            yield PackingViolation(PackingRule.BEYOND_CAPACITY, detail, index)


def _overlaps(problem: PackingProblem, offsets: tuple[int, ...]) -> Iterator[PackingViolation]:
    for index, (buffer, offset) in enumerate(zip(problem.buffers, offsets, strict=True)):
        for before in range(index):
            other, place = problem.buffers[before], offsets[before]
            shares_a_step = buffer.start < other.stop and other.start < buffer.stop
            if shares_a_step and offset < place + other.size_bytes and place < offset + buffer.size_bytes:
                detail = (
                    f"it is at [{offset}, {offset + buffer.size_bytes}) over steps [{buffer.start}, {buffer.stop}), "
                    f"buffer {before} at [{place}, {place + other.size_bytes}) over [{other.start}, {other.stop})"
                )
                yield PackingViolation(PackingRule.OVERLAP, detail, index)
