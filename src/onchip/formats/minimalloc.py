"""MiniMalloc's CSV files of buffers and offsets, one line per buffer.

The columns `id`, `lower`, `upper` (half-open) and `size` are required. `begin` and `start` are synonyms of `lower`;
`buffer` and `buffer_id` of `id`; `end` is the last step (`upper - 1`). An `offset` fixes the address of a buffer; an
empty offset leaves it open. `gaps` are half-open ranges of steps within the lifetime, as `3-5 7-9`; hints are ignored.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem
from onchip.arch.memory import Memory
from onchip.arch.sizes import GREATEST_TOTAL_BYTES
from onchip.errors import InputError, errors_in_file
from onchip.formats.files import read_file, write_file

_COLUMNS = {
    **{name: name for name in ("id", "lower", "upper", "end", "size", "alignment", "gaps", "hint", "offset")},
    **dict.fromkeys(("buffer", "buffer_id"), "id"),
    **dict.fromkeys(("begin", "start"), "lower"),
}
_WRITTEN_COLUMNS = ("id", "lower", "upper", "size", "alignment", "gaps", "offset")
GREATEST_STEP = 2**62


@dataclass(frozen=True, slots=True)
class BufferTable:
    """Named buffers of a file, and what it says on memories.

    Attributes
    ----------
    alignment_bytes
        Alignment of all buffers; None if the file does not state one for all.
    memories
        Memories that hold the buffers; empty: one, whose capacity is given elsewhere.
    together, apart
        Groups of buffers that must lie in one memory, or no two of them in the same.
    parts
        Ranges of buffers with a memory of their own, one after another; empty: all share one.

    """

    ids: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    alignment_bytes: int | None = None
    memories: tuple[Memory, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    parts: tuple[range, ...] = ()


def read_buffers(path: Path) -> BufferTable:
    """Read a file; raises InputError that names file and line."""
    with errors_in_file(str(path)):
        lines = _lines_of(path)
        has_alignment = bool(lines) and "alignment" in lines[0].fields
        alignments = {line.integer("alignment", 1, 2**30) for line in lines} if has_alignment else set()
        alignment = alignments.pop() if len(alignments) == 1 else None
        buffers = tuple(line.buffer(has_own_alignment=alignment is None) for line in lines)
        if sum(buffer.size_bytes for buffer in buffers) > GREATEST_TOTAL_BYTES:
            raise InputError("all buffers together are too large", "size", "at most 2^50 bytes in all")
        return BufferTable(tuple(line.fields["id"] for line in lines), buffers, alignment)


def read_offsets(path: Path, ids: Sequence[str]) -> tuple[int | None, ...]:
    """Read the offsets of an answer in the order of `ids`; None for a buffer outside the arena. Raises InputError."""
    with errors_in_file(str(path)):
        lines = _lines_of(path)
        if lines and "offset" not in lines[0].fields:
            raise InputError("column 'offset' is missing", "line 1", "a packing: id,lower,upper,size,offset")
        offsets = {
            line.fields["id"]: line.integer("offset", 0, GREATEST_TOTAL_BYTES) if line.fields["offset"] else None
            for line in lines
        }
        if sorted(offsets) != sorted(ids):
            differing = next(iter(set(offsets) ^ set(ids)))
            raise InputError(f"buffer {differing!r} is not in both files", expected="a packing of the same buffers")
    return tuple(offsets[name] for name in ids)


def _lines_of(path: Path) -> list[Line]:
    rows, lines = csv.reader(io.StringIO(_text_of(path), newline=""), strict=True), dict[str, Line]()
    try:
        columns = _columns([name.strip() for name in next(rows, [])])
        for row in filter(None, rows):
            if len(row) != len(columns):
                raise InputError(f"it has {len(row)} fields", f"line {rows.line_num}", f"{len(columns)}")
            line = Line(rows.line_num, dict(zip(columns, map(str.strip, row), strict=True)))
            if (first := lines.setdefault(line.fields["id"], line)) is not line:
                what = f"{line.fields['id']!r} is the id of line {first.number} too"
                raise line.refusal("id", what, "an id of its own")
    except csv.Error as error:
        raise InputError(f"it is no CSV ({error})", f"line {rows.line_num}", "a CSV file") from None
    return list(lines.values())


def _text_of(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"it is not text ({error.reason})", expected="UTF-8") from None


def _columns(names: list[str]) -> list[str]:
    """Return the columns that the names stand for; raises InputError unless each needed column is there once."""
    columns = [_COLUMNS.get(name, "") for name in names]
    what = [f"column {name!r} is unknown" for name, column in zip(names, columns, strict=True) if not column]
    times = Counter(columns)
    what += [f"column {name!r} is there twice" for name, one in zip(names, columns, strict=True) if times[one] > 1]
    what += [f"column {name!r} is missing" for name in ("id", "lower", "size") if name not in columns]
    if ("upper" in columns) is ("end" in columns):
        what.append("there is not one of columns 'upper' and 'end'")
    if what:
        raise InputError(what[0], "line 1", "id,lower,upper,size")
    return columns


@dataclass(frozen=True, slots=True)
class Line:
    """The fields of one line, by column."""

    number: int
    fields: dict[str, str]

    def buffer(self, *, has_own_alignment: bool) -> Buffer:
        """Return the buffer that the line describes, without its hint, on which no answer depends.

        Raises InputError for values that no buffer has.
        """
        start = self.integer("lower", 0, GREATEST_STEP)
        last = "end" if "end" in self.fields else "upper"
        stop = self.integer(last, 0, GREATEST_STEP) + (last == "end")
        size = self.integer("size", 1, GREATEST_TOTAL_BYTES)
        offset = self.integer("offset", 0, GREATEST_TOTAL_BYTES) if self.fields.get("offset") else None
        is_aligned = has_own_alignment and bool(self.fields.get("alignment"))
        alignment = self.integer("alignment", 1, 2**30) if is_aligned else 1
        gaps = []
        for gap in self.fields.get("gaps", "").split():
            if (match := re.fullmatch(r"(\d{1,18})-(\d{1,18})", gap, re.ASCII)) is None:
                raise self.refusal("gaps", f"{gap!r} is no gap without a window", "ranges of steps such as 3-5 7-9")
            gaps.append((int(match[1]), int(match[2]) + (last == "end")))
        try:
            return Buffer(start, stop, size, offset, alignment, tuple(gaps))
        except InputError as error:
            raise self.refusal("", error.what, error.expected or "") from None

    def integer(self, column: str, least: int, greatest: int) -> int:
        """Return the whole number in a column; raises InputError for another text, or one out of range."""
        field = self.fields[column]
        if not (field.isascii() and field.isdecimal() and len(field) < 20 and least <= int(field) <= greatest):
            shown = field if len(field) <= 40 else f"{field[:37]}..."
            raise self.refusal(column, f"{shown!r} is out of range", f"a whole number from {least} to {greatest}")
        return int(field)

    def refusal(self, column: str, what: str, expected: str) -> InputError:
        """Return the error that names this line."""
        place = f"line {self.number}, {column}" if column else f"line {self.number}"
        return InputError(what, place, expected)


def write_packing(ids: Sequence[str], problem: PackingProblem, packing: Packing | Overflow, path: Path) -> None:
    """Write the file; raises OutputError if it cannot be written."""
    write_file(path, packing_to_csv(ids, problem, packing).encode())


def packing_to_csv(ids: Sequence[str], problem: PackingProblem, packing: Packing | Overflow) -> str:
    """Return the text of the file, one line per buffer."""
    has_own = any(one.alignment_bytes > 1 for one in problem.buffers)
    has_gaps = any(one.gaps for one in problem.buffers)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    kept = {"alignment": has_own, "gaps": has_gaps}
    columns = [name for name in _WRITTEN_COLUMNS if kept.get(name, True)]
    writer.writerow(columns)
    for name, one, offset in zip(ids, problem.buffers, packing.offsets_bytes, strict=True):
        row: tuple[object, ...] = (name, one.start, one.stop, one.size_bytes)
        row += (problem.alignment_of(one),) if has_own else ()
        row += (" ".join(f"{start}-{stop}" for start, stop in one.gaps),) if has_gaps else ()
        writer.writerow((*row, offset))
    return text.getvalue()
