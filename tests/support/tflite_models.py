"""Small TFLite files, built from tensors and operators by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
import tflite

Options = tuple[str, Mapping[str, int | float | bool | str]]
NO_OPTIONS: Options = ("", {})


@dataclass
class TfliteTensor:
    """A tensor, or with `data` a constant; `raw` is a constant's bytes, whatever its shape."""

    name: str
    shape: Sequence[int]
    kind: str = "FLOAT32"
    data: npt.NDArray[Any] | None = None
    is_variable: bool = False
    scale: float | None = None
    raw: bytes | None = None
    signature: Sequence[int] = ()


@dataclass
class TfliteOperator:
    """An operator of a built-in kind, or a custom one named `custom`; operands are names or tensor indices.

    `""` is an absent operand.
    """

    kind: str
    inputs: Sequence[str | int]
    outputs: Sequence[str | int]
    options: Options = NO_OPTIONS
    custom: str = ""
    custom_options: bytes = b""


@dataclass
class TfliteSubgraph:
    """A graph over the names of its tensors; a duplicate name means the first tensor."""

    tensors: Sequence[TfliteTensor]
    operators: Sequence[TfliteOperator]
    inputs: Sequence[str]
    outputs: Sequence[str]
    name: str = "main"


@dataclass
class TfliteModel:
    """A file of some subgraphs; `metadata` are bytes by name."""

    subgraphs: Sequence[TfliteSubgraph]
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    _buffers: list[bytes] = field(default_factory=lambda: [b""])

    def write(self, path: Path) -> Path:
        path.write_bytes(self.content())
        return path

    def content(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        self._buffers = [b""]
        codes = list(dict.fromkeys((o.kind, o.custom) for graph in self.subgraphs for o in graph.operators))
        graphs = [self._subgraph(builder, graph, codes) for graph in self.subgraphs]
        metadata = [self._metadata(builder, name, content) for name, content in self.metadata.items()]
        written = [_code(builder, *code) for code in codes]
        buffers = [self._buffer(builder, content) for content in self._buffers]
        graph_list, code_list = _tables(builder, graphs), _tables(builder, written)
        buffer_list, metadata_list = _tables(builder, buffers), _tables(builder, metadata)
        tflite.ModelStart(builder)
        tflite.ModelAddVersion(builder, 3)
        tflite.ModelAddOperatorCodes(builder, code_list)
        tflite.ModelAddSubgraphs(builder, graph_list)
        tflite.ModelAddBuffers(builder, buffer_list)
        tflite.ModelAddMetadata(builder, metadata_list)
        builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _subgraph(self, builder: flatbuffers.Builder, graph: TfliteSubgraph, codes: list[tuple[str, str]]) -> int:
        tensors = [self._tensor(builder, tensor) for tensor in graph.tensors]
        index = {tensor.name: at for at, tensor in reversed(list(enumerate(graph.tensors)))} | {"": -1}
        operators = [_operator(builder, one, index, codes.index((one.kind, one.custom))) for one in graph.operators]
        name = builder.CreateString(graph.name)
        tensor_list, operator_list = _tables(builder, tensors), _tables(builder, operators)
        inputs = _numbers(builder, [index[each] for each in graph.inputs])
        outputs = _numbers(builder, [index[each] for each in graph.outputs])
        tflite.SubGraphStart(builder)
        tflite.SubGraphAddName(builder, name)
        tflite.SubGraphAddTensors(builder, tensor_list)
        tflite.SubGraphAddInputs(builder, inputs)
        tflite.SubGraphAddOutputs(builder, outputs)
        tflite.SubGraphAddOperators(builder, operator_list)
        return int(tflite.SubGraphEnd(builder))

    def _tensor(self, builder: flatbuffers.Builder, tensor: TfliteTensor) -> int:
        content = tensor.raw if tensor.data is None else np.ascontiguousarray(tensor.data).tobytes()
        if content is not None:
            self._buffers.append(content)
        name, shape = builder.CreateString(tensor.name), _numbers(builder, tensor.shape)
        signature = _numbers(builder, tensor.signature) if tensor.signature else None
        quantisation = None if tensor.scale is None else _quantisation(builder, tensor.scale)
        tflite.TensorStart(builder)
        tflite.TensorAddName(builder, name)
        tflite.TensorAddShape(builder, shape)
        tflite.TensorAddType(builder, getattr(tflite.TensorType, tensor.kind))
        tflite.TensorAddBuffer(builder, 0 if content is None else len(self._buffers) - 1)
        tflite.TensorAddIsVariable(builder, tensor.is_variable)
        if signature is not None:
            tflite.TensorAddShapeSignature(builder, signature)
        if quantisation is not None:
            tflite.TensorAddQuantization(builder, quantisation)
        return int(tflite.TensorEnd(builder))

    def _metadata(self, builder: flatbuffers.Builder, name: str, content: bytes) -> int:
        self._buffers.append(content)
        text = builder.CreateString(name)
        tflite.MetadataStart(builder)
        tflite.MetadataAddName(builder, text)
        tflite.MetadataAddBuffer(builder, len(self._buffers) - 1)
        return int(tflite.MetadataEnd(builder))

    def _buffer(self, builder: flatbuffers.Builder, content: bytes) -> int:
        data = None
        if content:
            data = builder.CreateNumpyVector(np.frombuffer(content, np.uint8))
        tflite.BufferStart(builder)
        if data is not None:
            tflite.BufferAddData(builder, data)
        return int(tflite.BufferEnd(builder))


def network(
    tensors: Sequence[TfliteTensor], operators: Sequence[TfliteOperator], inputs: Sequence[str], outputs: Sequence[str]
) -> TfliteModel:
    """Return a file of one subgraph."""
    return TfliteModel([TfliteSubgraph(tensors, operators, inputs, outputs)])


def _operator(builder: flatbuffers.Builder, operator: TfliteOperator, index: Mapping[str, int], code: int) -> int:
    inputs = _numbers(builder, [_place(name, index) for name in operator.inputs])
    outputs = _numbers(builder, [_place(name, index) for name in operator.outputs])
    name, values = operator.options
    options = _options(builder, name, values) if name else None
    given = builder.CreateNumpyVector(np.frombuffer(operator.custom_options, np.uint8))
    tflite.OperatorStart(builder)
    tflite.OperatorAddOpcodeIndex(builder, code)
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    if operator.custom_options:
        tflite.OperatorAddCustomOptions(builder, given)
    if options is not None:
        tflite.OperatorAddBuiltinOptionsType(builder, getattr(tflite.BuiltinOptions, name))
        tflite.OperatorAddBuiltinOptions(builder, options)
    return int(tflite.OperatorEnd(builder))


def _place(operand: str | int, index: Mapping[str, int]) -> int:
    return operand if isinstance(operand, int) else index[operand]


def _options(builder: flatbuffers.Builder, name: str, values: Mapping[str, int | float | bool | str]) -> int:
    values = {key: builder.CreateString(each) if isinstance(each, str) else each for key, each in values.items()}
    getattr(tflite, f"{name}Start")(builder)
    for field_name, value in values.items():
        getattr(tflite, f"{name}Add{field_name}")(builder, value)
    return int(getattr(tflite, f"{name}End")(builder))


def _code(builder: flatbuffers.Builder, kind: str, custom: str) -> int:
    text = builder.CreateString(custom) if custom else None
    number = getattr(tflite.BuiltinOperator, kind)
    tflite.OperatorCodeStart(builder)
    tflite.OperatorCodeAddBuiltinCode(builder, number)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(number, 127))
    tflite.OperatorCodeAddVersion(builder, 1)
    if text is not None:
        tflite.OperatorCodeAddCustomCode(builder, text)
    return int(tflite.OperatorCodeEnd(builder))


def _quantisation(builder: flatbuffers.Builder, scale: float) -> int:
    builder.StartVector(4, 1, 4)
    builder.PrependFloat32(scale)
    scales = builder.EndVector()
    builder.StartVector(8, 1, 8)
    builder.PrependInt64(0)
    zeros = builder.EndVector()
    tflite.QuantizationParametersStart(builder)
    tflite.QuantizationParametersAddScale(builder, scales)
    tflite.QuantizationParametersAddZeroPoint(builder, zeros)
    return int(tflite.QuantizationParametersEnd(builder))


def _numbers(builder: flatbuffers.Builder, numbers: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(numbers, np.int32)))


def _tables(builder: flatbuffers.Builder, places: Sequence[int]) -> int:
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return int(builder.EndVector())
