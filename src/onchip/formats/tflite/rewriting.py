"""Write a TFLite model with other tensors and operators in front of the bytes of a file, which stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.formats.tflite.file import ModelFile, refused_if_damaged
from onchip.formats.tflite.graph import Front, field_place
from onchip.formats.tflite.network import NetworkOperator

_ALIGNMENT_BYTES: Final = 16
_MODEL_FIELDS, _CODES, _SUBGRAPHS, _BUFFERS = 8, 1, 2, 4
_SUBGRAPH_FIELDS: Final = 6
_TENSOR_FIELDS, _QUANTISATION = 10, 4
_OPERATOR_FIELDS, _OPTIONS = 12, 4
_INTERMEDIATES: Final = 8
_INT32: Final = 2
"""The schema's number of the element type."""


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor of the new model: with the type and quantisation of tensor `like` of the file, or int32 without one."""

    name: str
    shape: tuple[int, ...]
    like: int | None = None
    content: npt.NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class NewOperator:
    """An operator over the tensors of the new model, by name.

    It has the kind and options of an `old` operator, or is of a built-in `kind` with options of the schema's `union`
    name: numbers by their slots.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    old: NetworkOperator | None = None
    kind: str = ""
    union: str = ""
    options: Mapping[int, int] | None = None


def rewritten_model(
    file: ModelFile,
    tensors: Sequence[NewTensor | tuple[str, int]],
    operators: Sequence[NewOperator],
    ends: tuple[Sequence[str], Sequence[str]],
) -> bytes:
    """Return a model of one subgraph with these tensors: new ones, and pairs of a name and an index of the file.

    `ends` are the inputs and the outputs. An empty name is an absent operand.
    """
    with refused_if_damaged():
        return _Writer(file, tensors).model(operators, ends)


class _Writer:
    def __init__(self, file: ModelFile, tensors: Sequence[NewTensor | tuple[str, int]]) -> None:
        self.file, self.front, self.tensors = file, Front(_ALIGNMENT_BYTES), tensors
        names = [one.name if isinstance(one, NewTensor) else one[0] for one in tensors]
        self.index = {name: at for at, name in enumerate(names)} | {"": -1}
        self.buffers = self.front.targets(file.table, _BUFFERS)
        self.codes = self.front.targets(file.table, _CODES)
        self.added: dict[str, int] = {}

    def model(self, operators: Sequence[NewOperator], ends: tuple[Sequence[str], Sequence[str]]) -> bytes:
        front, table = self.front, self.file.table
        written = {1: front.vector([self._operator(one) for one in operators])}
        tensors = front.vector([self._tensor(one) for one in self.tensors])
        inputs, outputs = (front.integers([self.index[name] for name in names]) for names in ends)
        subgraph = front.table(_SUBGRAPH_FIELDS, {0: tensors, 1: inputs, 2: outputs, 3: written[1]}, {})
        fields = {slot: front.target(table, slot) for slot in (3,)}
        fields |= {_CODES: front.vector(self.codes), _SUBGRAPHS: front.vector([subgraph])}
        fields[_BUFFERS] = front.vector(self.buffers)
        start = front.finished(front.table(_MODEL_FIELDS, fields, {0: table.Version()}))
        return start + self.file.content + bytes(-len(self.file.content) % _ALIGNMENT_BYTES)

    def _tensor(self, tensor: NewTensor | tuple[str, int]) -> int:
        if not isinstance(tensor, NewTensor):
            return -self.file.subgraphs[0].tensors[tensor[1]].place
        builder = self.front.builder
        buffer = 0 if tensor.content is None else self._buffer(tensor.content)
        name, shape = builder.CreateString(tensor.name), self.front.integers(tensor.shape)
        builder.StartObject(_TENSOR_FIELDS)
        builder.PrependUOffsetTRelativeSlot(0, shape, 0)
        builder.PrependUint32Slot(2, buffer, 0)
        builder.PrependUOffsetTRelativeSlot(3, name, 0)
        if tensor.like is None:
            builder.PrependInt8Slot(1, _INT32, 0)
        else:
            stated = self.file.table.Subgraphs(0).Tensors(tensor.like)
            builder.PrependUOffsetTRelativeSlot(4, self.front.target(stated, _QUANTISATION), 0)
            builder.PrependInt8Slot(1, stated.Type(), 0)
        return int(builder.EndObject())

    def _buffer(self, content: npt.NDArray[Any]) -> int:
        builder, raw = self.front.builder, np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        builder.Prep(_ALIGNMENT_BYTES, len(raw))
        data = builder.CreateNumpyVector(raw)
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, data, 0)
        self.buffers.append(int(builder.EndObject()))
        return len(self.buffers) - 1

    def _operator(self, operator: NewOperator) -> int:
        import tflite

        front, builder = self.front, self.front.builder
        inputs, outputs = (
            front.integers([self.index[name] for name in names]) for names in (operator.inputs, operator.outputs)
        )
        options, number = 0, 0
        if operator.old is not None:
            table = operator.old.stated.table
            code, number = table.OpcodeIndex(), table.BuiltinOptionsType()
            places = {slot: front.target(table, slot) for slot in (_OPTIONS, 5) if field_place(table, slot)}
        else:
            code, number = self._code(operator.kind), getattr(tflite.BuiltinOptions, operator.union)
            builder.StartObject(2)
            for slot, value in (operator.options or {}).items():
                builder.PrependInt32Slot(slot, value, 0)
            options = int(builder.EndObject())
            places = {_OPTIONS: options}
        builder.StartObject(_OPERATOR_FIELDS)
        builder.PrependUint32Slot(0, code, 0)
        builder.PrependUOffsetTRelativeSlot(1, inputs, 0)
        builder.PrependUOffsetTRelativeSlot(2, outputs, 0)
        for slot, target in places.items():
            builder.PrependUOffsetTRelativeSlot(slot, target, 0)
        builder.PrependUint8Slot(3, number, 0)
        return int(builder.EndObject())

    def _code(self, kind: str) -> int:
        import tflite

        if kind not in self.added:
            number = getattr(tflite.BuiltinOperator, kind)
            builder = self.front.builder
            builder.StartObject(4)
            builder.PrependInt8Slot(0, min(number, 127), 0)
            builder.PrependInt32Slot(2, 1, 0)
            builder.PrependInt32Slot(3, number, 0)
            self.codes.append(int(builder.EndObject()))
            self.added[kind] = len(self.codes) - 1
        return self.added[kind]


def zero_point(file: ModelFile, tensor: int) -> int:
    """Return the integer that stands for zero in a tensor of the file; 0 without a quantisation."""
    with refused_if_damaged():
        found = file.table.Subgraphs(0).Tensors(tensor).Quantization()
        return int(found.ZeroPoint(0)) if found is not None and found.ZeroPointLength() else 0


def count_of_scales(file: ModelFile, tensor: int) -> int:
    """Return the number of scales of a tensor of the file: one for each channel, one for all, or none."""
    with refused_if_damaged():
        found = file.table.Subgraphs(0).Tensors(tensor).Quantization()
        return 0 if found is None else int(found.ScaleLength())
