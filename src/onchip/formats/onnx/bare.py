"""The bytes of an ONNX file without its large weights, which may be many times what memory has room for.

A weight stays in the file: its tensor says, as ONNX's external data does, where in the file it lies.
Only the frame of the protobuf encoding is walked through here; whatever is not understood is read
whole, and it is for the parser to refuse it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnx

from onchip.formats.files import read_file, too_large

GREATEST_MODEL_BYTES = 2**29
"""Of a model without its large weights: a copy of it, and what the parser makes of it, are held at once."""
_SMALL_FILE_BYTES = 2**20
_SMALL_WEIGHT_BYTES = 2**16  # no constant of so few elements that its value might matter is larger
_FIELD_BYTES = 512
"""That a field counts for besides its own: a file of nothing but short ones takes long to walk through."""
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # fields of ModelProto, GraphProto and TensorProto
_LENGTH = 2  # the wire type of what has a length


class _Field(NamedTuple):
    """A field of a message: [start, stop) with its tag, its value from `value` on."""

    number: int
    wire_type: int
    start: int
    value: int
    stop: int


def read_without_weights(path: Path) -> bytes:
    """A serialized model whose large initializers are external data in `path` itself; raises InputError."""
    if not path.is_file() or path.suffix == ".gz" or path.stat().st_size < _SMALL_FILE_BYTES:
        return read_file(path, GREATEST_MODEL_BYTES)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _BareModel(content, path.name).model()
    except (OSError, ValueError, IndexError):
        return read_file(path, GREATEST_MODEL_BYTES)


def own_weight(path: Path, tensor: onnx.TensorProto) -> npt.NDArray[np.uint8] | None:
    """The bytes of a tensor that lie in the model's own file; None if they do not."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    if tensor.data_location != onnx.TensorProto.EXTERNAL or where.get("location") != path.name:
        return None
    return np.fromfile(path, np.uint8, int(where["length"]), offset=int(where["offset"]))


@dataclass(slots=True)
class _BareModel:
    """What is left of the model in `content`, the file called `name`; `left_bytes` more may be copied."""

    content: mmap.mmap
    name: str
    left_bytes: int = GREATEST_MODEL_BYTES

    def model(self) -> bytes:
        """Raises InputError for more than may be copied, ValueError and IndexError for what is no message."""
        return b"".join(
            _message(_GRAPH, self._graph(field)) if (field.number, field.wire_type) == (_GRAPH, _LENGTH)
            else self._copy(field)
            for field in _fields(self.content, 0, len(self.content))
        )  # fmt: skip

    def _graph(self, graph: _Field) -> bytes:
        parts = []
        for field in _fields(self.content, graph.value, graph.stop):
            is_large = field.stop - field.value > _SMALL_WEIGHT_BYTES
            if is_large and (field.number, field.wire_type) == (_INITIALIZER, _LENGTH):
                parts.append(_message(_INITIALIZER, self._tensor(field)))
            else:
                parts.append(self._copy(field))
        return b"".join(parts)

    def _tensor(self, tensor: _Field) -> bytes:
        parts = []
        for field in _fields(self.content, tensor.value, tensor.stop):
            is_large = field.stop - field.value > _SMALL_WEIGHT_BYTES
            if is_large and (field.number, field.wire_type) == (_RAW_DATA, _LENGTH):
                there = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
                length = field.stop - field.value
                for key, value in (("location", self.name), ("offset", field.value), ("length", length)):
                    there.external_data.add(key=key, value=str(value))
                parts.append(there.SerializeToString())  # messages one after the other are merged
            else:
                parts.append(self._copy(field))
        return b"".join(parts)

    def _copy(self, field: _Field) -> bytes:
        self.left_bytes -= field.stop - field.start + _FIELD_BYTES
        if self.left_bytes < 0:
            raise too_large(GREATEST_MODEL_BYTES)
        return self.content[field.start : field.stop]


def _fields(content: mmap.mmap, start: int, stop: int) -> Iterator[_Field]:
    """The fields of the message in [start, stop); raises ValueError and IndexError where there is none."""
    at = start
    while at < stop:
        tag, value = _varint(content, at)
        if tag >> 3 == 0:
            raise ValueError("a field without a number")
        match tag & 7:
            case 0:
                end = _varint(content, value)[1]
            case 1:
                end = value + 8
            case 2:
                length, value = _varint(content, value)
                end = value + length
            case 5:
                end = value + 4
            case other:
                raise ValueError(f"wire type {other}")
        if end > stop:
            raise ValueError("a field ends beyond its message")
        yield _Field(tag >> 3, tag & 7, at, value, end)
        at = end


def _varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends; raises ValueError beyond 64 bits."""
    number = shift = 0
    while shift < 64:
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
    raise ValueError("a number of more than 64 bits")


def _message(number: int, content: bytes) -> bytes:
    return _number(number << 3 | _LENGTH) + _number(len(content)) + content


def _number(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
