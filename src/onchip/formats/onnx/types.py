"""ONNX types: how many bits an element has, and which shapes are static."""

from __future__ import annotations

import onnx
from onnx import TensorProto

_BITS_BY_NAME = {
    "FLOAT": 32,
    "DOUBLE": 64,
    "FLOAT16": 16,
    "BFLOAT16": 16,
    "COMPLEX64": 64,
    "COMPLEX128": 128,
    "BOOL": 8,
    "INT8": 8,
    "INT16": 16,
    "INT32": 32,
    "INT64": 64,
    "UINT8": 8,
    "UINT16": 16,
    "UINT32": 32,
    "UINT64": 64,
    "INT4": 4,
    "UINT4": 4,
    "INT2": 2,
    "UINT2": 2,
    "FLOAT4E2M1": 4,
    "FLOAT6E2M3": 6,
    "FLOAT6E3M2": 6,
    "FLOAT8E4M3FN": 8,
    "FLOAT8E4M3FNUZ": 8,
    "FLOAT8E5M2": 8,
    "FLOAT8E5M2FNUZ": 8,
    "FLOAT8E8M0": 8,
}

BITS: dict[int, int] = {
    number: _BITS_BY_NAME[name] for name, number in TensorProto.DataType.items() if name in _BITS_BY_NAME
}
"""Map from element type to bits per element. Strings are absent, and so are types that the installed onnx lacks."""


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
