"""XLA's buffer assignment held against its own live ranges, and how far its temporary memory could shrink.

A value is written by its first instruction and read until its last, which may write another over it: in place. So
values that share bytes may live at one instruction together where one ends as the other begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from onchip.answer.packing import Buffer, PackingProblem
from onchip.answer.words import counted
from onchip.api.answer_check import AnswerCheck
from onchip.api.packing import PlacedBuffers, Rule, Violation, smallest_arena
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.errors import InputError, UsageError
from onchip.formats.files import read_file

FIRST_LINE: Final = "BufferAssignment:"
_RANGES: Final = "HloLiveRange"
_ALLOCATION: Final = re.compile(r"allocation (\d{1,9}): size (\d{1,15}), (.*):", re.ASCII)
_VALUE: Final = re.compile(r" value: <\d+ (\S+)( \(phi\))? @\d+> \(size=(\d{1,15}),offset=(\d{1,15})\): .*", re.ASCII)
_RANGE: Final = re.compile(r"    (\S+\{[\d,]*\}):(\d{1,9})-(\d{1,9})", re.ASCII)
_EXPECTED_ASSIGNMENT: Final = "what XLA dumps as *-buffer-assignment.txt"
_EXPECTED_RANGES: Final = "what XLA dumps as *-live-range.txt"

_TEMPORARY: Final = "preallocated-temp"
_GREATEST_ALIGNMENT_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class _Placed:
    value: XlaValue
    live: XlaRange

    def buffer(self) -> Buffer:
        """Return a buffer of two time units per instruction; a value may overwrite another in its last instruction."""
        return Buffer(2 * self.live.start, max(2 * self.live.end, 2 * self.live.start + 1), self.value.size_bytes)

    def touches(self, other: _Placed) -> bool:
        """Return True if both share bytes and live at one instruction: one ends there as the other begins."""
        here, there = self.value, other.value
        is_apart = here.offset_bytes + here.size_bytes <= there.offset_bytes
        is_apart = is_apart or there.offset_bytes + there.size_bytes <= here.offset_bytes
        return not is_apart and self.live.start <= other.live.end and other.live.start <= self.live.end


@phase("verifying")
def check_buffer_assignment(file: Path, ranges_file: str, target: Target) -> AnswerCheck | None:
    """Verify that values of an allocation that are live at once share no byte, and that each lies within it.

    For temporary memory, state a lower bound on its size and the size of a packing. Returns None for another kind of
    file. Raises InputError if a file cannot be read, UsageError if `target` states a memory.
    """
    if not is_buffer_assignment(file):
        return None
    if target != Target():
        what = "XLA's buffer assignment says its own memory"
        raise UsageError(what, place="target, alignment_bytes", expected="nothing")
    allocations = read_buffer_assignment(file)
    ranges = read_live_ranges(Path(ranges_file))
    violations = [one for allocation in allocations for one in _violations(allocation, ranges)]
    temporary = [one for one in allocations if _TEMPORARY in one.kind]
    figures = [] if violations else [_figures(one, ranges) for one in temporary]
    return AnswerCheck("buffer assignment", file.name, "", violations, figures, (), _not_checked(allocations, ranges))


def _not_checked(allocations: Sequence[XlaAllocation], ranges: Mapping[str, XlaRange]) -> list[str]:
    without = sum(value.name not in ranges for allocation in allocations for value in allocation.values)
    placed = [_placed(one, ranges) for one in allocations]
    pairs = sum(len(list(_in_place(each))) for each in placed)
    said = [f"whether {counted(pairs, 'value')} may be written over the one read last"] if pairs else []
    return [f"{counted(without, 'value')} without a live range", *said] if without else said


def _placed(allocation: XlaAllocation, ranges: Mapping[str, XlaRange]) -> list[_Placed]:
    return [_Placed(value, ranges[value.name]) for value in allocation.values if value.name in ranges]


def _in_place(placed: Sequence[_Placed]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of values with common bytes of which one ends as the other begins."""
    for later, two in enumerate(placed):
        yield from ((earlier, later) for earlier in range(later) if placed[earlier].touches(two))


def _violations(allocation: XlaAllocation, ranges: Mapping[str, XlaRange]) -> Iterator[Violation]:
    for value in allocation.values:
        if (end := value.offset_bytes + value.size_bytes) > allocation.size_bytes:
            detail = f"it ends at {end} of {allocation.size_bytes} in allocation {allocation.number}"
            yield Violation(Rule.BEYOND_CAPACITY, value.name, detail)
    yield from _buffers(allocation, _placed(allocation, ranges)).violations(2**62)


def _buffers(allocation: XlaAllocation, placed: Sequence[_Placed]) -> PlacedBuffers:
    return PlacedBuffers(
        f"allocation {allocation.number}",
        tuple(one.buffer() for one in placed),
        tuple(one.value.offset_bytes for one in placed),
        tuple((one.value.name,) for one in placed),
    )


def _figures(allocation: XlaAllocation, ranges: Mapping[str, XlaRange]) -> dict[str, object]:
    placed = _placed(allocation, ranges)
    alignment = _alignment_bytes(allocation)
    buffers = _buffers(allocation, placed)
    return {
        "names": buffers.name,
        "values": len(allocation.values),
        "alignment_bytes": alignment,
        "size_bytes": allocation.size_bytes,
        "packed_bytes": min(_packed_bytes(placed, alignment), allocation.size_bytes),
        "lower_bound_bytes": buffers.least_bytes(alignment),
    }


def _alignment_bytes(allocation: XlaAllocation) -> int:
    """Return the greatest power of two, up to the alignment of GPUs, that divides every offset."""
    alignment = _GREATEST_ALIGNMENT_BYTES
    while any(value.offset_bytes % alignment for value in allocation.values):
        alignment //= 2
    return alignment


def _packed_bytes(placed: Sequence[_Placed], alignment_bytes: int) -> int:
    """Return the smallest arena found for the groups of values that share bytes in XLA."""
    buffers = tuple(_joined([placed[at] for at in group]) for group in _groups(placed))
    return smallest_arena(PackingProblem(buffers, 1, alignment_bytes))[1] if buffers else 0


def _joined(group: Sequence[_Placed]) -> Buffer:
    first = min(one.value.offset_bytes for one in group)
    end = max(one.value.offset_bytes + one.value.size_bytes for one in group)
    return Buffer(min(one.live.start for one in group), 1 + max(one.live.end for one in group), end - first)


def _groups(placed: Sequence[_Placed]) -> list[list[int]]:
    """Return the groups of values that share bytes: in-place updates, and phis."""
    joined = list(range(len(placed)))

    def root(at: int) -> int:
        while joined[at] != at:
            at = joined[at]
        return at

    for earlier, later in _in_place(placed):
        joined[root(later)] = root(earlier)
    phis = {(one.value.offset_bytes, one.value.size_bytes) for one in placed if one.value.is_phi}
    firsts: dict[tuple[int, int], int] = {}
    for at, one in enumerate(placed):
        place = (one.value.offset_bytes, one.value.size_bytes)
        if place in phis:
            joined[root(at)] = root(firsts.setdefault(place, at))
    groups: dict[int, list[int]] = {}
    for at in range(len(placed)):
        groups.setdefault(root(at), []).append(at)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class XlaValue:
    """A value in an allocation; a phi is one under another name, where a loop or a branch begins or ends.

    An assignment has allocations, and in each of them values at offsets. Live ranges are over a sequence of
    instructions, with each loop body once: instruction 5 writes `name{}:5-8` and instruction 8 reads it last.
    """

    name: str
    size_bytes: int
    offset_bytes: int
    is_phi: bool


@dataclass(frozen=True, slots=True)
class XlaAllocation:
    """An allocation; `kind` is XLA's description, such as `preallocated-temp`."""

    number: int
    size_bytes: int
    kind: str
    values: tuple[XlaValue, ...]


@dataclass(frozen=True, slots=True)
class XlaRange:
    """The instruction that writes a value, and the last that reads it."""

    start: int
    end: int


def is_buffer_assignment(path: Path) -> bool:
    """Return True if the file begins like XLA's buffer assignment; raises InputError if it cannot be read."""
    return read_file(path).startswith(FIRST_LINE.encode())


def read_buffer_assignment(path: Path) -> tuple[XlaAllocation, ...]:
    """Read the allocations of a file; raises InputError for a file without any, or with a malformed line."""
    allocations: list[XlaAllocation] = []
    values: list[list[XlaValue]] = []
    for number, line in enumerate(read_file(path).decode(errors="replace").splitlines(), start=1):
        if (allocation := _ALLOCATION.fullmatch(line)) is not None:
            allocations.append(XlaAllocation(int(allocation[1]), int(allocation[2]), allocation[3], ()))
            values.append([])
        elif (value := _VALUE.fullmatch(line)) is not None and allocations:
            name = value[1] if value[1].endswith("}") else f"{value[1]}{{}}"
            values[-1].append(XlaValue(name, int(value[3]), int(value[4]), value[2] is not None))
        elif line.startswith((" value", "allocation")):
            what = "it is no line of a buffer assignment"
            raise InputError(what, file=str(path), place=f"line {number}", expected=_EXPECTED_ASSIGNMENT)
    if not allocations:
        raise InputError("it holds no allocation", file=str(path), expected=_EXPECTED_ASSIGNMENT)
    return tuple(replace(one, values=tuple(own)) for one, own in zip(allocations, values, strict=True))


def read_live_ranges(path: Path) -> dict[str, XlaRange]:
    """Read the live range of each value by its name; raises InputError for a file that holds none."""
    text = read_file(path).decode(errors="replace")
    if not text.startswith(_RANGES):
        raise InputError("it holds no live ranges", file=str(path), expected=_EXPECTED_RANGES)
    ranges: dict[str, XlaRange] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        found = _RANGE.fullmatch(line)
        if found is None:
            continue
        start, end = int(found[2]), int(found[3])
        if end < start:
            what = f"{found[1]!r} ends at {end}, before it begins at {start}"
            raise InputError(what, file=str(path), place=f"line {number}", expected=_EXPECTED_RANGES)
        ranges[found[1]] = XlaRange(start, end)
    if not ranges:
        raise InputError("it holds no live ranges", file=str(path), expected=_EXPECTED_RANGES)
    return ranges
