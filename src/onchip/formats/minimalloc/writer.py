"""MiniMalloc's CSV with offsets: `id,lower,upper,size,offset`, half-open; no offset for what is outside."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from onchip.answer.packing import Overflow, Packing, PackingProblem
from onchip.formats.files import write_file

COLUMNS = ("id", "lower", "upper", "size", "offset")


def write_packing(ids: Sequence[str], problem: PackingProblem, packing: Packing | Overflow, path: Path) -> None:
    """Write the file; raises OutputError where it cannot be written."""
    write_file(path, packing_to_csv(ids, problem, packing).encode())


def packing_to_csv(ids: Sequence[str], problem: PackingProblem, packing: Packing | Overflow) -> str:
    """Return the file's text, a line for each buffer."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(
        (name, buffer.start, buffer.stop, buffer.size_bytes, offset)
        for name, buffer, offset in zip(ids, problem.buffers, packing.offsets_bytes, strict=True)
    )
    return text.getvalue()
