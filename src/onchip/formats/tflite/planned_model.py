"""A TFLite model with another plan for its arena, and its operators in another order; all else is the same bytes.

The old bytes stay as they are, behind a new root: tables of a flatbuffer name each other by the distance forward, so
the new ones point into the old ones. Only what stands at the root is copied: lists of buffers, metadata and operators.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import flatbuffers
import numpy as np

from onchip.errors import InputError
from onchip.formats.tflite.arena_plan import METADATA, plan_content
from onchip.formats.tflite.file import Accessor, ModelFile, refused_if_damaged

_ALIGNMENT_BYTES: Final = 16
_IDENTIFIER: Final = b"TFL3"
_MODEL_FIELDS: Final = 8
_SUBGRAPHS, _BUFFERS, _METADATA = 2, 4, 6
_SUBGRAPH_FIELDS: Final = 6
_OPERATORS, _DEBUG_INDEX = 3, 5
_LARGE_OPTIONS: Final = (9, 10)
_COMPRESSED: Final = "COMPRESSION_METADATA"
_CONTROL: Final = "model_control_dependencies"


def with_arena_plan(file: ModelFile, offsets: Sequence[int], order: Sequence[int]) -> bytes:
    """The model with an offset for each tensor (-1: the runtime's), its operators in `order`.

    Raises InputError for what would not mean the same behind a new root.
    """
    is_reordered = tuple(order) != tuple(range(len(order)))
    with refused_if_damaged():
        _ensure_it_can_move(file, is_reordered=is_reordered)
        return _Rewriting(file).content(plan_content(offsets), order if is_reordered else None)


def _ensure_it_can_move(file: ModelFile, *, is_reordered: bool) -> None:
    names = {name for name, _ in file.metadata}
    if len(file.subgraphs) > 1:
        raise InputError(f"it has {len(file.subgraphs)} subgraphs, whose lives overlap", expected="one subgraph")
    operators = file.subgraphs[0].operators
    if file.has_outer_buffers or any(_field(one.table, slot) for one in operators for slot in _LARGE_OPTIONS):
        raise InputError("some of its bytes lie behind the flatbuffer, at fixed places", expected="a model below 2 GB")
    if _COMPRESSED in names:
        what = "its tensors are compressed: what kernels need to unpack them is not known"
        raise InputError(what, place=f"metadata {_COMPRESSED!r}", expected="a model that is not")
    if is_reordered and _CONTROL in names:
        what = "it orders operators by their places, which the plan changes"
        raise InputError(what, place=f"metadata {_CONTROL!r}", expected="a plan of --order given")
    _ensure_known(file.table, _MODEL_FIELDS, "Model")
    if is_reordered:
        _ensure_known(file.table.Subgraphs(0), _SUBGRAPH_FIELDS, "SubGraph")


def _ensure_known(table: Accessor, fields: int, name: str) -> None:
    tab = table._tab
    vtable = tab.Pos - struct.unpack_from("<i", tab.Bytes, tab.Pos)[0]
    listed = (struct.unpack_from("<H", tab.Bytes, vtable)[0] - 4) // 2
    if any(_field(table, slot) for slot in range(fields, listed)):
        what = f"its {name} has fields that were not there when this was written"
        raise InputError(what, expected=f"at most the first {fields} fields of the schema")


def _field(table: Accessor, slot: int) -> int:
    """Where a field's bytes stand; 0 where the table does not have it."""
    offset = table._tab.Offset(4 + 2 * slot)
    return int(table._tab.Pos + offset) if offset else 0


class _Rewriting:
    """Writes new tables in front of the file's bytes, as if the builder had written these as well."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        content = file.content + bytes(-len(file.content) % _ALIGNMENT_BYTES)
        self._size = len(content)
        self._builder: Any = flatbuffers.Builder(0)
        self._builder.Bytes, self._builder.head = bytearray(content), 0

    def content(self, plan: bytes, order: Sequence[int] | None) -> bytes:
        """The whole new file."""
        builder, model = self._builder, self._file.table
        buffers, entries = self._tables(model, _BUFFERS), self._tables(model, _METADATA)
        kept = [place for place, (name, _) in zip(entries, self._file.metadata, strict=True) if name != METADATA]
        metadata = self._vector([*kept, self._entry(len(buffers))])
        placed = self._vector([*buffers, self._buffer(plan)])
        fields = {slot: self._target(model, slot) for slot in range(1, _MODEL_FIELDS)}
        fields |= {_BUFFERS: placed, _METADATA: metadata}
        if order is not None:
            fields[_SUBGRAPHS] = self._vector([self._subgraph(model.Subgraphs(0), order)])
        builder.StartObject(_MODEL_FIELDS)
        for slot, target in fields.items():
            builder.PrependUOffsetTRelativeSlot(slot, target, 0)
        builder.PrependUint32Slot(0, model.Version(), 0)
        builder.Finish(builder.EndObject(), file_identifier=_IDENTIFIER)
        return bytes(builder.Output())

    def _subgraph(self, table: Accessor, order: Sequence[int]) -> int:
        operators = self._tables(table, _OPERATORS)
        fields = {slot: self._target(table, slot) for slot in range(_DEBUG_INDEX)}
        fields[_OPERATORS] = self._vector([operators[place] for place in order])
        self._builder.StartObject(_SUBGRAPH_FIELDS)
        for slot, target in fields.items():
            self._builder.PrependUOffsetTRelativeSlot(slot, target, 0)
        if place := _field(table, _DEBUG_INDEX):
            self._builder.PrependInt32Slot(_DEBUG_INDEX, struct.unpack_from("<i", self._file.content, place)[0], -1)
        return int(self._builder.EndObject())

    def _entry(self, buffer: int) -> int:
        name = self._builder.CreateString(METADATA)
        self._builder.StartObject(2)
        self._builder.PrependUint32Slot(1, buffer, 0)
        self._builder.PrependUOffsetTRelativeSlot(0, name, 0)
        return int(self._builder.EndObject())

    def _buffer(self, content: bytes) -> int:
        numbers = np.frombuffer(content, np.uint8)
        self._builder.Prep(_ALIGNMENT_BYTES, len(content))
        data = self._builder.CreateNumpyVector(numbers)
        self._builder.StartObject(1)
        self._builder.PrependUOffsetTRelativeSlot(0, data, 0)
        return int(self._builder.EndObject())

    def _target(self, table: Accessor, slot: int) -> int:
        """What a field of an old table names, as the builder counts: from the end; 0 where there is none."""
        place = _field(table, slot)
        return self._size - table._tab.Indirect(place) if place else 0

    def _tables(self, table: Accessor, slot: int) -> list[int]:
        """The tables that a list of an old table names, as the builder counts."""
        place = _field(table, slot)
        if not place:
            return []
        tab = table._tab
        vector = tab.Indirect(place)
        count = struct.unpack_from("<I", tab.Bytes, vector)[0]
        return [self._size - tab.Indirect(vector + 4 + 4 * at) for at in range(count)]

    def _vector(self, targets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(targets), 4)
        for target in reversed(targets):
            self._builder.PrependUOffsetTRelative(target)
        return int(self._builder.EndVector())
