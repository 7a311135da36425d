"""MiniMalloc's CSV files of buffers and offsets, one line per buffer.

The columns `id`, `lower`, `upper` (half-open) and `size` are required. `begin` and `start` are synonyms of `lower`;
`buffer` and `buffer_id` of `id`; `end` is the last step (`upper - 1`). An `offset` fixes the address of a buffer; an
empty offset leaves it open. All buffers must have one `alignment`, `gaps` must be empty, and hints are ignored.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem
from onchip.arch.sizes import GREATEST_TOTAL_BYTES
from onchip.errors import InputError
from onchip.formats.files import read_file, write_file

_COLUMNS = {
    **{name: name for name in ("id", "lower", "upper", "end", "size", "alignment", "gaps", "hint", "offset")},
    **dict.fromkeys(("buffer", "buffer_id"), "id"),
    **dict.fromkeys(("begin", "start"), "lower"),
}
_WRITTEN_COLUMNS = ("id", "lower", "upper", "size", "offset")
GREATEST_STEP = 2**62


@dataclass(frozen=True, slots=True)
class BufferTable:
    """`ids[i]` is the name of `buffers[i]`; `alignment_bytes` is None if the file does not state it."""

    ids: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    alignment_bytes: int | None = None


def read_buffers(path: Path) -> BufferTable:
    """Read a file; raises InputError that names file and line."""
    with _errors_in(path):
        return _table_of(read_file(path).decode("utf-8-sig"))


def read_offsets(path: Path, ids: Sequence[str]) -> tuple[int | None, ...]:
    """Read the offsets of an answer in the order of `ids`; None for a buffer outside the arena. Raises InputError."""
    with _errors_in(path):
        lines = _lines_of(read_file(path).decode("utf-8-sig"))
        if lines and "offset" not in lines[0].fields:
            expected = "a packing: id,lower,upper,size,offset"
            raise InputError("column 'offset' is missing", place="line 1", expected=expected)
        offsets = {
            line.fields["id"]: line.integer("offset", 0, GREATEST_TOTAL_BYTES) if line.fields["offset"] else None
            for line in lines
        }
        if sorted(offsets) != sorted(ids):
            differing = next(iter(set(offsets) ^ set(ids)))
            raise InputError(f"buffer {differing!r} is not in both files", expected="a packing of the same buffers")
    return tuple(offsets[name] for name in ids)


@contextmanager
def _errors_in(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(f"it is not text ({error.reason})", file=str(path), expected="UTF-8") from None
    except InputError as error:
        raise error if error.file else error.in_file(str(path)) from None


def _table_of(text: str) -> BufferTable:
    lines = _lines_of(text)
    buffers = tuple(line.buffer() for line in lines)
    if sum(buffer.size_bytes for buffer in buffers) > GREATEST_TOTAL_BYTES:
        raise InputError("all buffers together are too large", place="size", expected="at most 2^50 bytes in all")
    return BufferTable(tuple(line.fields["id"] for line in lines), buffers, _alignment(lines))


def _lines_of(text: str) -> list[Line]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines: list[Line] = []
    try:
        columns = _columns(next(rows, []))
        lines.extend(Line.of(rows.line_num, columns, row) for row in rows if row)
    except csv.Error as error:
        raise InputError(f"it is no CSV ({error})", place=f"line {rows.line_num}", expected="a CSV file") from None
    _no_id_twice(lines)
    return lines


def _columns(header: list[str]) -> list[str]:
    names = [name.strip() for name in header]
    expected = "id,lower,upper,size"
    for name in names:
        if name not in _COLUMNS:
            raise InputError(f"column {name!r} is unknown", place="line 1", expected=expected)
    columns = [_COLUMNS[name] for name in names]
    for name, column in zip(names, columns, strict=True):
        if columns.count(column) > 1:
            raise InputError(f"column {name!r} is there twice", place="line 1", expected=expected)
    for column in ("id", "lower", "size"):
        if column not in columns:
            raise InputError(f"column {column!r} is missing", place="line 1", expected=expected)
    if ("upper" in columns) is ("end" in columns):
        raise InputError("there is not one of columns 'upper' and 'end'", place="line 1", expected=expected)
    return columns


@dataclass(frozen=True, slots=True)
class Line:
    """The fields of one line, by column."""

    number: int
    fields: dict[str, str]

    @classmethod
    def of(cls, number: int, columns: list[str], row: list[str]) -> Line:
        """Return the line; raises InputError unless it has as many fields as there are columns."""
        if len(row) != len(columns):
            raise InputError(f"it has {len(row)} fields", place=f"line {number}", expected=f"{len(columns)}")
        return cls(number, {column: field.strip() for column, field in zip(columns, row, strict=True)})

    def buffer(self) -> Buffer:
        """Return the buffer that the line describes, without its hint, on which no answer depends.

        Raises InputError for gaps, and for values that no buffer has.
        """
        start = self.integer("lower", 0, GREATEST_STEP)
        last = "end" if "end" in self.fields else "upper"
        stop = self.integer(last, 0, GREATEST_STEP) + (last == "end")
        size = self.integer("size", 1, GREATEST_TOTAL_BYTES)
        if self.fields.get("gaps"):
            raise self.refusal("gaps", "gaps are not supported", "an empty field")
        offset = self.integer("offset", 0, GREATEST_TOTAL_BYTES) if self.fields.get("offset") else None
        try:
            return Buffer(start, stop, size, offset)
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
        return InputError(what, place=place, expected=expected)


def _no_id_twice(lines: list[Line]) -> None:
    known: dict[str, int] = {}
    for line in lines:
        name = line.fields["id"]
        if known.setdefault(name, line.number) != line.number:
            raise line.refusal("id", f"{name!r} is the id of line {known[name]} too", "an id of its own")


def _alignment(lines: list[Line]) -> int | None:
    if not lines or "alignment" not in lines[0].fields:
        return None
    alignment = lines[0].integer("alignment", 1, 2**30)
    for line in lines:
        if line.integer("alignment", 1, 2**30) != alignment:
            raise line.refusal("alignment", "it differs from the first line's", f"{alignment} for all buffers")
    return alignment


def write_packing(ids: Sequence[str], problem: PackingProblem, packing: Packing | Overflow, path: Path) -> None:
    """Write the file; raises OutputError if it cannot be written."""
    write_file(path, packing_to_csv(ids, problem, packing).encode())


def packing_to_csv(ids: Sequence[str], problem: PackingProblem, packing: Packing | Overflow) -> str:
    """Return the text of the file, one line per buffer."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_WRITTEN_COLUMNS)
    writer.writerows(
        (name, buffer.start, buffer.stop, buffer.size_bytes, offset)
        for name, buffer, offset in zip(ids, problem.buffers, packing.offsets_bytes, strict=True)
    )
    return text.getvalue()
