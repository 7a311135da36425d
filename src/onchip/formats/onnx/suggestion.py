"""Options with which a network can be read that leaves dimensions of its inputs open: tried before they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx
from onnx import numpy_helper

from onchip.answer.bindings import Bindings
from onchip.errors import InputError, OpenDimension, OpenDimensionsError
from onchip.formats.onnx.dimensions import bind, network_inputs
from onchip.formats.onnx.scopes import all_nodes

_SIZES: Final = ((224, 512), (640, 16000), (48, 128), (32, 576), (320, 256), (64, 64), (299, 1024), (16, 10), (1, 1))
"""Rows and columns of images, and lengths of sequences, in the order in which they are tried."""
_GREATEST_VISITS: Final = 20_000
"""Nodes visited while sizes are tried; the first sizes are tried whatever the network."""
_SAME_VALUE: Final = {"Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Gather"}


def open_dimensions_error(
    model: onnx.ModelProto, still_open: Sequence[OpenDimension], read: Callable[[onnx.ModelProto], object]
) -> OpenDimensionsError:
    """The error that lists what is open in a model, with options for which `read` was seen to succeed, if any are.

    `read` raises InputError for a model that cannot be read.
    """
    values = _deciding_values(model.graph)
    visits = max(1, sum(1 for _ in all_nodes(model.graph.node)))
    candidates = [_candidate(model.graph, still_open, *sizes) for sizes in _SIZES]
    for candidate in candidates[: max(1, _GREATEST_VISITS // visits)]:
        bindings = Bindings(candidate.dims, candidate.shapes, values)
        closed = onnx.ModelProto()
        closed.CopyFrom(model)
        try:
            bind(closed.graph, bindings)
            read(closed)
        except InputError:
            continue
        return OpenDimensionsError(tuple(still_open), bindings.options)
    return OpenDimensionsError(tuple(still_open), Bindings(candidates[0].dims, candidates[0].shapes, values).options)


@dataclass(slots=True)
class _Guess:
    """Sizes for what is open, of images and sequences of these sizes; a symbol has one size wherever it stands."""

    rows: int
    length: int
    symbols: dict[str, int]

    def shape(self, value: onnx.ValueInfoProto, *, is_first: bool) -> tuple[int, ...]:
        """A shape for an input; four dimensions where the file says nothing."""
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            return (1, 3, self.rows, self.rows)
        rank = len(tensor.shape.dim)
        return tuple(self._size(dimension, axis, rank, is_first) for axis, dimension in enumerate(tensor.shape.dim))

    def _size(self, dimension: onnx.TensorShapeProto.Dimension, axis: int, rank: int, is_first: bool) -> int:
        """A further input's dimension without a symbol is taken for the batch of a state."""
        if dimension.HasField("dim_value"):
            return int(dimension.dim_value)
        is_batch = axis == 0 or "batch" in dimension.dim_param.lower() or not (is_first or dimension.dim_param)
        size = 1 if is_batch else self.length
        if not is_batch and rank > 3:
            size = self.rows if axis > 1 else 3
        return self.symbols.setdefault(dimension.dim_param, size) if dimension.dim_param else size


def _candidate(graph: onnx.GraphProto, still_open: Sequence[OpenDimension], rows: int, length: int) -> Bindings:
    """A shape for each input that a symbol alone does not close, a size for each symbol that is left."""
    guess = _Guess(rows, length, {})
    inputs = {value.name: value for value in network_inputs(graph)}
    names = dict.fromkeys(one.input for one in still_open)
    guesses = {name: guess.shape(inputs[name], is_first=index == 0) for index, name in enumerate(names)}
    needs_shape = {one.input for one in still_open if one.symbol is None}
    shapes = {name: shape for name, shape in guesses.items() if name in needs_shape}
    left = {one.symbol for one in still_open if one.symbol is not None}
    left -= {one.symbol for one in still_open if one.input in needs_shape}
    return Bindings({symbol: size for symbol, size in guess.symbols.items() if symbol in left}, shapes)


def _deciding_values(graph: onnx.GraphProto) -> Mapping[str, tuple[float, ...]]:
    """Inputs of one integer that decide an If by being equal to a constant: that constant, of the first such If."""
    nodes = list(all_nodes(graph.node))
    writer = {output: node for node in nodes for output in node.output}
    inputs = {value.name for value in network_inputs(graph) if value.type.tensor_type.elem_type in _INTEGERS}
    stated = {tensor.name: tensor for tensor in graph.initializer}
    found: dict[str, tuple[float, ...]] = {}
    for condition in (node.input[0] for node in nodes if node.op_type == "If" and node.input):
        node = writer.get(_source(condition, writer))
        if node is None or node.op_type != "Equal" or len(node.input) != 2:
            continue
        sources = [_source(operand, writer) for operand in node.input]
        for source, other in (sources, sources[::-1]):
            number = _number(stated.get(other), writer.get(other))
            if source in inputs and number is not None:
                found.setdefault(source, (number,))
    return found


_INTEGERS: Final = {onnx.TensorProto.INT64, onnx.TensorProto.INT32}


def _source(name: str, writer: Mapping[str, onnx.NodeProto]) -> str:
    """What `name` is, but for its shape and type."""
    for _ in range(16):
        node = writer.get(name)
        if node is None or node.op_type not in _SAME_VALUE or not node.input:
            break
        name = node.input[0]
    return name


def _number(tensor: onnx.TensorProto | None, node: onnx.NodeProto | None) -> int | None:
    tensors = [tensor] if tensor is not None else list(_values(node))
    try:
        array = numpy_helper.to_array(tensors[0]) if tensors else None
    except (TypeError, ValueError):  # one without its values, or damaged
        return None
    return int(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind in "iu" else None


def _values(node: onnx.NodeProto | None) -> Iterator[onnx.TensorProto]:
    if node is not None and node.op_type == "Constant":
        yield from (attribute.t for attribute in node.attribute if attribute.name == "value")
