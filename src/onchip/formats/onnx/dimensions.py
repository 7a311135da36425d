"""Symbolic dimensions, shapes and values that a caller binds, and suggested options for those that stay open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, InputError, OpenDimension, OpenDimensionsError, UsageError
from onchip.formats.onnx.nodes import BITS, all_nodes, type_name

GREATEST_CONSTANT_ELEMENTS: Final = 4096
"""Largest input that a value can be bound to; its value is kept."""


def bind(graph: onnx.GraphProto, bindings: Bindings) -> tuple[OpenDimension, ...]:
    """Apply bindings to the graph, and return the dimensions of its inputs that stay open.

    Inputs with a value become constants. Sizes below 0 and symbols like `?`, which some exporters write, are open. An
    input may have no elements; a binding may replace a size of 0. Raises UsageError for a binding that is unused or
    contradicts the file or another binding, GraphError for an input that is not a tensor.
    """
    for value in graph.input:
        _forget_what_is_no_size(value, least=0)
    for value in (*graph.value_info, *graph.output):
        _forget_what_is_no_size(value, least=1)
    inputs = {value.name: value for value in network_inputs(graph)}
    for value in inputs.values():
        if (kind := value.type.WhichOneof("value") or "type") != "tensor_type":
            raise GraphError(f"the network input is of unknown size: {kind}", f"tensor {value.name!r}", "a tensor")
    symbols = _sizes_of_symbols(graph, inputs, bindings)
    for dimension in _dimensions(graph):
        if dimension.dim_param in symbols:
            dimension.dim_value = symbols[dimension.dim_param][0]
    for name, shape in bindings.shapes.items():
        _give_shape(inputs[name], shape)
    for name, numbers in bindings.values.items():
        _make_constant(graph, _named(inputs, name, "values"), numbers)
    return tuple(_open_dimensions(graph))


def network_inputs(graph: onnx.GraphProto) -> tuple[onnx.ValueInfoProto, ...]:
    """Return the inputs that are not parameters; ONNX may list parameters among the inputs."""
    parameters = {tensor.name for tensor in graph.initializer}
    parameters |= {tensor.values.name for tensor in graph.sparse_initializer}
    return tuple(value for value in graph.input if value.name not in parameters)


def _forget_what_is_no_size(value: onnx.ValueInfoProto, least: int) -> None:
    """Clear sizes below `least` and symbols such as `?`, which exporters write for unknown sizes.

    A declared size of 0 is valid for an input; elsewhere the exporter may not have known the size.
    """
    for dimension in value.type.tensor_type.shape.dim:
        if dimension.HasField("dim_param") and not any(letter.isalnum() for letter in dimension.dim_param):
            dimension.ClearField("dim_param")
        if dimension.HasField("dim_value") and dimension.dim_value < least:
            dimension.ClearField("dim_value")


def _sizes_of_symbols(
    graph: onnx.GraphProto, inputs: Mapping[str, onnx.ValueInfoProto], bindings: Bindings
) -> dict[str, tuple[int, str]]:
    """Return a map from each bound symbol to its size and option; raises UsageError."""
    known = {dimension.dim_param for dimension in _dimensions(graph) if dimension.dim_param}
    sizes: dict[str, tuple[int, str]] = {}
    for symbol, size in bindings.dims.items():
        if size < 0:
            raise UsageError(f"the size is {size}", f"dims {symbol}", "at least 0")
        if symbol not in known:
            listed = ", ".join(repr(each) for each in sorted(known)) or "none: no dimension has a symbol"
            raise UsageError("no tensor has this dimension", f"dims {symbol}", listed)
        sizes[symbol] = size, f"dims {symbol}"
    for name, shape in bindings.shapes.items():
        option = f"shapes {name}"
        declared = _named(inputs, name, "shapes").type.tensor_type
        if not all(size >= 0 for size in shape):
            raise UsageError(f"its shape is {list(shape)}", option, "sizes of at least 0")
        if declared.HasField("shape") and len(declared.shape.dim) != len(shape):
            what = f"it gives {len(shape)} dimensions"
            raise UsageError(what, option, f"{len(declared.shape.dim)}, as the file declares")
        for axis, (dimension, size) in enumerate(zip(declared.shape.dim, shape, strict=False)):
            if dimension.HasField("dim_value") and dimension.dim_value not in (0, size):
                what = f"dimension {axis} is {dimension.dim_value} in the file"
                raise UsageError(what, option, f"{dimension.dim_value}, not {size}")
            said, where = sizes.setdefault(dimension.dim_param, (size, option)) if dimension.dim_param else (size, "")
            if said != size:
                what = f"symbol {dimension.dim_param!r} is {size} here and {said} by {where}"
                raise UsageError(what, option, "one size for a symbol")
    return sizes


def _named(inputs: Mapping[str, onnx.ValueInfoProto], name: str, option: str) -> onnx.ValueInfoProto:
    if name not in inputs:
        listed = ", ".join(repr(each) for each in inputs) or "none: the network has no inputs"
        raise UsageError("the network has no such input", f"{option} {name}", listed)
    return inputs[name]


def _give_shape(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    dimensions = value.type.tensor_type.shape.dim
    del dimensions[:]
    for size in shape:
        dimensions.add(dim_value=size)


def _make_constant(graph: onnx.GraphProto, value: onnx.ValueInfoProto, numbers: tuple[float, ...]) -> None:
    """Make an input an initializer, filled with one number or with all its elements."""
    place, tensor = f"values {value.name}", value.type.tensor_type
    shape = _shape_of_value(tensor, len(numbers), place)
    dtype = np.dtype(tensor_dtype_to_np_dtype(tensor.elem_type)) if tensor.elem_type in BITS else None
    if dtype is None or dtype.kind not in "biuf":
        what = f"its elements are {type_name(tensor.elem_type)}"
        raise UsageError(what, place, "an input of integers, floats or truth values")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(numbers).astype(dtype)
            is_exact = dtype.kind == "f" or bool((array == np.asarray(numbers)).all())
    except OverflowError:
        is_exact = False
    if not is_exact or (dtype.kind == "f" and not np.isfinite(array).all()):
        what = f"{', '.join(f'{number:g}' for number in numbers[:8])} is no {type_name(tensor.elem_type)}"
        raise UsageError(what, place, "numbers of the input's type")
    array = np.full(shape, array[0]) if len(numbers) == 1 else array.reshape(shape)
    graph.initializer.append(numpy_helper.from_array(array, value.name))


def _shape_of_value(tensor: onnx.TypeProto.Tensor, count: int, place: str) -> tuple[int, ...]:
    """Return the input's shape, where the count of numbers sets one open dimension; raises UsageError."""
    if not tensor.HasField("shape"):
        return () if count == 1 else (count,)
    sizes = [dimension.dim_value if dimension.HasField("dim_value") else None for dimension in tensor.shape.dim]
    known = prod(size for size in sizes if size is not None)
    length = count // known if count > 1 and sizes.count(None) == 1 and count % known == 0 else 1
    shape = tuple(length if size is None else size for size in sizes)
    if count not in (1, prod(shape)) or prod(shape) > GREATEST_CONSTANT_ELEMENTS:
        what = f"{count} numbers for an input of shape {list(shape)}"
        raise UsageError(what, place, f"one, or all of at most {GREATEST_CONSTANT_ELEMENTS}")
    return shape


def _dimensions(graph: onnx.GraphProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for value in (*graph.input, *graph.value_info, *graph.output):
        yield from value.type.tensor_type.shape.dim


def _open_dimensions(graph: onnx.GraphProto) -> Iterator[OpenDimension]:
    for value in network_inputs(graph):
        if not value.type.tensor_type.HasField("shape"):
            yield OpenDimension(value.name, None, None)
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if not dimension.HasField("dim_value"):
                yield OpenDimension(value.name, axis, dimension.dim_param or None)


_SIZES: Final = ((224, 512), (640, 16000), (48, 128), (32, 576), (320, 256), (64, 64), (299, 1024), (16, 10), (1, 1))
"""Rows and columns of images, and lengths of sequences, in the order in which they are tried."""
_GREATEST_VISITS: Final = 20_000
"""Limit on nodes visited while sizes are tried; the first sizes are always tried."""
_SAME_VALUE: Final = {"Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Gather"}


def open_dimensions_error(
    model: onnx.ModelProto, still_open: Sequence[OpenDimension], read: Callable[[onnx.ModelProto], object]
) -> OpenDimensionsError:
    """Return the error that lists the open dimensions of a model, with options for which `read` succeeds if found.

    `read` raises InputError for a model that cannot be read.
    """
    values = _deciding_values(model.graph)
    visits = max(1, sum(1 for _ in all_nodes(model.graph.node)))
    candidates = [replace(_candidate(model.graph, still_open, *sizes), values=values) for sizes in _SIZES]
    for candidate in candidates[: max(1, _GREATEST_VISITS // visits)]:
        closed = onnx.ModelProto()
        closed.CopyFrom(model)
        try:
            bind(closed.graph, candidate)
            read(closed)
        except InputError:
            continue
        return OpenDimensionsError(tuple(still_open), candidate)
    return OpenDimensionsError(tuple(still_open), candidates[0])


def _candidate(graph: onnx.GraphProto, still_open: Sequence[OpenDimension], rows: int, length: int) -> Bindings:
    """Return shapes for inputs that symbols do not close, and sizes for the remaining symbols.

    Images have this number of rows, and sequences this length. In inputs after the first, a dimension without a symbol
    is the batch of a state.
    """
    inputs = {value.name: value.type.tensor_type for value in network_inputs(graph)}
    needs_shape = {one.input for one in still_open if one.symbol is None}
    sizes, shapes = dict[str, int](), dict[str, tuple[int, ...]]()
    for index, name in enumerate(dict.fromkeys(one.input for one in still_open)):
        dimensions = inputs[name].shape.dim
        shape = [] if inputs[name].HasField("shape") else [1, 3, rows, rows]
        for axis, dimension in enumerate(dimensions):
            symbol = dimension.dim_param
            is_batch = axis == 0 or "batch" in symbol.lower() or not (index == 0 or symbol)
            size = 1 if is_batch else length if len(dimensions) <= 3 else rows if axis > 1 else 3
            if dimension.HasField("dim_value"):
                size = dimension.dim_value
            shape.append(sizes.setdefault(symbol, size) if symbol else size)
        if name in needs_shape:
            shapes[name] = tuple(shape)
    left = {one.symbol for one in still_open} - {one.symbol for one in still_open if one.input in needs_shape}
    return Bindings({symbol: size for symbol, size in sizes.items() if symbol in left}, shapes)


def _deciding_values(graph: onnx.GraphProto) -> Mapping[str, tuple[float, ...]]:
    """Return the values of integer inputs that make the first If that compares them with a constant true."""
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
    """Return the tensor from which `name` differs only in shape and type."""
    for _ in range(16):
        node = writer.get(name)
        if node is None or node.op_type not in _SAME_VALUE or not node.input:
            break
        name = node.input[0]
    return name


def _number(tensor: onnx.TensorProto | None, node: onnx.NodeProto | None) -> int | None:
    attributes = node.attribute if node is not None and node.op_type == "Constant" else ()
    tensors = [tensor] if tensor is not None else [one.t for one in attributes if one.name == "value"]
    try:
        array = numpy_helper.to_array(tensors[0]) if tensors else None
    except (TypeError, ValueError):  # one without its values, or damaged
        return None
    return int(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind in "iu" else None
