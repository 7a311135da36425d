"""Random parameters in place of a model's own, scaled so that what the network computes stays finite."""

from __future__ import annotations

import zlib
from math import prod

import numpy as np
import onnx

from onchip.formats.onnx.nodes import kind_of
from onchip.formats.onnx.runtime import Array

_BATCH_NORM_SCALE, _BATCH_NORM_SHIFT, _BATCH_NORM_MEAN, _BATCH_NORM_VARIANCE = 1, 2, 3, 4
_WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "RNN", "GRU", "LSTM", "FusedMatMul"}
_SETTINGS = {
    "Clip",
    "Resize",
    "Upsample",
    "Pad",
    "Pow",
    "QuantizeLinear",
    "DequantizeLinear",
    "OneHot",
    "TopK",
    "Range",
}
"""Kinds whose further operands say how to compute; they are no weights."""


def random_array(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], seed: int) -> Array:
    """A network input: floats in [-1, 1), bytes over their whole range, other integers 0 or 1 (they may be indices)."""
    generator = _generator(name, seed)
    if dtype.kind == "f":
        return (generator.random(shape, np.float32) * 2 - 1).astype(dtype)
    if dtype.itemsize == 1 and dtype.kind in "iu":
        return generator.integers(0, 256, shape).astype(np.uint8).view(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def random_parameter(
    name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], reader: tuple[onnx.NodeProto, int], seed: int
) -> Array | None:
    """What stands for a parameter that `reader`, a node, takes as its operand of that index.

    None where the model's own must stay: single numbers (limits, exponents, scales), settings, and
    integers but for quantised weights.
    """
    node, index = reader
    kind = kind_of(node)
    is_setting = prod(shape) < 2 or (index > 0 and kind in _SETTINGS)
    if dtype.kind == "f" and not is_setting:
        return _random_floats(_generator(name, seed), shape, node, index).astype(dtype, copy=False)
    is_quantised_weight = dtype.kind in "iu" and dtype.itemsize == 1 and len(shape) > 1 and not is_setting
    return random_array(name, dtype, shape, seed) if is_quantised_weight else None


def _random_floats(
    generator: np.random.Generator, shape: tuple[int, ...], node: onnx.NodeProto, index: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    kind = kind_of(node)
    normal = generator.standard_normal
    if kind in _WEIGHTED and index == 1 and len(shape) > 1:
        weights = normal(shape, np.float32)
        weights *= np.float32(1 / np.sqrt(_fan_in(node, shape)))  # in place: there is room for it once
        return weights
    is_shift = kind == "BatchNormalization" and index in (_BATCH_NORM_SHIFT, _BATCH_NORM_MEAN)
    if is_shift or kind in _WEIGHTED:
        return normal(shape, np.float32) * np.float32(0.1)
    if kind == "Gather":
        return normal(shape, np.float32)
    # A variance, a factor, a divisor, a root's argument: positive is right for all, and near 1 keeps the scale.
    return generator.random(shape, np.float32) + np.float32(0.5)


def _fan_in(node: onnx.NodeProto, shape: tuple[int, ...]) -> int:
    """How many products are added up for an element of the output."""
    match node.op_type:
        case "MatMul" | "FusedMatMul":
            return shape[-2]
        case "Gemm":
            is_transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            return shape[1] if is_transposed else shape[0]
        case "ConvTranspose":
            return shape[0] * prod(shape[2:])
    return prod(shape[1:])


def _generator(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
