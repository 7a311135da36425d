"""XLA's buffer assignment and live ranges, as `--xla_dump_hlo_as_text` writes them.

An assignment has allocations, and in each of them values at offsets. Live ranges are over a sequence of instructions,
loops' bodies once each: `name{}:5-8` is written by instruction 5 and last read by instruction 8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onchip.errors import InputError
from onchip.formats.files import read_file

FIRST_LINE: Final = "BufferAssignment:"
_RANGES: Final = "HloLiveRange"
_ALLOCATION: Final = re.compile(r"allocation (\d{1,9}): size (\d{1,15}), (.*):", re.ASCII)
_VALUE: Final = re.compile(r" value: <\d+ (\S+)( \(phi\))? @\d+> \(size=(\d{1,15}),offset=(\d{1,15})\): .*", re.ASCII)
_RANGE: Final = re.compile(r"    (\S+\{[\d,]*\}):(\d{1,9})-(\d{1,9})", re.ASCII)
_EXPECTED_ASSIGNMENT: Final = "what XLA dumps as *-buffer-assignment.txt"
_EXPECTED_RANGES: Final = "what XLA dumps as *-live-range.txt"


@dataclass(frozen=True, slots=True)
class XlaValue:
    """A value in an allocation; a phi is one under another name, where a loop or a branch begins or ends."""

    name: str
    size_bytes: int
    offset_bytes: int
    is_phi: bool


@dataclass(frozen=True, slots=True)
class XlaAllocation:
    """One allocation; `kind` is what XLA says of it, such as `preallocated-temp`."""

    number: int
    size_bytes: int
    kind: str
    values: tuple[XlaValue, ...]


@dataclass(frozen=True, slots=True)
class XlaRange:
    """The instruction that writes a value, and the last that reads it."""

    start: int
    end: int


@dataclass(slots=True)
class _Open:
    number: int
    size_bytes: int
    kind: str
    values: list[XlaValue] = field(default_factory=list)


def is_buffer_assignment(path: Path) -> bool:
    """Whether a file begins as XLA's buffer assignment does; raises InputError where it cannot be read."""
    return read_file(path).startswith(FIRST_LINE.encode())


def read_buffer_assignment(path: Path) -> tuple[XlaAllocation, ...]:
    """Read the allocations of a file; raises InputError for one that holds none, or a line that is none of its own."""
    allocations: list[_Open] = []
    for number, line in enumerate(read_file(path).decode(errors="replace").splitlines(), start=1):
        if (allocation := _ALLOCATION.fullmatch(line)) is not None:
            allocations.append(_Open(int(allocation[1]), int(allocation[2]), allocation[3]))
        elif (value := _VALUE.fullmatch(line)) is not None and allocations:
            name = value[1] if value[1].endswith("}") else f"{value[1]}{{}}"
            found = XlaValue(name, int(value[3]), int(value[4]), value[2] is not None)
            allocations[-1].values.append(found)
        elif line.startswith((" value", "allocation")):
            what = "it is no line of a buffer assignment"
            raise InputError(what, file=str(path), place=f"line {number}", expected=_EXPECTED_ASSIGNMENT)
    if not allocations:
        raise InputError("it holds no allocation", file=str(path), expected=_EXPECTED_ASSIGNMENT)
    return tuple(XlaAllocation(one.number, one.size_bytes, one.kind, tuple(one.values)) for one in allocations)


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
