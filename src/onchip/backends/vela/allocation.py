"""What Vela, the compiler for Arm's Ethos-U, prints with `--verbose-allocation`: where each tensor lies, and when.

There is a table for each memory. Times are of its scheduler, both ends included; tensors with the same bytes at the
same times are one buffer under several names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onchip.answer.packing import Buffer
from onchip.errors import InputError, errors_in_file
from onchip.formats.files import read_file

ALIGNMENT_BYTES: Final = 16
"""To which Vela places all tensors."""
_AREA: Final = re.compile(r"Allocation, memory (\w+), usage mask: (.*)|Tensor Allocation for (.*):")
_ROW: Final = re.compile(
    r"\s*(\d+) -\s*(\d+):\s*0x([0-9a-f]+) -\s*0x([0-9a-f]+):\s*(\d+):\s*(\d+):\s*(\w+)\s*: (.*)", re.ASCII
)
_PEAK: Final = re.compile(r"Allocation Peak Tensor Size:\s*(\d+) bytes.*")
_COLUMNS: Final = "Start Time - End Time"
_EXPECTED: Final = "what vela --verbose-allocation prints"
_GREATEST_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class VelaArea:
    """One memory's table: buffers in bytes over steps of Vela's time, each with its offset and its names.

    `peak_bytes` is what Vela says it takes.
    """

    name: str
    buffers: tuple[Buffer, ...]
    offsets_bytes: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]
    peak_bytes: int


@dataclass(slots=True)
class _Table:
    name: str
    line: int
    buffers: dict[tuple[Buffer, int], list[str]] = field(default_factory=dict)
    peak_bytes: int | None = None


def holds_allocation(path: Path) -> bool:
    """Return True if a line of the file begins a table of an allocation; raises InputError if it cannot be read."""
    return any(_AREA.fullmatch(line) for line in read_file(path).decode(errors="replace").splitlines())


def read_vela_allocation(path: Path) -> tuple[VelaArea, ...]:
    """Read all tables of a file; raises InputError for one that holds none, or one that breaks off."""
    text = read_file(path).decode(errors="replace")
    with errors_in_file(str(path)):
        tables = _tables(text)
        if not tables:
            raise InputError("it holds no table of an allocation", expected=_EXPECTED)
        return tuple(map(_area, tables))


def _tables(text: str) -> list[_Table]:
    tables: list[_Table] = []
    is_open = False
    for number, line in enumerate(text.splitlines(), start=1):
        if (area := _AREA.fullmatch(line)) is not None:
            tables.append(_Table(_name(area, tables), number))
            is_open = True
        elif not is_open:
            continue
        elif (peak := _PEAK.fullmatch(line)) is not None:
            tables[-1].peak_bytes = int(peak[1][:_GREATEST_DIGITS])
            is_open = False
        elif not line.startswith(_COLUMNS):
            buffer, offset, name = _row(line, number)
            tables[-1].buffers.setdefault((buffer, offset), []).append(name)
    return tables


def _name(area: re.Match[str], before: list[_Table]) -> str:
    """The memory and what lies in it, with a number where another table is called so."""
    name = area[3] or f"{area[1]} ({area[2]})"
    alike = sum(table.name == name or table.name.startswith(f"{name} #") for table in before)
    return f"{name} #{alike + 1}" if alike else name


def _row(line: str, number: int) -> tuple[Buffer, int, str]:
    row = _ROW.fullmatch(line)
    if row is None or any(len(row[at]) > _GREATEST_DIGITS for at in range(1, 7)):
        raise InputError("it is no row of the table it stands in", place=f"line {number}", expected=_EXPECTED)
    start, stop, size = int(row[1]), int(row[2]), int(row[5])
    offset, end = int(row[3], 16), int(row[4], 16)
    if end - offset != size or stop < start or size == 0:
        what = f"{size} bytes over [{start}, {stop}] do not lie at {offset} to {end}"
        raise InputError(what, place=f"line {number}", expected="as many bytes as the addresses span")
    return Buffer(start, stop + 1, size), offset, row[8]


def _area(table: _Table) -> VelaArea:
    if table.peak_bytes is None:
        raise InputError("its table breaks off", place=f"line {table.line}", expected=_EXPECTED)
    places = list(table.buffers)
    return VelaArea(
        table.name,
        tuple(buffer for buffer, _ in places),
        tuple(offset for _, offset in places),
        tuple(map(tuple, table.buffers.values())),
        table.peak_bytes,
    )
