"""Read an ONNX file as a model without weights, with its local functions inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from math import prod
from pathlib import Path
from typing import Final, TypeAlias

import onnx
from google.protobuf.message import DecodeError, Message
from onnx.defs import onnx_opset_version
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data
from onnx.inliner import inline_local_functions

from onchip.errors import GraphError, InputError
from onchip.formats.files import read_file
from onchip.formats.onnx.nodes import DEFAULT_DOMAINS, all_nodes, subgraphs

GREATEST_MODEL_BYTES: Final = 2**31 - 1
"""Largest protobuf; the bytes and the parsed model are held at once."""
GREATEST_NODES: Final = 10**6
GREATEST_DEPTH: Final = 200
_Key: TypeAlias = tuple[str, str, str]
"""Domain, name and overload of a function."""

OLDEST_OPSET = 7
_NEWEST_FOREIGN_OPSET = 2**31 - 1
LARGEST_VALUE_ELEMENTS = 4096
"""Largest constant whose value is kept, since a shape may depend on it; larger constants are weights."""


def load_model(path: Path, *, with_weights: bool = False) -> onnx.ModelProto:
    """Load the model of `path`, without the values of its weights unless requested; raises InputError."""
    model = parsed_model(path)
    _check_opset(model)
    for tensor in _tensors(model.graph):
        _load_or_drop(tensor, path.parent, keep=with_weights)
    if not model.graph.node:
        raise GraphError("it has no operators", expected="at least one node")
    if not model.graph.output:
        raise GraphError("it has no outputs", expected="at least one network output")
    return without_local_functions(model)


def parsed_model(path: Path) -> onnx.ModelProto:
    """Parse the file as it is; raises InputError."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(read_file(path, GREATEST_MODEL_BYTES))
    except DecodeError:
        raise InputError("it is truncated or not an ONNX file", expected="a whole ONNX protobuf") from None
    if not model.HasField("graph") or not model.opset_import:
        what = "it is truncated or not an ONNX file: it has no graph or no opset"
        raise InputError(what, expected="a whole ONNX protobuf")
    if not all(isinstance(text, str) for text in _texts(model)):  # protobuf returns text that is not UTF-8 as bytes
        raise InputError("a name in it is not text", expected="names in UTF-8")
    return model


def _texts(message: Message) -> Iterator[object]:
    """Yield all texts of a message except documentation; of tensors, only the names."""
    if isinstance(message, onnx.TensorProto):
        yield message.name
        return
    for field, value in message.ListFields():
        values = (value,) if isinstance(value, str | bytes | Message) else value
        if field.type == field.TYPE_STRING and field.name != "doc_string":
            yield from values
        elif field.type == field.TYPE_MESSAGE:
            for inner in values:
                yield from _texts(inner)


def _check_opset(model: onnx.ModelProto) -> None:
    for opset in model.opset_import:
        is_own = opset.domain in ("", "ai.onnx")
        oldest, newest = (OLDEST_OPSET, onnx_opset_version()) if is_own else (1, _NEWEST_FOREIGN_OPSET)
        if not oldest <= opset.version <= newest:
            place = f"domain {opset.domain!r}" if opset.domain else None
            raise GraphError(f"its operators are of opset {opset.version}", place, f"opset {oldest} to {newest}")


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
    calls = {key: Counter(_key(node) for node in all_nodes(body.node)) for key, body in bodies.items()}
    called = {key: [one for one in counts if one in calls] for key, counts in calls.items()}
    try:
        order = tuple(TopologicalSorter(called).static_order())
    except CycleError as error:
        name = min(error.args[1], key=list(calls).index)[1]
        raise GraphError("it calls itself", f"function {name!r}", "functions that end") from None
    nodes, depth = dict[_Key, int](), dict[_Key, int]()
    for key in order:
        nodes[key] = sum(count * nodes.get(one, 1) for one, count in calls[key].items())
        depth[key] = 1 + max((depth.get(one, 0) for one in calls[key]), default=0)
    total = sum(nodes.get(_key(node), 1) for node in all_nodes(model.graph.node))
    if total > GREATEST_NODES:
        what = f"with its local functions inlined it has {total if total < 10**18 else 'over 10^18'} nodes"
        raise GraphError(what, expected=f"at most {GREATEST_NODES}")
    if max(depth.values()) > GREATEST_DEPTH:
        what = f"its local functions call each other {max(depth.values())} deep"
        raise GraphError(what, expected=f"at most {GREATEST_DEPTH}")


def _key(node: onnx.NodeProto) -> _Key:
    return _domain(node.domain), node.op_type, node.overload


def _domain(name: str) -> str:
    return "" if name in DEFAULT_DOMAINS else name
