"""ONNX types: how many bits an element has, and which shapes are static."""

from __future__ import annotations

import onnx
from onnx import TensorProto

BITS: dict[int, int] = {
    TensorProto.FLOAT: 32,
    TensorProto.DOUBLE: 64,
    TensorProto.FLOAT16: 16,
    TensorProto.BFLOAT16: 16,
    TensorProto.COMPLEX64: 64,
    TensorProto.COMPLEX128: 128,
    TensorProto.BOOL: 8,
    TensorProto.INT8: 8,
    TensorProto.INT16: 16,
    TensorProto.INT32: 32,
    TensorProto.INT64: 64,
    TensorProto.UINT8: 8,
    TensorProto.UINT16: 16,
    TensorProto.UINT32: 32,
    TensorProto.UINT64: 64,
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.FLOAT6E2M3: 6,
    TensorProto.FLOAT6E3M2: 6,
    TensorProto.FLOAT8E4M3FN: 8,
    TensorProto.FLOAT8E4M3FNUZ: 8,
    TensorProto.FLOAT8E5M2: 8,
    TensorProto.FLOAT8E5M2FNUZ: 8,
    TensorProto.FLOAT8E8M0: 8,
}
"""Bits per element; types of no fixed size (strings) are not in it."""


def type_name(element_type: int) -> str:
    """ONNX's word for a data type, such as `FLOAT16`."""
    known: dict[int, str] = {number: name for name, number in TensorProto.DataType.items()}
    return known.get(element_type, f"type {element_type}")


def static_shape(kind: onnx.TypeProto) -> tuple[int, ...] | None:
    """The shape of a tensor of known element type and size; None where anything is unknown."""
    tensor = kind.tensor_type
    if kind.WhichOneof("value") != "tensor_type" or not tensor.elem_type or not tensor.HasField("shape"):
        return None
    if not all(dimension.HasField("dim_value") for dimension in tensor.shape.dim):
        return None
    return tuple(dimension.dim_value for dimension in tensor.shape.dim)


def with_declared(inferred: onnx.TypeProto, declared: onnx.TypeProto) -> onnx.TypeProto:
    """What inference found, and where it found nothing what the file declares."""
    if inferred.WhichOneof("value") not in (None, "tensor_type"):
        return inferred
    merged = onnx.TypeProto()
    merged.CopyFrom(declared)
    tensor = inferred.tensor_type
    if tensor.elem_type:
        merged.tensor_type.elem_type = tensor.elem_type
    if tensor.HasField("shape"):
        if len(tensor.shape.dim) != len(merged.tensor_type.shape.dim):
            return inferred
        for target, found in zip(merged.tensor_type.shape.dim, tensor.shape.dim, strict=True):
            if found.HasField("dim_value"):
                target.dim_value = found.dim_value
    return merged
