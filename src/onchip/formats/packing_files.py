"""Files of buffers, by the end of their name.

`.csv` of MiniMalloc or XLA, `.json` of onchip, ExecuTorch or TVM, `.mlir`, `.txt` or `.log` with TFLite Micro's plan.

The JSON file of onchip has memories, buffers and groups; in an answer each buffer has an offset:

    {"format": "onchip-packing", "version": 1, "alignment": 1,
     "memories": [{"name": "sram", "capacity": 65536, "alignment": 16}],
     "buffers": [{"id": "a", "start": 0, "stop": 4, "size": 64, "alignment": 32, "offset": 128, "gaps": [[1, 2]],
                  "memories": ["sram"]}],
     "together": [["a", "b"]], "apart": [["a", "c"]]}

Only `format`, `version` and `buffers` with `id`, `start`, `stop` and `size` are required.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NotRequired

from typing_extensions import TypedDict

from onchip.answer.packing import Buffer, Overflow, Packing, PackingProblem
from onchip.arch.memory import Memory
from onchip.errors import InputError, OnchipError, UsageError, errors_in_file
from onchip.formats.files import document_text, read_file, write_file
from onchip.formats.minimalloc import BufferTable, read_buffers, write_packing
from onchip.formats.validation import Format, parse

if TYPE_CHECKING:
    from onchip.formats.mlir import MlirProblem
    from onchip.formats.packing_dumps import DumpedArena


PRINTED: Final = (".txt", ".log")


def read_packing_file(path: Path) -> BufferTable:
    """Read a file of buffers; raises InputError that names file and place."""
    if path.suffix == ".json":
        from onchip.formats.packing_dumps import foreign_json

        arenas = foreign_json(path)
        return _joined(arenas) if arenas else read_packing_json(path)
    if path.suffix == ".mlir":
        from onchip.formats.mlir import read_mlir

        return _joined(read_mlir(path))
    if path.suffix in PRINTED:
        from onchip.formats.packing_dumps import read_micro_plan

        return _joined([read_micro_plan(path)])
    from onchip.formats.packing_dumps import xla_allocations

    allocations = xla_allocations(path)
    return read_buffers(path) if allocations is None else _joined([allocations])


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
        raise UsageError("offsets are written into the text that was read", "output", expected)
    return offsets


PACKING_FORMAT: Final = Format("onchip-packing", 1, InputError)


class PackingMemoryFields(TypedDict):
    """A memory: capacity and alignment in bytes."""

    name: str
    capacity: int
    alignment: NotRequired[int]


class PackingBufferFields(TypedDict):
    """A buffer: a half-open lifetime in steps, with gaps; size, alignment and offset in bytes."""

    id: str
    start: int
    stop: int
    size: int
    alignment: NotRequired[int]
    offset: NotRequired[int]
    gaps: NotRequired[list[tuple[int, int]]]
    memories: NotRequired[list[str]]
    memory: NotRequired[str]


class PackingFields(TypedDict):
    """A packing problem or its answer."""

    format: str
    version: int
    alignment: NotRequired[int]
    memories: NotRequired[list[PackingMemoryFields]]
    buffers: list[PackingBufferFields]
    together: NotRequired[list[list[str]]]
    apart: NotRequired[list[list[str]]]


def read_packing_json(path: Path) -> BufferTable:
    """Read a problem; raises InputError with file and place."""
    fields = parse(PackingFields, PACKING_FORMAT, read_file(path), str(path))
    with errors_in_file(str(path)):
        ids = tuple(one["id"] for one in fields["buffers"])
        if len(set(ids)) < len(ids):
            raise InputError("two buffers have one id", "buffers", "an id of its own for each")
        return BufferTable(
            ids,
            tuple(_buffer_of(one, f"buffers[{at}]") for at, one in enumerate(fields["buffers"])),
            fields.get("alignment"),
            tuple(Memory(one["name"], one["capacity"], one.get("alignment", 1)) for one in fields.get("memories", ())),
            tuple(map(tuple, fields.get("together", ()))),
            tuple(map(tuple, fields.get("apart", ()))),
        )


def _buffer_of(fields: PackingBufferFields, place: str) -> Buffer:
    try:
        return Buffer(
            fields["start"],
            fields["stop"],
            fields["size"],
            fields.get("offset"),
            fields.get("alignment", 1),
            tuple(fields.get("gaps", ())),
            tuple(fields.get("memories", ())),
        )
    except OnchipError as error:
        raise InputError(error.what, place, error.expected) from None


def write_packing_json(
    ids: Sequence[str],
    given: Sequence[Buffer],
    offsets: Sequence[int | None],
    memories: Sequence[str | None] | None,
    path: Path,
) -> None:
    """Write the buffers with their offsets, and with their memories if there are several; no offset: outside."""
    buffers: list[dict[str, Any]] = []
    for at, (name, one, offset) in enumerate(zip(ids, given, offsets, strict=True)):
        fields: dict[str, Any] = {"id": name, "start": one.start, "stop": one.stop, "size": one.size_bytes}
        if one.alignment_bytes > 1:
            fields["alignment"] = one.alignment_bytes
        if one.gaps:
            fields["gaps"] = [list(gap) for gap in one.gaps]
        if offset is not None:
            fields["offset"] = offset
        if memories is not None and memories[at] is not None:
            fields["memory"] = memories[at]
        buffers.append(fields)
    head = {"format": PACKING_FORMAT.name, "version": PACKING_FORMAT.version}
    write_file(path, document_text(head, {"buffers": tuple(buffers)}, InputError).encode())
