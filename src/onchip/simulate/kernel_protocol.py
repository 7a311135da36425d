"""Protocols of kernels, which run operators for the machine, and synthetic kernels for networks without a model.

Outputs are floating-point numbers below 2 in magnitude in every format (16, 32 or 64 bits), and none of their bytes
equals the machine's fill. An elementwise operator computes each eight bytes of its output from the same bytes of its
inputs and their position. A Concat does the same with its inputs one after the other. Any other operator computes every
byte from all bytes of all its inputs.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.errors import InputError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""The bytes of one tensor as stored: one dimension, `Tensor.size_bytes` long."""


class Kernels(Protocol):
    """Kernels that run operators on bytes, deterministically: the same operands give the same results, bit for bit."""

    def parameter(self, tensor: Tensor) -> Bytes:
        """Return the initial DRAM contents of a parameter."""

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the operator's outputs; the kernels supply parameters that are not among `operands`."""


def fingerprint(content: Bytes) -> bytes:
    """Return the SHA-256 of the bytes, which identifies them."""
    return sha256(content.data).digest()


class NetworkKernels(Kernels, Protocol):
    """Kernels that supply network inputs, and can be compared with a run of the whole model."""

    @property
    def name(self) -> str:
        """Return the name of the kernels."""

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return the bytes of a network input, generated from the seed."""

    def given_input(self, tensor: Tensor, array: npt.NDArray[np.generic]) -> Bytes:
        """Return the bytes of a given value for the network input or a tile of it.

        Raises InputError for an unsuitable value.
        """

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float | None:
        """Return the relative difference from the whole model's outputs; None without a model."""


Words: TypeAlias = npt.NDArray[np.uint64]

ELEMENTWISE = frozenset(
    {"Add", "Sub", "Mul", "Div", "Sum", "Max", "Min", "Relu", "Clip", "Sigmoid", "Tanh", "HardSwish", "Identity"}
)
_WORD_BYTES = 8
_FINITE = np.uint8(0xBF)  # bit 6 of the highest byte belongs to the exponent: if it is 0, no number is infinite or NaN
_STRIDE = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)


class SeededKernels:
    """Kernels for operators of `graph`; another seed gives another network of the same shapes."""

    name = "made up"

    def __init__(self, graph: Graph, seed: int = 0) -> None:
        self._graph = graph
        self._seed = seed

    def parameter(self, tensor: Tensor) -> Bytes:
        """Return bytes generated from the seed and the tensor's name."""
        return self._made_of(tensor.name, tensor.size_bytes)

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return bytes generated from the seed and the tensor's name."""
        return self._made_of(tensor.name, tensor.size_bytes)

    def given_input(self, tensor: Tensor, array: npt.NDArray[np.generic]) -> Bytes:
        """Return the bytes of a given value of any type; raises InputError for another number of bytes."""
        if array.nbytes != tensor.size_bytes:
            what = f"it holds {array.nbytes} bytes"
            raise InputError(what, place=f"tensor {tensor.name!r}", expected=f"{tensor.size_bytes} bytes")
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> None:
        """Return None, because there is no model."""

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the operator's outputs, each salted with its index, the operator's kind and its name."""
        words = {name: _words(content) for name, content in operands.items()}
        reads = [words[name] for name in (*operator.inputs, *operator.parameters) if name in words]
        written = {}
        for index, name in enumerate(operator.outputs):
            size_bytes = self._graph.tensor[name].size_bytes
            salt = self._salt(f"{operator.kind} {operator.name} {index}")
            local = _local_source(operator, reads, -(-size_bytes // _WORD_BYTES))
            if local is None:
                written[name] = _spread(_digest(reads, salt), size_bytes)
            else:
                written[name] = _mixed(local, salt, size_bytes)
        return written

    def _made_of(self, name: str, size_bytes: int) -> Bytes:
        return _spread(self._salt(name), size_bytes)

    def _salt(self, text: str) -> int:
        return (self._seed * int(_FACTOR) + zlib.crc32(text.encode()) * int(_STRIDE)) % 2**64


def _local_source(operator: Operator, reads: Sequence[Words], words: int) -> Words | None:
    """Return the word-wise source of the output for Concat and elementwise kinds, else None."""
    if operator.kind == "Concat" and sum(map(len, reads)) == words:
        return np.concatenate(reads)
    if operator.kind in ELEMENTWISE and reads and all(len(read) == words for read in reads):
        combined = reads[0].copy()
        for read in reads[1:]:
            combined *= _FACTOR
            combined += read
        return combined
    return None


def _digest(reads: Sequence[Words], salt: int) -> int:
    """Return a number that depends on every word of every input, and on the order of words and inputs."""
    total = salt
    for read in reads:
        weights = np.arange(1, 2 * len(read), 2, dtype=np.uint64)
        weights *= _FACTOR
        total = (total * int(_STRIDE) + int(np.dot(read, weights)) + len(read)) % 2**64
    return total


def _spread(start: int, size_bytes: int) -> Bytes:
    return _mixed(np.zeros(-(-size_bytes // _WORD_BYTES), np.uint64), start, size_bytes)


def _mixed(source: Words, salt: int, size_bytes: int) -> Bytes:
    """Return each word of `source` hashed with its position: a word read from elsewhere gives another result."""
    words = np.arange(len(source), dtype=np.uint64)
    words *= _STRIDE
    words += np.uint64(salt)
    words ^= source
    for _ in range(2):
        words ^= words >> _SHIFT
        words *= _FACTOR
    words ^= words >> _SHIFT
    content: Bytes = words.view(np.uint8)[:size_bytes]
    content &= _FINITE
    return content


def _words(content: Bytes) -> Words:
    padded = np.zeros(-(-len(content) // _WORD_BYTES) * _WORD_BYTES, np.uint8)
    padded[: len(content)] = content
    return padded.view(np.uint64)
