"""A part of a TFLite model as a model of its own: a few operators, with everything else where it was.

An offset of a flatbuffer leads forwards. So a new root, subgraph and operators are written in front of the old
bytes, and lead to the tensors, buffers and options there, which are not copied one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from onchip.errors import GraphError
from onchip.formats.tflite.file import Accessor, refused_if_damaged
from onchip.formats.tflite.graph import ReadNetwork
from onchip.formats.tflite.network import LOOPS, NetworkOperator

_ALIGNMENT_BYTES: Final = 64
_VERSION: Final = 3
_MODEL_VERSION, _MODEL_CODES, _MODEL_SUBGRAPHS, _MODEL_BUFFERS = 0, 1, 2, 4
_CODE_OLDER_NUMBER, _CODE_VERSION, _CODE_NUMBER = 0, 2, 3
_SUBGRAPH_TENSORS, _SUBGRAPH_INPUTS, _SUBGRAPH_OUTPUTS, _SUBGRAPH_OPERATORS = 0, 1, 2, 3
_OPERATOR_CODE, _OPERATOR_INPUTS, _OPERATOR_OUTPUTS, _OPERATOR_INTERMEDIATES = 0, 1, 2, 8
_OPERATOR_NUMBERS: Final = (3, 6, 11)
"""The types of an operator's options, and the format of its custom ones."""
_OPERATOR_TABLES: Final = (4, 5, 7, 12)
"""An operator's options, which stay where they are, and which of its inputs are variables."""


@dataclass(frozen=True, slots=True)
class _Old:
    """What stands at that byte of the old content."""

    place: int


@dataclass(frozen=True, slots=True)
class _Table:
    """By field: a number, or what the field leads to."""

    fields: dict[int, _Target]


@dataclass(frozen=True, slots=True)
class _Vector:
    """Numbers, or what its entries lead to."""

    entries: Sequence[_Target]


_Target: TypeAlias = "int | _Old | _Table | _Vector"


def part_of_model(
    read: ReadNetwork,
    content: bytes,
    operators: Sequence[NetworkOperator],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> tuple[bytes, int]:
    """The model, and how many bytes stand in front of `content`, the file's; tensors have the network's indices.

    Raises GraphError for a file whose buffers lie behind the flatbuffer, InputError for one that is damaged.
    """
    file = read.file
    if file.has_outer_buffers:
        raise GraphError("its buffers lie behind the flatbuffer, where parts cannot be cut", expected="them inside")
    with refused_if_damaged():
        front = _Front().of(_root(read, operators, inputs, outputs))
    return front + content, len(front)


def _root(
    read: ReadNetwork, operators: Sequence[NetworkOperator], inputs: Sequence[int], outputs: Sequence[int]
) -> _Table:
    """A model of one subgraph, which leads to the codes and buffers of the old one."""
    model, select = read.file.table._tab, read.file.table.OperatorCodesLength()
    tensors = _Vector([_Old(tensor.stated.place) for tensor in read.network.tensors])
    subgraph = _Table(
        {
            _SUBGRAPH_TENSORS: tensors,
            _SUBGRAPH_INPUTS: _Vector(list(inputs)),
            _SUBGRAPH_OUTPUTS: _Vector(list(outputs)),
            _SUBGRAPH_OPERATORS: _Vector([_operator(operator, select) for operator in operators]),
        }
    )
    table, others = read.file.table, range(1, len(read.file.subgraphs))
    run = [_Old(table.Subgraphs(at)._tab.Pos) for at in others] if any(one.kind in LOOPS for one in operators) else []
    return _Table(
        {
            _MODEL_VERSION: _VERSION,
            _MODEL_CODES: _codes(table),
            _MODEL_SUBGRAPHS: _Vector([subgraph, *run]),
            _MODEL_BUFFERS: _Old(_lead(model, _MODEL_BUFFERS)),
        }
    )


def _codes(model: Accessor) -> _Vector:
    """The codes of the old model, and SELECT_V2's behind them."""
    import tflite

    select = tflite.BuiltinOperator.SELECT_V2
    own = _Table({_CODE_OLDER_NUMBER: select, _CODE_VERSION: 1, _CODE_NUMBER: select})
    return _Vector([*(_Old(model.OperatorCodes(at)._tab.Pos) for at in range(model.OperatorCodesLength())), own])


def _operator(operator: NetworkOperator, select: int) -> _Table:
    """The operator with the network's indices; what says how it computes is the old one's, if it stands there."""
    table = operator.stated.table
    if table is None:
        operands = {
            _OPERATOR_INPUTS: _Vector(list(operator.inputs)),
            _OPERATOR_OUTPUTS: _Vector(list(operator.outputs)),
        }
        return _Table({_OPERATOR_CODE: select, **operands})
    old = table._tab
    fields: dict[int, _Target] = {
        _OPERATOR_CODE: table.OpcodeIndex(),
        _OPERATOR_INPUTS: _Vector(list(operator.inputs)),
        _OPERATOR_OUTPUTS: _Vector(list(operator.outputs)),
    }
    if table.IntermediatesLength():
        moved = [int(each) + operator.first_tensor if each >= 0 else -1 for each in table.IntermediatesAsNumpy()]
        fields[_OPERATOR_INTERMEDIATES] = _Vector(moved)
    for number in _OPERATOR_NUMBERS:
        if place := old.Offset(4 + 2 * number):
            fields[number] = old.Bytes[old.Pos + place]
    for number in _OPERATOR_TABLES:
        if old.Offset(4 + 2 * number):
            fields[number] = _Old(_lead(old, number))
    return _Table(fields)


def _lead(table: Accessor, number: int) -> int:
    """Where a field of a table leads."""
    place: int = table.Indirect(table.Pos + table.Offset(4 + 2 * number))
    return place


@dataclass
class _Front:
    """Writes each object behind all that lead to it; `leads` are the places of offsets, and where they lead."""

    content: bytearray = field(default_factory=lambda: bytearray(b"\0\0\0\0TFL3"))
    leads: list[tuple[int, _Target]] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)

    def of(self, root: _Table) -> bytes:
        self.leads.append((0, root))
        at = 0
        while at < len(self.leads):
            _, target = self.leads[at]
            if isinstance(target, _Table | _Vector) and id(target) not in self.places:
                self.places[id(target)] = self._table(target) if isinstance(target, _Table) else self._vector(target)
            at += 1
        self.content += bytes(-len(self.content) % _ALIGNMENT_BYTES)
        for place, target in self.leads:
            ends = len(self.content) + target.place if isinstance(target, _Old) else self.places[id(target)]
            struct.pack_into("<I", self.content, place, ends - place)
        return bytes(self.content)

    def _table(self, table: _Table) -> int:
        """A table of four bytes a field, behind the list of where its fields stand."""
        count = max(table.fields) + 1
        self.content += bytes(-(len(self.content) + 4 + 2 * count) % 4)
        begins = len(self.content)
        numbers = sorted(table.fields)
        slots = [4 + 4 * numbers.index(number) if number in table.fields else 0 for number in range(count)]
        self.content += struct.pack(f"<{2 + count}H", 4 + 2 * count, 4 + 4 * len(numbers), *slots)
        place = len(self.content)
        self.content += struct.pack("<i", place - begins)
        self._entries([table.fields[number] for number in numbers])
        return place

    def _vector(self, vector: _Vector) -> int:
        place = len(self.content)
        self.content += struct.pack("<I", len(vector.entries))
        self._entries(vector.entries)
        return place

    def _entries(self, entries: Sequence[_Target]) -> None:
        for entry in entries:
            if isinstance(entry, int):
                self.content += struct.pack("<i", entry)
            else:
                self.leads.append((len(self.content), entry))
                self.content += bytes(4)
