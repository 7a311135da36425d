"""The bytes of an ONNX file without its large weights, which may be many times what memory has room for.

A weight stays in the file: its tensor says, as ONNX's external data does, where in the file it lies.
Only the frame of the protobuf encoding is walked through here; whatever is not understood is read
whole, and it is for the parser to refuse it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnx

from onchip.formats.files import read_file

_SMALL_FILE_BYTES = 2**20
_SMALL_WEIGHT_BYTES = 2**16  # no constant of so few elements that its value might matter is larger
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
        return read_file(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _bare_model(content, path.name)
    except (OSError, ValueError, IndexError):
        return read_file(path)


def own_weight(path: Path, tensor: onnx.TensorProto) -> npt.NDArray[np.uint8] | None:
    """The bytes of a tensor that lie in the model's own file; None if they do not."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    if tensor.data_location != onnx.TensorProto.EXTERNAL or where.get("location") != path.name:
        return None
    return np.fromfile(path, np.uint8, int(where["length"]), offset=int(where["offset"]))


def _bare_model(content: mmap.mmap, name: str) -> bytes:
    parts = []
    for field in _fields(content, 0, len(content)):
        if (field.number, field.wire_type) == (_GRAPH, _LENGTH):
            parts.append(_message(_GRAPH, _bare_graph(content, field, name)))
        else:
            parts.append(content[field.start : field.stop])
    return b"".join(parts)


def _bare_graph(content: mmap.mmap, graph: _Field, name: str) -> bytes:
    parts = []
    for field in _fields(content, graph.value, graph.stop):
        is_large = field.stop - field.value > _SMALL_WEIGHT_BYTES
        if is_large and (field.number, field.wire_type) == (_INITIALIZER, _LENGTH):
            parts.append(_message(_INITIALIZER, _bare_tensor(content, field, name)))
        else:
            parts.append(content[field.start : field.stop])
    return b"".join(parts)


def _bare_tensor(content: mmap.mmap, tensor: _Field, name: str) -> bytes:
    parts = []
    for field in _fields(content, tensor.value, tensor.stop):
        is_large = field.stop - field.value > _SMALL_WEIGHT_BYTES
        if is_large and (field.number, field.wire_type) == (_RAW_DATA, _LENGTH):
            there = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
            length = field.stop - field.value
            for key, value in (("location", name), ("offset", field.value), ("length", length)):
                there.external_data.add(key=key, value=str(value))
            parts.append(there.SerializeToString())  # messages one after the other are merged
        else:
            parts.append(content[field.start : field.stop])
    return b"".join(parts)


def _fields(content: mmap.mmap, start: int, stop: int) -> Iterator[_Field]:
    """The fields of the message in [start, stop); raises ValueError and IndexError where there is none."""
    at = start
    while at < stop:
        tag, value = _varint(content, at)
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
