"""What a caller binds: symbolic dimensions, shapes and values of network inputs; what stays open is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, OpenDimension, UsageError
from onchip.formats.onnx.types import BITS, type_name

GREATEST_CONSTANT_ELEMENTS: Final = 4096
"""Of an input that a value is bound to: small, so that its value is kept."""


def bind(graph: onnx.GraphProto, bindings: Bindings) -> tuple[OpenDimension, ...]:
    """Put what is bound into the graph, and return what stays open of its inputs.

    Inputs with a value become constants. Sizes below 0 and symbols like `?`, which some exporters write, are open. An
    input may have no elements; a binding may replace a size of 0.
    Raises UsageError for a binding nobody uses or that contradicts the file or another one, GraphError for an input
    that is no tensor.
    """
    for value in graph.input:
        _forget_what_is_no_size(value, least=0)
    for value in (*graph.value_info, *graph.output):
        _forget_what_is_no_size(value, least=1)
    inputs = {value.name: value for value in network_inputs(graph)}
    for value in inputs.values():
        _ensure_tensor(value)
    symbols = _sizes_of_symbols(graph, inputs, bindings)
    for dimension in _dimensions(graph):
        if dimension.dim_param in symbols:
            dimension.dim_value = symbols[dimension.dim_param][0]
    for name, shape in bindings.shapes.items():
        _give_shape(inputs[name], shape)
    for name, numbers in bindings.values.items():
        _make_constant(graph, _named(inputs, name, "--value"), numbers)
    return tuple(_open_dimensions(graph))


def network_inputs(graph: onnx.GraphProto) -> tuple[onnx.ValueInfoProto, ...]:
    """The inputs that are given from outside; parameters may be listed among the inputs, too."""
    parameters = {tensor.name for tensor in graph.initializer}
    parameters |= {tensor.values.name for tensor in graph.sparse_initializer}
    return tuple(value for value in graph.input if value.name not in parameters)


def _forget_what_is_no_size(value: onnx.ValueInfoProto, least: int) -> None:
    """Clear sizes below `least`, and symbols such as `?`, which exporters write for every size that they do not know.

    A declared size of 0 is meant in an input; elsewhere an exporter may not have known the size.
    """
    for dimension in value.type.tensor_type.shape.dim:
        if dimension.HasField("dim_param") and not any(letter.isalnum() for letter in dimension.dim_param):
            dimension.ClearField("dim_param")
        if dimension.HasField("dim_value") and dimension.dim_value < least:
            dimension.ClearField("dim_value")


def _ensure_tensor(value: onnx.ValueInfoProto) -> None:
    if value.type.WhichOneof("value") != "tensor_type":
        kind = value.type.WhichOneof("value") or "type"
        what = f"the network input is of unknown size: {kind}"
        raise GraphError(what, place=f"tensor {value.name!r}", expected="a tensor")


def _sizes_of_symbols(
    graph: onnx.GraphProto, inputs: Mapping[str, onnx.ValueInfoProto], bindings: Bindings
) -> dict[str, tuple[int, str]]:
    """The size of each symbol that is bound, and the option that says it; raises UsageError."""
    known = {dimension.dim_param for dimension in _dimensions(graph) if dimension.dim_param}
    sizes: dict[str, tuple[int, str]] = {}
    for symbol, size in bindings.dims.items():
        if size < 0:
            raise UsageError(f"the size is {size}", place=f"--dim {symbol}", expected="at least 0")
        if symbol not in known:
            listed = ", ".join(repr(each) for each in sorted(known)) or "none: no dimension has a symbol"
            raise UsageError("no tensor has this dimension", place=f"--dim {symbol}", expected=listed)
        sizes[symbol] = size, f"--dim {symbol}"
    for name, shape in bindings.shapes.items():
        option = f"--shape {name}"
        declared = _named(inputs, name, "--shape").type.tensor_type
        if not all(size >= 0 for size in shape):
            raise UsageError(f"its shape is {list(shape)}", place=option, expected="sizes of at least 0")
        if declared.HasField("shape") and len(declared.shape.dim) != len(shape):
            what = f"it gives {len(shape)} dimensions"
            raise UsageError(what, place=option, expected=f"{len(declared.shape.dim)}, as the file declares")
        for axis, (dimension, size) in enumerate(zip(declared.shape.dim, shape, strict=False)):
            if dimension.HasField("dim_value") and dimension.dim_value not in (0, size):
                what = f"dimension {axis} is {dimension.dim_value} in the file"
                raise UsageError(what, place=option, expected=f"{dimension.dim_value}, not {size}")
            said, where = sizes.setdefault(dimension.dim_param, (size, option)) if dimension.dim_param else (size, "")
            if said != size:
                what = f"symbol {dimension.dim_param!r} is {size} here and {said} by {where}"
                raise UsageError(what, place=option, expected="one size for a symbol")
    return sizes


def _named(inputs: Mapping[str, onnx.ValueInfoProto], name: str, option: str) -> onnx.ValueInfoProto:
    if name not in inputs:
        listed = ", ".join(repr(each) for each in inputs) or "none: the network has no inputs"
        raise UsageError("the network has no such input", place=f"{option} {name}", expected=listed)
    return inputs[name]


def _give_shape(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    dimensions = value.type.tensor_type.shape.dim
    del dimensions[:]
    for size in shape:
        dimensions.add(dim_value=size)


def _make_constant(graph: onnx.GraphProto, value: onnx.ValueInfoProto, numbers: tuple[float, ...]) -> None:
    """Make an input an initializer of one number for every element, or of all of its elements."""
    place, tensor = f"--value {value.name}", value.type.tensor_type
    shape = _shape_of_value(tensor, len(numbers), place)
    dtype = np.dtype(tensor_dtype_to_np_dtype(tensor.elem_type)) if tensor.elem_type in BITS else None
    if dtype is None or dtype.kind not in "biuf":
        what = f"its elements are {type_name(tensor.elem_type)}"
        raise UsageError(what, place=place, expected="an input of integers, floats or truth values")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(numbers).astype(dtype)
            is_exact = dtype.kind == "f" or bool((array == np.asarray(numbers)).all())
    except OverflowError:
        is_exact = False
    if not is_exact or (dtype.kind == "f" and not np.isfinite(array).all()):
        what = f"{', '.join(f'{number:g}' for number in numbers[:8])} is no {type_name(tensor.elem_type)}"
        raise UsageError(what, place=place, expected="numbers of the input's type")
    array = np.full(shape, array[0]) if len(numbers) == 1 else array.reshape(shape)
    graph.initializer.append(numpy_helper.from_array(array, value.name))


def _shape_of_value(tensor: onnx.TypeProto.Tensor, count: int, place: str) -> tuple[int, ...]:
    """The input's shape, where one open dimension is as long as the numbers ask for; raises UsageError."""
    if not tensor.HasField("shape"):
        return () if count == 1 else (count,)
    sizes = [dimension.dim_value if dimension.HasField("dim_value") else None for dimension in tensor.shape.dim]
    known = prod(size for size in sizes if size is not None)
    length = count // known if count > 1 and sizes.count(None) == 1 and count % known == 0 else 1
    shape = tuple(length if size is None else size for size in sizes)
    if count not in (1, prod(shape)) or prod(shape) > GREATEST_CONSTANT_ELEMENTS:
        what = f"{count} numbers for an input of shape {list(shape)}"
        raise UsageError(what, place=place, expected=f"one, or all of at most {GREATEST_CONSTANT_ELEMENTS}")
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
