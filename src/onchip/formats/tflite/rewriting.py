"""Write a TFLite model with other tensors and operators in front of the bytes of a file, which stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.formats.tflite.file import ModelFile, refused_if_damaged
from onchip.formats.tflite.graph import BUFFER_ALIGNMENT_BYTES, Front
from onchip.formats.tflite.network import NetworkOperator

_MODEL_FIELDS, _CODES, _SUBGRAPHS, _DESCRIPTION, _BUFFERS = 8, 1, 2, 3, 4
_SUBGRAPH_FIELDS: Final = 6
_TENSOR_FIELDS, _QUANTISATION = 10, 4
_OPERATOR_FIELDS, _OPTIONS = 12, (4, 5)
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
        self.file, self.front, self.tensors = file, Front(BUFFER_ALIGNMENT_BYTES), tensors
        names = [one.name if isinstance(one, NewTensor) else one[0] for one in tensors]
        self.index = {name: at for at, name in enumerate(names)} | {"": -1}
        self.buffers = self.front.targets(file.table, _BUFFERS)
        self.codes = self.front.targets(file.table, _CODES)
        self.added: dict[str, int] = {}

    def model(self, operators: Sequence[NewOperator], ends: tuple[Sequence[str], Sequence[str]]) -> bytes:
        front, table = self.front, self.file.table
        written = front.vector([self._operator(one) for one in operators])
        tensors = front.vector([self._tensor(one) for one in self.tensors])
        inputs, outputs = map(self._named, ends)
        subgraph = front.table(_SUBGRAPH_FIELDS, {0: tensors, 1: inputs, 2: outputs, 3: written}, {})
        fields = {_DESCRIPTION: front.target(table, _DESCRIPTION), _CODES: front.vector(self.codes)}
        fields |= {_SUBGRAPHS: front.vector([subgraph]), _BUFFERS: front.vector(self.buffers)}
        start = front.finished(front.table(_MODEL_FIELDS, fields, {0: table.Version()}))
        return start + self.file.content + bytes(-len(self.file.content) % BUFFER_ALIGNMENT_BYTES)

    def _named(self, names: Sequence[str]) -> int:
        return self.front.integers([self.index[name] for name in names])

    def _tensor(self, tensor: NewTensor | tuple[str, int]) -> int:
        if not isinstance(tensor, NewTensor):
            return -self.file.subgraphs[0].tensors[tensor[1]].place
        front, kind, buffer = self.front, _INT32, 0
        if tensor.content is not None:
            self.buffers.append(front.buffer(np.ascontiguousarray(tensor.content).reshape(-1).view(np.uint8)))
            buffer = len(self.buffers) - 1
        fields = {3: front.text(tensor.name), 0: front.integers(tensor.shape)}
        if tensor.like is not None:
            stated = self.file.table.Subgraphs(0).Tensors(tensor.like)
            fields[_QUANTISATION], kind = front.target(stated, _QUANTISATION), stated.Type()
        return front.table(_TENSOR_FIELDS, fields, {1: kind, 2: buffer})

    def _operator(self, operator: NewOperator) -> int:
        import tflite

        front = self.front
        fields = {1: self._named(operator.inputs), 2: self._named(operator.outputs)}
        if operator.old is not None:
            table = operator.old.stated.table
            numbers = {0: table.OpcodeIndex(), 3: table.BuiltinOptionsType()}
            fields |= {slot: front.target(table, slot) for slot in _OPTIONS}
        else:
            numbers = {0: self._code(operator.kind), 3: getattr(tflite.BuiltinOptions, operator.union)}
            fields[_OPTIONS[0]] = front.table(2, {}, operator.options or {})
        return front.table(_OPERATOR_FIELDS, fields, numbers)

    def _code(self, kind: str) -> int:
        import tflite

        if kind not in self.added:
            number = getattr(tflite.BuiltinOperator, kind)
            self.codes.append(self.front.table(4, {}, {0: min(number, 127), 2: 1, 3: number}))
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
