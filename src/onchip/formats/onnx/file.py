"""Read an ONNX file as a model without weights, with its local functions inlined."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import prod
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError
from onnx.defs import onnx_opset_version
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data
from onnx.inliner import inline_local_functions

from onchip.errors import GraphError, InputError
from onchip.formats.files import read_file, too_large
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, all_nodes, subgraphs

GREATEST_MODEL_BYTES = 2**29
"""Largest model without its large weights; the bytes and the parsed model are held at once."""
_SMALL_FILE_BYTES = 2**20
_SMALL_WEIGHT_BYTES = 2**16  # no constant of so few elements that its value might matter is larger
_FIELD_BYTES = 512
"""Extra bytes that each field counts for, because a file of many short fields takes long to walk through."""
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # fields of ModelProto, GraphProto and TensorProto
_LENGTH = 2  # the wire type of fields with a length


class _Field(NamedTuple):
    """A field of a message: [start, stop) with its tag, its value from `value`."""

    number: int
    wire_type: int
    start: int
    value: int
    stop: int


def read_without_weights(path: Path) -> bytes:
    """Return a serialized model whose large initializers are external data in `path` itself; raises InputError.

    Large weights may exceed the memory. Only the outer structure of the protobuf is walked through here; anything that
    is not understood is read completely and left to the parser.
    """
    if not path.is_file() or path.suffix == ".gz" or path.stat().st_size < _SMALL_FILE_BYTES:
        return read_file(path, GREATEST_MODEL_BYTES)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _BareModel(content, path.name).model()
    except (OSError, ValueError, IndexError):
        return read_file(path, GREATEST_MODEL_BYTES)


def own_weight(path: Path, tensor: onnx.TensorProto) -> npt.NDArray[np.uint8] | None:
    """Return the bytes of a tensor that lie in the model's own file; None if they lie elsewhere."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    if tensor.data_location != onnx.TensorProto.EXTERNAL or where.get("location") != path.name:
        return None
    return np.fromfile(path, np.uint8, int(where["length"]), offset=int(where["offset"]))


@dataclass(slots=True)
class _BareModel:
    """The model in `content`, the file called `name`, without its large weights; copies at most `left_bytes`."""

    content: mmap.mmap
    name: str
    left_bytes: int = GREATEST_MODEL_BYTES

    def model(self) -> bytes:
        """Return the model; raises InputError above the limit, ValueError and IndexError for malformed messages."""
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
    """Yield the fields of the message in [start, stop); raises ValueError and IndexError if it is malformed."""
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
    """Return the number at `at` and the position after it; raises ValueError beyond 64 bits."""
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


GREATEST_NODES: Final = 10**6
GREATEST_DEPTH: Final = 200
_Key: TypeAlias = tuple[str, str, str]
"""Domain, name and overload of a function."""

OLDEST_OPSET = 7
_NEWEST_FOREIGN_OPSET = 2**31 - 1
LARGEST_VALUE_ELEMENTS = 4096
"""Largest constant whose value is kept, since a shape may depend on it; larger constants are weights."""


def load_model(path: Path, *, with_weights: bool = False) -> onnx.ModelProto:
    """Load the model of `path`, without the values of its weights unless requested; raises InputError.

    Large weights stay in their file, as `read_without_weights` leaves them.
    """
    model = _parse(read_without_weights(path))
    if not all(isinstance(text, str) for text in _texts(model)):  # protobuf returns text that is not UTF-8 as bytes
        raise InputError("a name in it is not text", expected="names in UTF-8")
    _check_opset(model)
    for tensor in _tensors(model.graph):
        _load_or_drop(tensor, path.parent, keep=with_weights)
    if not model.graph.node:
        raise GraphError("it has no operators", expected="at least one node")
    if not model.graph.output:
        raise GraphError("it has no outputs", expected="at least one network output")
    return without_local_functions(model)


def _parse(content: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise InputError("it is truncated or not an ONNX file", expected="a whole ONNX protobuf") from None
    if not model.HasField("graph") or not model.opset_import:
        what = "it is truncated or not an ONNX file: it has no graph or no opset"
        raise InputError(what, expected="a whole ONNX protobuf")
    return model


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    graph = model.graph
    yield graph.name
    yield from (opset.domain for opset in model.opset_import)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dimension.dim_param for dimension in value.type.tensor_type.shape.dim)
    yield from _texts_of_nodes(graph.node)
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, *function.input, *function.output)
        yield from (*function.attribute, *(opset.domain for opset in function.opset_import))
        yield from _texts_of_nodes(function.node)


def _texts_of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in all_nodes(nodes):
        for inner in subgraphs(node):
            yield from (value.name for value in (*inner.input, *inner.output, *inner.initializer))
        yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)


def _check_opset(model: onnx.ModelProto) -> None:
    for opset in model.opset_import:
        is_own = opset.domain in ("", "ai.onnx")
        oldest, newest = (OLDEST_OPSET, onnx_opset_version()) if is_own else (1, _NEWEST_FOREIGN_OPSET)
        if not oldest <= opset.version <= newest:
            place = f"domain {opset.domain!r}" if opset.domain else None
            what = f"its operators are of opset {opset.version}"
            raise GraphError(what, place=place, expected=f"opset {oldest} to {newest}")


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield all tensors that the graph and its inner graphs state."""
    yield from graph.initializer
    for node in all_nodes(graph.node):
        yield from (attribute.t for attribute in node.attribute if attribute.type == onnx.AttributeProto.TENSOR)
        for inner in subgraphs(node):
            yield from inner.initializer


def _load_or_drop(tensor: onnx.TensorProto, folder: Path, *, keep: bool) -> None:
    """Keep name, type and dimensions, and the values of small tensors if available; keep all data if `keep` is set."""
    is_small = prod(tensor.dims) <= LARGEST_VALUE_ELEMENTS
    if is_small and uses_external_data(tensor):
        try:
            load_external_data_for_tensor(tensor, str(folder))
        except Exception:  # absent or damaged; the reader of the value reports it
            is_small = False
    if is_small:
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    if is_small or keep:
        return
    bare = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    tensor.CopyFrom(bare)


def without_local_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Inline the model's functions; raises GraphError if that is impossible or makes the model too large."""
    if not model.functions:
        return model
    _check_size(model)
    try:
        return inline_local_functions(model)
    except Exception as error:  # the inliner raises whatever its C++ side does
        raise GraphError(f"its local functions cannot be inlined: {error}", expected="valid functions") from None


def _check_size(model: onnx.ModelProto) -> None:
    """Raise GraphError unless the functions can be inlined and leave a network of a size that can be planned."""
    bodies = {(_domain(one.domain), one.name, one.overload): one for one in model.functions}
    calls = {key: Counter(_key(node) for node in _nodes(body.node)) for key, body in bodies.items()}
    called = {key: [one for one in counts if one in calls] for key, counts in calls.items()}
    try:
        order = tuple(TopologicalSorter(called).static_order())
    except CycleError as error:
        name = min(error.args[1], key=list(calls).index)[1]
        raise GraphError("it calls itself", place=f"function {name!r}", expected="functions that end") from None
    nodes, depth = dict[_Key, int](), dict[_Key, int]()
    for key in order:
        nodes[key] = sum(count * nodes.get(one, 1) for one, count in calls[key].items())
        depth[key] = 1 + max((depth.get(one, 0) for one in calls[key]), default=0)
    total = sum(nodes.get(_key(node), 1) for node in _nodes(model.graph.node))
    if total > GREATEST_NODES:
        what = f"with its local functions inlined it has {total if total < 10**18 else 'over 10^18'} nodes"
        raise GraphError(what, expected=f"at most {GREATEST_NODES}")
    if max(depth.values()) > GREATEST_DEPTH:
        what = f"its local functions call each other {max(depth.values())} deep"
        raise GraphError(what, expected=f"at most {GREATEST_DEPTH}")


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes and those of graphs within attributes, which protobuf lets nest a hundred deep."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def _key(node: onnx.NodeProto) -> _Key:
    return _domain(node.domain), node.op_type, node.overload


def _domain(name: str) -> str:
    return "" if name in DEFAULT_DOMAINS else name
