"""Files of buffers, by the end of their name.

`.csv` of MiniMalloc, `.json` of onchip, and `.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem
from onchip.errors import UsageError
from onchip.formats.minimalloc import BufferTable, read_buffers, write_packing

if TYPE_CHECKING:
    from onchip.formats.mlir import MlirProblem


def read_packing_file(path: Path) -> BufferTable:
    """Read a file of buffers; raises InputError that names file and place."""
    if path.suffix == ".json":
        from onchip.formats.packing_json import read_packing_json

        return read_packing_json(path)
    if path.suffix == ".mlir":
        from onchip.formats.mlir import read_mlir

        return _joined(read_mlir(path))
    return read_buffers(path)


def _joined(problems: Sequence[MlirProblem]) -> BufferTable:
    """Join the problems of a file, one after another in time."""
    buffers, parts, begin = list[Buffer](), list[range](), 0
    for one in problems:
        parts.append(range(len(buffers), len(buffers) + len(one.buffers)))
        buffers += [replace(each, start=begin + each.start, stop=begin + each.stop) for each in one.buffers]
        begin = max((each.stop for each in buffers), default=begin)
    ids = tuple(name for one in problems for name in one.ids)
    return BufferTable(ids, tuple(buffers), parts=tuple(parts) if len(parts) > 1 else ())


def write_packing_file(
    ids: Sequence[str],
    problem: PackingProblem,
    packing: Packing | Overflow,
    path: Path,
    source: Path | None = None,
    memories: Sequence[str | None] | None = None,
) -> None:
    """Write buffers and offsets in the format of the path's name.

    `.mlir` is the text of the source with offsets. Raises OutputError if the file cannot be written, and UsageError if
    the source is of another kind.
    """
    if path.suffix == ".mlir":
        from onchip.formats.files import write_file
        from onchip.formats.mlir import read_mlir, with_offsets

        if source is None or source.suffix != ".mlir":
            what = "offsets are written into the text that was read"
            raise UsageError(what, place="output", expected="an .mlir file as input")
        left = iter(_all_offsets(packing))
        parts = [[next(left) for _ in one.ids] for one in read_mlir(source)]
        write_file(path, with_offsets(source, parts).encode())
    elif path.suffix == ".json":
        from onchip.formats.packing_json import write_packing_json

        write_packing_json(ids, problem.buffers, packing.offsets_bytes, memories, path)
    else:
        write_packing(ids, problem, packing, path)


def _all_offsets(packing: Packing | Overflow) -> list[int]:
    offsets = [offset for offset in packing.offsets_bytes if offset is not None]
    if len(offsets) < len(packing.offsets_bytes):
        what = "offsets are written into the text that was read"
        raise UsageError(what, place="output", expected="all buffers within the capacity")
    return offsets
