"""Symbolic dimensions: bound by the caller, refused where they stay unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from onchip.errors import GraphError, UsageError


def bind_dimensions(graph: onnx.GraphProto, dims: Mapping[str, int]) -> None:
    """Put the sizes of `dims` where their symbols stand; afterwards every network input is static.

    Raises UsageError for a binding nobody uses, GraphError for an input whose size is unknown.
    """
    for symbol, size in dims.items():
        if size < 1:
            raise UsageError(f"the size is {size}", place=f"--dim {symbol}", expected="at least 1")
    symbols: set[str] = set()
    for dimension in _dimensions(graph):
        if dimension.dim_param:
            symbols.add(dimension.dim_param)
            if dimension.dim_param in dims:
                dimension.dim_value = dims[dimension.dim_param]
    for symbol in dims:
        if symbol not in symbols:
            known = ", ".join(repr(known) for known in sorted(symbols)) or "none: every dimension has a size"
            raise UsageError("no tensor has this dimension", place=f"--dim {symbol}", expected=known)
    parameters = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name not in parameters:
            _check_input(value)


def _dimensions(graph: onnx.GraphProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for value in (*graph.input, *graph.value_info, *graph.output):
        yield from value.type.tensor_type.shape.dim


def _check_input(value: onnx.ValueInfoProto) -> None:
    place = f"tensor {value.name!r}"
    if value.type.WhichOneof("value") != "tensor_type":
        kind = value.type.WhichOneof("value") or "type"
        raise GraphError(f"the network input is of unknown size: {kind}", place=place, expected="a tensor")
    if not value.type.tensor_type.HasField("shape"):
        raise GraphError("the network input has no shape", place=place, expected="a static shape")
    for index, dimension in enumerate(value.type.tensor_type.shape.dim):
        if dimension.dim_param:
            raise GraphError(
                f"dimension {index} is the symbol {dimension.dim_param!r}",
                place=place,
                expected=f"a size: --dim {dimension.dim_param}=N",
            )
        if not dimension.HasField("dim_value"):
            raise GraphError(f"dimension {index} is unknown and has no symbol", place=place, expected="a size")
        if dimension.dim_value < 1:
            raise GraphError(f"dimension {index} is {dimension.dim_value}", place=place, expected="at least 1")
