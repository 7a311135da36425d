"""The JSON file of a packing problem: memories, buffers, and groups; and of its answer, with an offset each.

    {"format": "onchip-packing", "version": 1, "alignment": 1,
     "memories": [{"name": "sram", "capacity": 65536, "alignment": 16}],
     "buffers": [{"id": "a", "start": 0, "stop": 4, "size": 64, "alignment": 32, "offset": 128, "gaps": [[1, 2]],
                  "memories": ["sram"]}],
     "together": [["a", "b"]], "apart": [["a", "c"]]}

Only `format`, `version` and `buffers` with `id`, `start`, `stop` and `size` are required.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from onchip.answer.packing import Buffer
from onchip.arch.memory import Memory
from onchip.errors import InputError, OnchipError, errors_in_file
from onchip.formats.files import document_text, read_file, write_file
from onchip.formats.minimalloc import BufferTable
from onchip.formats.validation import Format, parse

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
            raise InputError("two buffers have one id", place="buffers", expected="an id of its own for each")
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
        raise InputError(error.what, place=place, expected=error.expected) from None


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
