"""Files of buffers, by the end of their name: `.csv` of MiniMalloc, `.json` of onchip, `.mlir`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem
from onchip.errors import UsageError
from onchip.formats.minimalloc import BufferTable, read_buffers, write_packing


def read_packing_file(path: Path) -> BufferTable:
    """Read a file of buffers; raises InputError that names file and place."""
    if path.suffix == ".json":
        from onchip.formats.packing_json import read_packing_json

        return read_packing_json(path)
    if path.suffix == ".mlir":
        return _mlir_table(path)
    return read_buffers(path)


def _mlir_table(path: Path) -> BufferTable:
    """Join the problems of a file, one after another in time."""
    from dataclasses import replace

    from onchip.formats.mlir import read_mlir

    problems = read_mlir(path)
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
    """Write buffers and offsets in the format of the path's name; `.mlir` is the text of the source with offsets.

    Raises OutputError if the file cannot be written, and UsageError if the source is of another kind.
    """
    if path.suffix == ".json":
        from onchip.formats.packing_json import write_packing_json

        write_packing_json(ids, problem.buffers, packing.offsets_bytes, memories, path)
    elif path.suffix == ".mlir":
        _write_mlir(packing, path, source)
    else:
        write_packing(ids, problem, packing, path)


def _write_mlir(packing: Packing | Overflow, path: Path, source: Path | None) -> None:
    from onchip.formats.files import write_file
    from onchip.formats.mlir import read_mlir, with_offsets

    offsets = [offset for offset in packing.offsets_bytes if offset is not None]
    if source is None or source.suffix != ".mlir" or len(offsets) < len(packing.offsets_bytes):
        raise UsageError("offsets are written into the text that was read", place="output", expected="an .mlir file")
    parts, begin = [], 0
    for one in read_mlir(source):
        parts.append(offsets[begin : begin + len(one.ids)])
        begin += len(one.ids)
    write_file(path, with_offsets(source, parts).encode())
