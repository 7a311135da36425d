"""XLA's buffer assignment held against its own live ranges, and how far its temporary memory could shrink.

A value is written by its first instruction and read until its last, which may write another over it: in place. So
values that share bytes may live at one instruction together where one ends as the other begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from onchip.answer.packing import Buffer, PackingProblem
from onchip.answer.words import counted
from onchip.api.check_request import AnswerCheck
from onchip.api.pack import PlacedBuffers, Rule, Violation, smallest_arena
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.errors import InputError, UsageError
from onchip.formats.files import read_file

FIRST_LINE: Final = b"BufferAssignment:"
_RANGES: Final = "HloLiveRange"
_ALLOCATION: Final = re.compile(r"allocation (\d{1,9}): size (\d{1,15}), (.*):", re.ASCII)
_VALUE: Final = re.compile(r" value: <\d+ (\S+)( \(phi\))? @\d+> \(size=(\d{1,15}),offset=(\d{1,15})\): .*", re.ASCII)
_RANGE: Final = re.compile(r"    (\S+\{[\d,]*\}):(\d{1,9})-(\d{1,9})", re.ASCII)
_EXPECTED_ASSIGNMENT: Final = "what XLA dumps as *-buffer-assignment.txt"
_EXPECTED_RANGES: Final = "what XLA dumps as *-live-range.txt"

_TEMPORARY: Final = "preallocated-temp"
_GREATEST_ALIGNMENT_BYTES: Final = 256


@phase("verifying")
def check_buffer_assignment(file: Path, ranges_file: str, target: Target) -> AnswerCheck | None:
    """Verify that values of an allocation that are live at once share no byte, and that each lies within it.

    For temporary memory, state a lower bound on its size and the size of a packing. Returns None for another kind of
    file. Raises InputError if a file cannot be read, UsageError if `target` states a memory.
    """
    if not read_file(file).startswith(FIRST_LINE):
        return None
    if target != Target():
        what = "XLA's buffer assignment says its own memory"
        raise UsageError(what, place="target, alignment_bytes", expected="nothing")
    allocations = read_buffer_assignment(file)
    ranges = read_live_ranges(Path(ranges_file))
    live = [
        (one, [replace(value, life=ranges[value.name]) for value in one.values if value.name in ranges])
        for one in allocations
    ]
    violations = [one for allocation, values in live for one in _violations(allocation, values)]
    figures = [] if violations else [_figures(*one) for one in live if _TEMPORARY in one[0].kind]
    without = sum(len(one.values) - len(values) for one, values in live)
    pairs = sum(len(list(_in_place(values))) for _, values in live)
    not_checked = [f"{counted(without, 'value')} without a live range"] if without else []
    not_checked += [f"whether {counted(pairs, 'value')} may be written over the one read last"] if pairs else []
    return AnswerCheck("buffer assignment", file.name, "", violations, figures, (), not_checked)


def _in_place(values: Sequence[XlaValue]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of values with common bytes of which one ends as the other begins."""
    for later, two in enumerate(values):
        yield from ((earlier, later) for earlier in range(later) if values[earlier].touches(two))


def _violations(allocation: XlaAllocation, live: Sequence[XlaValue]) -> Iterator[Violation]:
    for value in allocation.values:
        if value.end_bytes > allocation.size_bytes:
            detail = f"it ends at {value.end_bytes} of {allocation.size_bytes} in allocation {allocation.number}"
            yield Violation(Rule.BEYOND_CAPACITY, value.name, detail)
    yield from _buffers(allocation, live).violations(2**62)


def _buffers(allocation: XlaAllocation, live: Sequence[XlaValue]) -> PlacedBuffers:
    """Return buffers of two time units per instruction: a value may overwrite another in its last instruction."""
    times = [(2 * one.life[0], max(2 * one.life[1], 2 * one.life[0] + 1)) for one in live]
    buffers = (Buffer(*each, one.size_bytes) for each, one in zip(times, live, strict=True))
    offsets, names = (one.offset_bytes for one in live), ((one.name,) for one in live)
    return PlacedBuffers(f"allocation {allocation.number}", tuple(buffers), tuple(offsets), tuple(names))


def _figures(allocation: XlaAllocation, live: Sequence[XlaValue]) -> dict[str, object]:
    alignment, buffers = _alignment_bytes(allocation), _buffers(allocation, live)
    return {
        "names": buffers.name,
        "values": len(allocation.values),
        "alignment_bytes": alignment,
        "size_bytes": allocation.size_bytes,
        "packed_bytes": min(_packed_bytes(live, alignment), allocation.size_bytes),
        "lower_bound_bytes": buffers.least_bytes(alignment),
    }


def _alignment_bytes(allocation: XlaAllocation) -> int:
    """Return the greatest power of two, up to the alignment of GPUs, that divides every offset."""
    alignment = _GREATEST_ALIGNMENT_BYTES
    while any(value.offset_bytes % alignment for value in allocation.values):
        alignment //= 2
    return alignment


def _packed_bytes(live: Sequence[XlaValue], alignment_bytes: int) -> int:
    """Return the smallest arena found for the groups of values that share bytes in XLA."""
    buffers = []
    for group in ([live[at] for at in numbers] for numbers in _groups(live)):
        size = max(one.end_bytes for one in group) - min(one.offset_bytes for one in group)
        buffers.append(Buffer(min(one.life[0] for one in group), 1 + max(one.life[1] for one in group), size))
    return smallest_arena(PackingProblem(tuple(buffers), 1, alignment_bytes))[1] if buffers else 0


def _groups(values: Sequence[XlaValue]) -> list[list[int]]:
    """Return the groups of values that share bytes: in-place updates, and phis."""
    joined = list(range(len(values)))

    def root(at: int) -> int:
        while joined[at] != at:
            at = joined[at]
        return at

    for earlier, later in _in_place(values):
        joined[root(later)] = root(earlier)
    phis = {(one.offset_bytes, one.size_bytes) for one in values if one.is_phi}
    firsts: dict[tuple[int, int], int] = {}
    for at, one in enumerate(values):
        place = (one.offset_bytes, one.size_bytes)
        if place in phis:
            joined[root(at)] = root(firsts.setdefault(place, at))
    groups: dict[int, list[int]] = {}
    for at in range(len(values)):
        groups.setdefault(root(at), []).append(at)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class XlaValue:
    """A value in an allocation; a phi is one under another name, where a loop or a branch begins or ends.

    An assignment has allocations, and in each of them values at offsets. Its `life` is over a sequence of
    instructions, with each loop body once: instruction 5 writes `name{}:5-8` and instruction 8 reads it last.
    """

    name: str
    size_bytes: int
    offset_bytes: int
    is_phi: bool
    life: tuple[int, int] = (0, 0)

    @property
    def end_bytes(self) -> int:
        """Offset behind its last byte."""
        return self.offset_bytes + self.size_bytes

    def touches(self, other: XlaValue) -> bool:
        """Return True if both share bytes and live at one instruction: one ends there as the other begins."""
        shares = self.offset_bytes < other.end_bytes and other.offset_bytes < self.end_bytes
        return shares and self.life[0] <= other.life[1] and other.life[0] <= self.life[1]


@dataclass(frozen=True, slots=True)
class XlaAllocation:
    """An allocation; `kind` is XLA's description, such as `preallocated-temp`."""

    number: int
    size_bytes: int
    kind: str
    values: tuple[XlaValue, ...]


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


def read_live_ranges(path: Path) -> dict[str, tuple[int, int]]:
    """Read the live range of each value by its name; raises InputError for a file that holds none."""
    text = read_file(path).decode(errors="replace")
    if not text.startswith(_RANGES):
        raise InputError("it holds no live ranges", file=str(path), expected=_EXPECTED_RANGES)
    ranges: dict[str, tuple[int, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        found = _RANGE.fullmatch(line)
        if found is None:
            continue
        start, end = int(found[2]), int(found[3])
        if end < start:
            what = f"{found[1]!r} ends at {end}, before it begins at {start}"
            raise InputError(what, file=str(path), place=f"line {number}", expected=_EXPECTED_RANGES)
        ranges[found[1]] = (start, end)
    if not ranges:
        raise InputError("it holds no live ranges", file=str(path), expected=_EXPECTED_RANGES)
    return ranges
