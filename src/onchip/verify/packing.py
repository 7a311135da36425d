"""Check the offsets of a packing, and of a static placement.

If two buffers overlap, every pair of simultaneously live buffers is compared, so that all overlaps are reported.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TypeAlias

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem, StaticPacking, StaticPackingProblem
from onchip.verify.rules import Rule, Violation

Placed: TypeAlias = tuple[int, Buffer, int]  # index of the buffer, the buffer, its offset


ALL_BUFFERS = "packing"
"""Subject of violations that concern all buffers together."""


def verify_packing(problem: PackingProblem, packing: Packing, arena_bytes: int | None = None) -> tuple[Violation, ...]:
    """Return all violations of a packing; it is legal exactly when there are none.

    `arena_bytes` is the claimed arena size, or None if the answer claims none.
    """
    violations = tuple(_violations(problem, packing.offsets_bytes))
    if arena_bytes is None or len(packing.offsets_bytes) != len(problem.buffers):
        return violations
    highest = 0
    for buffer, offset in zip(problem.buffers, packing.offsets_bytes, strict=True):
        highest = max(highest, offset + buffer.size_bytes)
    if highest != arena_bytes:
        detail = f"the arena is said to be {arena_bytes} bytes, it is {highest}"
        return (*violations, Violation(Rule.ARENA_MISCOUNTED, ALL_BUFFERS, detail))
    return violations


def verify_overflow(problem: PackingProblem, overflow: Overflow, outside_bytes: int) -> tuple[Violation, ...]:
    """Return all violations of the kept buffers' offsets and of the claimed number of bytes left out."""
    violations = tuple(_violations(problem, overflow.offsets_bytes))
    if len(overflow.offsets_bytes) != len(problem.buffers):
        return violations
    counted = 0
    for buffer, offset in zip(problem.buffers, overflow.offsets_bytes, strict=True):
        if offset is None:
            counted += buffer.size_bytes
    if counted != outside_bytes:
        detail = f"{outside_bytes} bytes are said to be outside, {counted} are"
        return (*violations, Violation(Rule.OUTSIDE_MISCOUNTED, ALL_BUFFERS, detail))
    return violations


def _violations(problem: PackingProblem, offsets: Sequence[int | None]) -> Iterator[Violation]:
    if len(offsets) != len(problem.buffers):
        detail = f"{len(offsets)} offsets for {len(problem.buffers)} buffers"
        yield Violation(Rule.OFFSETS_MISCOUNTED, ALL_BUFFERS, detail)
        return
    placed = [
        (index, buffer, offset)
        for index, (buffer, offset) in enumerate(zip(problem.buffers, offsets, strict=True))
        if offset is not None
    ]
    yield from _places(problem, placed)
    yield from _overlaps([live for one in placed for live in _lives(one)])


def _places(problem: PackingProblem, placed: Sequence[Placed]) -> Iterator[Violation]:
    for index, buffer, offset in placed:
        if offset < 0:
            yield Violation(Rule.NEGATIVE_OFFSET, _name(index), f"it is at {offset}")
        alignment = problem.alignment_of(buffer)
        if offset % alignment:
            detail = f"it is at {offset}, no multiple of {alignment}"
            yield Violation(Rule.MISALIGNED, _name(index), detail)
        if buffer.offset_bytes not in (None, offset):
            detail = f"it is at {offset}, and fixed at {buffer.offset_bytes}"
            yield Violation(Rule.FIXED_MOVED, _name(index), detail)
        if offset + buffer.size_bytes > problem.capacity_bytes:
            detail = f"it ends at {offset + buffer.size_bytes}, above {problem.capacity_bytes}"
            yield Violation(Rule.BEYOND_CAPACITY, _name(index), detail)


def _lives(placed: Placed) -> Iterator[Placed]:
    """Yield the buffer once for each range of steps in which it is live, without gaps."""
    index, buffer, offset = placed
    if not buffer.gaps:
        yield placed
        return
    for start, stop in buffer.lives:
        yield index, replace(buffer, start=start, stop=stop, gaps=()), offset


def _overlaps(placed: Sequence[Placed]) -> Iterator[Violation]:
    if not _any_overlap(placed):
        return
    overlapping = [
        sorted((one, other), key=itemgetter(0))
        for one, other in _alive_together(placed)
        if one[2] < other[2] + other[1].size_bytes and other[2] < one[2] + one[1].size_bytes
    ]
    overlapping.sort(key=lambda pair: (pair[1][0], pair[0][0]))
    for (before, other, place), (index, buffer, offset) in overlapping:
        detail = (
            f"it is at [{offset}, {offset + buffer.size_bytes}) over steps [{buffer.start}, {buffer.stop}), "
            f"buffer {before} at [{place}, {place + other.size_bytes}) over [{other.start}, {other.stop})"
        )
        yield Violation(Rule.OVERLAP, _name(index), detail)


def _any_overlap(placed: Sequence[Placed]) -> bool:
    """Return True if two buffers overlap.

    Until the first overlap the live buffers are disjoint, so a new buffer can only meet its neighbour below or above.
    The live buffers are kept as two parallel sorted lists of offsets and ends.
    """
    lows, highs = [offset for _, _, offset in placed], [offset + one.size_bytes for _, one, offset in placed]
    starts, stops = [one.start for _, one, _ in placed], [one.stop for _, one, _ in placed]
    numbers = range(len(placed))
    ending = sorted(numbers, key=stops.__getitem__)
    alive_lows: list[int] = []
    alive_highs: list[int] = []
    ended = 0
    for number in sorted(numbers, key=starts.__getitem__):
        start, low, high = starts[number], lows[number], highs[number]
        while stops[ending[ended]] <= start:
            at = bisect_left(alive_lows, lows[ending[ended]])
            del alive_lows[at], alive_highs[at]
            ended += 1
        at = bisect_left(alive_lows, low)
        if (at > 0 and alive_highs[at - 1] > low) or (at < len(alive_lows) and alive_lows[at] < high):
            return True
        alive_lows.insert(at, low)
        alive_highs.insert(at, high)
    return False


def _alive_together(placed: Sequence[Placed]) -> Iterator[tuple[Placed, Placed]]:
    """Yield each pair of buffers that share a step once: a buffer is paired at its start with those still live."""
    alive: list[Placed] = []
    for one in sorted(placed, key=lambda it: it[1].start):
        start = one[1].start
        alive = [other for other in alive if start < other[1].stop]
        for other in alive:
            yield one, other
        alive.append(one)


def _name(index: int) -> str:
    """Return the label of a buffer: buffers have no names, only indices into the problem's `buffers`."""
    return f"buffer {index}"


def verify_static_packing(
    problem: StaticPackingProblem, packing: StaticPacking, cost: int | None = None
) -> tuple[Violation, ...]:
    """Return all violations of a static packing and of its claimed cost; it is legal exactly when there are none."""
    if len(packing.places) != len(problem.buffers):
        detail = f"{len(packing.places)} places for {len(problem.buffers)} buffers"
        return (Violation(Rule.OFFSETS_MISCOUNTED, ALL_BUFFERS, detail),)
    violations: list[Violation] = []
    for index, place in enumerate(packing.places):
        if not 0 <= place.memory < len(problem.memories):
            violations.append(Violation(Rule.NO_SUCH_MEMORY, _name(index), f"it lies in memory {place.memory}"))
            continue
        if place.memory not in problem.costs[index]:
            detail = f"it lies in memory {place.memory}, and may lie in {sorted(problem.costs[index])}"
            violations.append(Violation(Rule.NOT_HELD, _name(index), detail))
        reserved = problem.memories[place.memory].reserved_bytes
        if 0 <= place.offset_bytes < reserved:
            detail = f"it is at {place.offset_bytes}, the first {reserved} bytes are taken"
            violations.append(Violation(Rule.OVERLAP, _name(index), detail))
    violations += _groups(problem, packing)
    for memory in range(len(problem.memories)):
        violations += _within(problem, packing, memory)
    if cost is not None and not violations:
        counted = sum(problem.cost(index, place.memory) for index, place in enumerate(packing.places))
        if counted != cost:
            detail = f"a cost of {cost} is claimed, it is {counted}"
            violations.append(Violation(Rule.OUTSIDE_MISCOUNTED, ALL_BUFFERS, detail))
    return tuple(violations)


def _groups(problem: StaticPackingProblem, packing: StaticPacking) -> Iterator[Violation]:
    for group in problem.together:
        memories = {packing.places[index].memory for index in group}
        if len(memories) > 1:
            detail = f"it must lie in one memory with {list(group)}, they lie in {sorted(memories)}"
            yield Violation(Rule.NOT_HELD, _name(group[0]), detail)
    for group in problem.apart:
        for at, index in enumerate(group):
            for other in group[:at]:
                if packing.places[index].memory == packing.places[other].memory:
                    detail = f"it must lie in another memory than buffer {other}"
                    yield Violation(Rule.NOT_HELD, _name(index), detail)


def _within(problem: StaticPackingProblem, packing: StaticPacking, memory: int) -> list[Violation]:
    """Return the violations in one memory, with buffers named by their index in the whole problem."""
    inside = [index for index, place in enumerate(packing.places) if place.memory == memory]
    offsets = [packing.places[index].offset_bytes for index in inside]
    buffers = [problem.buffers[index] for index in inside]
    highest = max((offset + one.size_bytes for offset, one in zip(offsets, buffers, strict=True)), default=0)
    capacity = problem.memories[memory].capacity_bytes
    if capacity is None:
        buffers = [replace(one, offset_bytes=None) for one in buffers]
    alone = PackingProblem(
        tuple(buffers), highest if capacity is None else capacity, problem.memories[memory].alignment_bytes
    )
    names = {_name(number): index for number, index in enumerate(inside)}
    return [
        replace(one, subject=_name(names[one.subject]), detail=f"among those in memory {memory}, {one.detail}")
        for one in verify_packing(alone, Packing(tuple(offsets)))
    ]
