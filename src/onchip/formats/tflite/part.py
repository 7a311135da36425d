"""New flatbuffer tables in front of the bytes of a TFLite file, and a part of a model as a model of its own.

An offset of a flatbuffer leads forwards. Therefore new tables in front of the old bytes can lead to the tables,
vectors and strings there, which are not copied.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import flatbuffers

from onchip.errors import GraphError
from onchip.formats.tflite.file import Accessor, refused_if_damaged
from onchip.formats.tflite.graph import ReadNetwork
from onchip.formats.tflite.network import LOOPS, NetworkOperator

IDENTIFIER: Final = b"TFL3"
_ALIGNMENT_BYTES: Final = 64
_VERSION: Final = 3
_MODEL_FIELDS, _MODEL_VERSION, _MODEL_CODES, _MODEL_SUBGRAPHS, _MODEL_BUFFERS = 5, 0, 1, 2, 4
_CODE_FIELDS, _CODE_OLDER_NUMBER, _CODE_VERSION, _CODE_NUMBER = 4, 0, 2, 3
_SUBGRAPH_FIELDS, _SUBGRAPH_TENSORS, _SUBGRAPH_INPUTS, _SUBGRAPH_OUTPUTS, _SUBGRAPH_OPERATORS = 4, 0, 1, 2, 3
_OPERATOR_FIELDS, _OPERATOR_CODE, _OPERATOR_INPUTS, _OPERATOR_OUTPUTS, _OPERATOR_INTERMEDIATES = 13, 0, 1, 2, 8
_OPERATOR_NUMBERS: Final = (3, 6, 11)
"""Types of an operator's options, and the format of custom options."""
_OPERATOR_TABLES: Final = (4, 5, 7, 12)
"""Options of an operator, which stay in place, and the list of inputs that are variables."""


def field_place(table: Accessor, slot: int) -> int:
    """Return the position of a field's bytes in the file; 0 if the table does not have the field."""
    offset = table._tab.Offset(4 + 2 * slot)
    return int(table._tab.Pos + offset) if offset else 0


class Front:
    """A builder of tables in front of the bytes of a file.

    A target is the builder's position of a new object, or minus the position of an old object in the file; 0 is none.
    """

    def __init__(self, alignment_bytes: int) -> None:
        self.builder: Any = flatbuffers.Builder(0)
        self.builder.minalign = alignment_bytes

    def target(self, table: Accessor, slot: int) -> int:
        """Return the target of a field of an old table; 0 if the table does not have the field."""
        place = field_place(table, slot)
        return -int(table._tab.Indirect(place)) if place else 0

    def targets(self, table: Accessor, slot: int) -> list[int]:
        """Return the targets in a vector of an old table; empty if the table does not have the field."""
        tab, vector = table._tab, -self.target(table, slot)
        count = struct.unpack_from("<I", tab.Bytes, vector)[0] if vector else 0
        return [-int(tab.Indirect(vector + 4 + 4 * at)) for at in range(count)]

    def vector(self, targets: Sequence[int]) -> int:
        """Write a vector of offsets; return its target."""
        self.builder.StartVector(4, len(targets), 4)
        for target in reversed(targets):
            self.builder.PrependUOffsetTRelative(target)
        return int(self.builder.EndVector())

    def integers(self, numbers: Sequence[int]) -> int:
        """Write a vector of int32 numbers; return its target."""
        self.builder.StartVector(4, len(numbers), 4)
        for number in reversed(numbers):
            self.builder.PrependInt32(number)
        return int(self.builder.EndVector())

    def table(self, fields: int, targets: Mapping[int, int], numbers: Mapping[int, int]) -> int:
        """Write a table with this number of fields, each of four bytes; return its target."""
        self.builder.StartObject(fields)
        for slot, target in targets.items():
            self.builder.PrependUOffsetTRelativeSlot(slot, target, 0)
        for slot, number in numbers.items():
            self.builder.PrependInt32Slot(slot, number, None)
        return int(self.builder.EndObject())

    def finished(self, root: int) -> bytes:
        """Return the bytes in front of the file's, padded to the alignment."""
        self.builder.Finish(root, file_identifier=IDENTIFIER)
        return bytes(self.builder.Output())


def part_of_model(
    read: ReadNetwork,
    content: bytes,
    operators: Sequence[NetworkOperator],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> tuple[bytes, int]:
    """Return a model of these operators, and the number of bytes in front of `content`, the bytes of the file.

    Tensors keep the indices of the network. Raises GraphError for a file with buffers behind the flatbuffer, InputError
    for a damaged file.
    """
    file = read.file
    if file.has_outer_buffers:
        raise GraphError("its buffers lie behind the flatbuffer, where parts cannot be cut", expected="them inside")
    with refused_if_damaged():
        front, table = Front(_ALIGNMENT_BYTES), file.table
        select = table.OperatorCodesLength()
        targets = {
            _SUBGRAPH_TENSORS: front.vector([-tensor.stated.place for tensor in read.network.tensors]),
            _SUBGRAPH_INPUTS: front.integers(inputs),
            _SUBGRAPH_OUTPUTS: front.integers(outputs),
            _SUBGRAPH_OPERATORS: front.vector([_operator(front, operator, select) for operator in operators]),
        }
        subgraphs = [front.table(_SUBGRAPH_FIELDS, targets, {})]
        if any(one.kind in LOOPS for one in operators):
            subgraphs += [-table.Subgraphs(at)._tab.Pos for at in range(1, len(file.subgraphs))]
        targets = {
            _MODEL_CODES: _codes(front, table),
            _MODEL_SUBGRAPHS: front.vector(subgraphs),
            _MODEL_BUFFERS: front.target(table, _MODEL_BUFFERS),
        }
        start = front.finished(front.table(_MODEL_FIELDS, targets, {_MODEL_VERSION: _VERSION}))
    return start + content, len(start)


def _codes(front: Front, model: Accessor) -> int:
    """Write the operator codes of the old model, followed by SELECT_V2."""
    import tflite

    select = tflite.BuiltinOperator.SELECT_V2
    own = front.table(_CODE_FIELDS, {}, {_CODE_OLDER_NUMBER: select, _CODE_VERSION: 1, _CODE_NUMBER: select})
    return front.vector([*(-model.OperatorCodes(at)._tab.Pos for at in range(model.OperatorCodesLength())), own])


def _operator(front: Front, operator: NetworkOperator, select: int) -> int:
    """Write an operator with the indices of the network; its options are those of the old operator, if it has one."""
    table = operator.stated.table
    targets = {_OPERATOR_INPUTS: front.integers(operator.inputs), _OPERATOR_OUTPUTS: front.integers(operator.outputs)}
    if table is None:
        return front.table(_OPERATOR_FIELDS, targets, {_OPERATOR_CODE: select})
    if table.IntermediatesLength():
        moved = [int(each) + operator.first_tensor if each >= 0 else -1 for each in table.IntermediatesAsNumpy()]
        targets[_OPERATOR_INTERMEDIATES] = front.integers(moved)
    targets |= {slot: front.target(table, slot) for slot in _OPERATOR_TABLES}
    places = {slot: field_place(table, slot) for slot in _OPERATOR_NUMBERS}
    numbers = {slot: table._tab.Bytes[place] for slot, place in places.items() if place}
    return front.table(_OPERATOR_FIELDS, targets, {_OPERATOR_CODE: table.OpcodeIndex(), **numbers})
