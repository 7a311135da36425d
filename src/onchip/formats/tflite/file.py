"""Read the bytes of a TFLite file as plain tables, with element types and operator options.

The flatbuffers package follows offsets without checks. Here the total size of all lists is bounded, and offsets that
leave the file are refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from onchip.errors import GraphError, InputError
from onchip.formats.files import read_file

_TYPES: Final[dict[int, tuple[str, int, str]]] = {
    0: ("FLOAT32", 32, "float32"),
    1: ("FLOAT16", 16, "float16"),
    2: ("INT32", 32, "int32"),
    3: ("UINT8", 8, "uint8"),
    4: ("INT64", 64, "int64"),
    5: ("STRING", 0, ""),
    6: ("BOOL", 8, "bool"),
    7: ("INT16", 16, "int16"),
    8: ("COMPLEX64", 64, "complex64"),
    9: ("INT8", 8, "int8"),
    10: ("FLOAT64", 64, "float64"),
    11: ("COMPLEX128", 128, "complex128"),
    12: ("UINT64", 64, "uint64"),
    13: ("RESOURCE", 0, ""),
    14: ("VARIANT", 0, ""),
    15: ("UINT32", 32, "uint32"),
    16: ("UINT16", 16, "uint16"),
    17: ("INT4", 4, ""),
    18: ("BFLOAT16", 16, ""),
}
"""Map from the schema's number to name, bits per element (0: no fixed size), and numpy's name or an empty text."""
INT4: Final = 17


def type_name(number: int) -> str:
    """Return the schema's name of an element type, such as `FLOAT16`."""
    return _TYPES[number][0] if number in _TYPES else f"type {number}"


def bits_of(number: int) -> int | None:
    """Return the bits per element; None for types without a fixed size and for unknown types."""
    return _TYPES[number][1] or None if number in _TYPES else None


def dtype_of(number: int) -> np.dtype[Any] | None:
    """Return the numpy type with the same bytes; None if numpy lacks it."""
    name = _TYPES[number][2] if number in _TYPES else ""
    return np.dtype(name) if name else None


Accessor: TypeAlias = Any
"""A table of the generated schema, which has no types."""
GREATEST_MODEL_BYTES: Final = 2**30
GREATEST_COUNT: Final = 2**17
"""Largest number of tensors, operators or buffers of a file."""
_GREATEST_WORK: Final = 2**23  # names and lists of all tables together: many may share one long list
_GREATEST_RANK: Final = 16
_IDENTIFIER: Final = b"TFL3"
_EXPECTED: Final = "a whole TFLite model"


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes [start, stop) of the file."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor of the file; `content` is the range of a constant's bytes, `place` the position of its table."""

    name: str
    element_type: int
    shape: tuple[int, ...]
    content: ByteRange | None
    is_variable: bool
    is_sparse: bool
    buffer: int
    place: int


@dataclass(frozen=True, slots=True)
class FileOperator:
    """An operator of the file; its operands are indices of the subgraph's tensors, -1 for an absent one.

    `kind` is the schema's name (`CONV_2D`), or `custom.` and the code of a custom operator. `table` reads the other
    fields; None for an operator that is not in the file.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: Accessor = field(compare=False)


@dataclass(frozen=True, slots=True)
class FileSubgraph:
    """A graph of the file: the first is the network, others are bodies of control flow."""

    name: str
    tensors: tuple[FileTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[FileOperator, ...]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The bytes of a file and their contents; `metadata` are byte ranges by name.

    In a large model, buffers may lie behind the flatbuffer: `has_outer_buffers`.
    """

    content: bytes = field(repr=False)
    subgraphs: tuple[FileSubgraph, ...]
    metadata: tuple[tuple[str, ByteRange | None], ...]
    table: Accessor = field(compare=False, repr=False)
    has_outer_buffers: bool = False


def load_model_file(path: Path) -> ModelFile:
    """Read a file; raises InputError for one that is not a whole TFLite model."""
    return model_file(read_file(path, GREATEST_MODEL_BYTES))


def model_file(content: bytes) -> ModelFile:
    """Return the tables of a file's bytes; raises InputError unless they are a whole TFLite model."""
    with refused_if_damaged():
        if len(content) < 8 or content[4:8] != _IDENTIFIER:
            raise InputError("it is no TFLite model (bytes 4 to 8 are not TFL3)", expected=_EXPECTED)
        return _Reader(content).model()


@contextmanager
def refused_if_damaged() -> Iterator[None]:
    """Raise the errors of reading damaged bytes as an InputError of one line."""
    try:
        yield
    except (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise InputError(f"it is damaged: an offset or a count leads outside ({reason})", expected=_EXPECTED) from None


class _Reader:
    """Walks through the tables of `content` once, within a bound on the total size of their lists."""

    def __init__(self, content: bytes) -> None:
        import tflite

        self._schema = tflite
        self._content = content
        self._left = _GREATEST_WORK
        self._kinds = {code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)}
        self._model = tflite.Model.GetRootAs(content)
        self._buffers: tuple[ByteRange | None, ...] = ()
        self._codes: tuple[str, ...] = ()
        self._has_outer = False

    def model(self) -> ModelFile:
        model = self._model
        self._buffers = tuple(self._buffer(model.Buffers(at)) for at in self._range(model.BuffersLength(), "buffers"))
        codes = self._range(model.OperatorCodesLength(), "operator codes")
        self._codes = tuple(self._kind(model.OperatorCodes(at)) for at in codes)
        places = self._range(model.SubgraphsLength(), "subgraphs")
        if not places:
            raise InputError("it has no subgraph", expected=_EXPECTED)
        subgraphs = tuple(self._subgraph(model.Subgraphs(at), at) for at in places)
        return ModelFile(self._content, subgraphs, tuple(self._metadata()), model, self._has_outer)

    def _metadata(self) -> Iterator[tuple[str, ByteRange | None]]:
        for at in self._range(self._model.MetadataLength(), "metadata"):
            entry = self._model.Metadata(at)
            buffer = entry.Buffer()
            yield self._text(entry.Name()), self._buffers[buffer] if buffer < len(self._buffers) else None

    def _subgraph(self, table: Accessor, index: int) -> FileSubgraph:
        tensors = tuple(self._tensor(table.Tensors(at)) for at in self._range(table.TensorsLength(), "tensors"))
        count = len(tensors)
        name = self._text(table.Name())
        place = f"subgraph {index}"
        inputs = self._operands(table.InputsLength(), table.InputsAsNumpy, count, place)
        outputs = self._operands(table.OutputsLength(), table.OutputsAsNumpy, count, place)
        steps = self._range(table.OperatorsLength(), "operators")
        operators = tuple(self._operator(table.Operators(at), at, count) for at in steps)
        return FileSubgraph(name, tensors, inputs, outputs, operators)

    def _tensor(self, table: Accessor) -> FileTensor:
        rank = table.ShapeLength()
        name = self._text(table.Name())
        if rank > _GREATEST_RANK:
            raise GraphError(f"it has {rank} dimensions", f"tensor {name!r}", f"at most {_GREATEST_RANK}")
        shape = tuple(int(size) for size in table.ShapeAsNumpy()) if rank else ()
        buffer = table.Buffer()
        if buffer >= max(len(self._buffers), 1):
            raise GraphError(f"its buffer is {buffer} of {len(self._buffers)}", f"tensor {name!r}", "one of the file's")
        content = self._buffers[buffer] if self._buffers else None
        is_sparse = table.Sparsity() is not None
        return FileTensor(
            name, table.Type(), shape, content, bool(table.IsVariable()), is_sparse, buffer, table._tab.Pos
        )

    def _operator(self, table: Accessor, index: int, tensors: int) -> FileOperator:
        code = table.OpcodeIndex()
        place = f"operator {index}"
        if code >= len(self._codes):
            raise GraphError(f"its code is {code} of {len(self._codes)}", place, "one of the file's")
        inputs = self._operands(table.InputsLength(), table.InputsAsNumpy, tensors, place)
        outputs = self._operands(table.OutputsLength(), table.OutputsAsNumpy, tensors, place)
        return FileOperator(self._codes[code], inputs, tuple(at for at in outputs if at >= 0), table)

    def _operands(self, length: int, read: Callable[[], Accessor], tensors: int, place: str) -> tuple[int, ...]:
        self._spend(length)
        if not length:
            return ()
        operands = tuple(int(index) for index in read())
        if wrong := [index for index in operands if not -1 <= index < tensors]:
            raise GraphError(f"it names tensor {wrong[0]} of {tensors}", place, "one of its subgraph's")
        return operands

    def _kind(self, code: Accessor) -> str:
        # Codes above 127 do not fit the older field, which then says 127.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        kind = self._kinds.get(number, f"BUILTIN_{number}")
        return f"custom.{self._text(code.CustomCode()) or 'unnamed'}" if kind == "CUSTOM" else kind

    def _buffer(self, table: Accessor) -> ByteRange | None:
        """Return the range of a buffer's bytes, inside the flatbuffer or behind it; None for an empty buffer."""
        size, start = table.DataLength(), 0
        if size:
            start = table._tab.Vector(table._tab.Offset(4))
        elif table.Offset() > 1 and table.Size():
            start, size = table.Offset(), table.Size()
            self._has_outer = True
        if not 0 <= start <= start + size <= len(self._content):
            what = f"a buffer of {size} bytes begins at byte {start} of {len(self._content)}"
            raise InputError(what, expected=_EXPECTED)
        return ByteRange(start, start + size) if size else None

    def _range(self, length: int, what: str) -> range:
        if length > GREATEST_COUNT:
            raise InputError(f"it lists {length} {what}", expected=f"at most {GREATEST_COUNT}")
        self._spend(length)
        return range(length)

    def _text(self, text: bytes | None) -> str:
        self._spend(len(text or b"") // 16)
        return (text or b"").decode(errors="backslashreplace").replace("\x00", "")

    def _spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise InputError("its tables list more than a network has", expected=f"at most {_GREATEST_WORK} entries")


def options_of(operator: FileOperator) -> dict[str, int | float]:
    """Return the numbers among an operator's options, with defaults, by name: `StrideW` is `stride_w`.

    The result is empty for an operator without options. Raises InputError for damaged bytes.
    """
    table = operator.table
    if table is None:
        return {}
    with refused_if_damaged():
        for kinds, number, union in (
            ("BuiltinOptions", table.BuiltinOptionsType(), table.BuiltinOptions),
            ("BuiltinOptions2", table.BuiltinOptions2Type(), table.BuiltinOptions2),
        ):
            if number and (place := union()) is not None:
                return _numbers(kinds, number, place)
    return {}


def _numbers(kinds: str, number: int, place: Accessor) -> dict[str, int | float]:
    import tflite

    name = next((name for name, value in vars(getattr(tflite, kinds)).items() if value == number), "")
    schema = getattr(tflite, name, None)
    if schema is None:
        return {}
    options = schema()
    options.Init(place.Bytes, place.Pos)
    found = {}
    for word, read in _readers(schema):
        value = read(options)
        if isinstance(value, bool | int | float):
            found[word] = value
    return found


@cache
def _readers(schema: type) -> tuple[tuple[str, Accessor], ...]:
    """Return the methods that read one number each, with the name of the number."""
    return tuple(
        (re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower(), method)
        for name, method in vars(schema).items()
        if name != "Init" and not name.endswith(("Length", "AsNumpy", "IsNone")) and not isinstance(method, classmethod)
        if callable(method) and len(signature(method).parameters) == 1
    )


_QUANTISED_DIMENSION: Final = 6  # a field of QuantizationParameters


def mended(file: ModelFile) -> bytes:
    """Return the file's bytes, with tensors of one dimension quantised along that one; raises InputError.

    TFLite Micro accepts other dimensions and ai-edge-litert refuses them. Older converters state dimension 3 for a
    bias, as for its weights.
    """
    with refused_if_damaged():
        found = [
            file.table.Subgraphs(at).Tensors(index).Quantization()
            for at, subgraph in enumerate(file.subgraphs)
            for index, tensor in enumerate(subgraph.tensors)
            if len(tensor.shape) == 1
        ]
        wrong = [one._tab for one in found if one is not None and one.QuantizedDimension() > 0]
        places = [table.Pos + table.Offset(4 + 2 * _QUANTISED_DIMENSION) for table in wrong]
    content = bytearray(file.content) if places else file.content
    for place in places:
        struct.pack_into("<i", content, place, 0)
    return bytes(content)
