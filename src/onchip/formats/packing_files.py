"""Files of buffers, by the end of their name.

`.csv` of MiniMalloc, `.json` of onchip, ExecuTorch or TVM, `.mlir`, and `.txt` or `.log` with TFLite Micro's plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem
from onchip.errors import UsageError
from onchip.formats.minimalloc import BufferTable, read_buffers, write_packing

if TYPE_CHECKING:
    from onchip.formats.mlir import MlirProblem
    from onchip.formats.packing_dumps import DumpedArena

PRINTED: Final = (".txt", ".log")


def read_packing_file(path: Path) -> BufferTable:
    """Read a file of buffers; raises InputError that names file and place."""
    if path.suffix == ".json":
        from onchip.formats.packing_dumps import foreign_json
        from onchip.formats.packing_json import read_packing_json

        arenas = foreign_json(path)
        return _joined(arenas) if arenas else read_packing_json(path)
    if path.suffix == ".mlir":
        from onchip.formats.mlir import read_mlir

        return _joined(read_mlir(path))
    if path.suffix in PRINTED:
        from onchip.formats.packing_dumps import read_micro_plan

        return _joined([read_micro_plan(path)])
    return read_buffers(path)


def _joined(problems: Sequence[MlirProblem | DumpedArena]) -> BufferTable:
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

    `.mlir`, and `.json` if the source is a program of ExecuTorch, are the text of the source with offsets. Raises
    OutputError if the file cannot be written, and UsageError if the source is of another kind.
    """
    if path.suffix == ".mlir":
        from onchip.formats.files import write_file
        from onchip.formats.mlir import read_mlir, with_offsets

        offsets = _all_offsets(packing, None if source is None or source.suffix != ".mlir" else source)
        parts, begin = [], 0
        for one in read_mlir(source or path):
            parts.append(offsets[begin : begin + len(one.ids)])
            begin += len(one.ids)
        write_file(path, with_offsets(source or path, parts).encode())
    elif path.suffix == ".json":
        from onchip.formats.packing_dumps import foreign_json, write_program
        from onchip.formats.packing_json import write_packing_json

        arenas = foreign_json(source) if source is not None and source.suffix == ".json" else ()
        if source is not None and any(one.values for one in arenas):
            write_program(source, _all_offsets(packing, source), path)
        else:
            write_packing_json(ids, problem.buffers, packing.offsets_bytes, memories, path)
    elif path.suffix in PRINTED:
        from onchip.formats.packing_dumps import write_micro_plan

        write_micro_plan(ids, problem.buffers, packing.offsets_bytes, path)
    else:
        write_packing(ids, problem, packing, path)


def _all_offsets(packing: Packing | Overflow, source: Path | None) -> list[int]:
    offsets = [offset for offset in packing.offsets_bytes if offset is not None]
    if source is None or len(offsets) < len(packing.offsets_bytes):
        expected = "an .mlir file as input" if source is None else "all buffers within the capacity"
        raise UsageError("offsets are written into the text that was read", place="output", expected=expected)
    return offsets
