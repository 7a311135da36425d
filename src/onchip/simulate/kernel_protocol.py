"""Protocols of kernels, which run operators for the machine; the machine knows only bytes and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

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
