"""What runs an operator: handed to the machine, which knows bytes and addresses only."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""The bytes of one tensor, as they lie in memory: one dimension, `Tensor.size_bytes` long."""


class Kernels(Protocol):
    """Runs operators on bytes. The same operands give the same results, bit for bit, however often it is asked."""

    def parameter(self, tensor: Tensor) -> Bytes:
        """What DRAM holds of a parameter from the start."""

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """The operator's outputs. Parameters that are not among `operands` are its own affair."""


def fingerprint(content: Bytes) -> bytes:
    """Equal for equal bytes, and for nothing else that could be met."""
    return sha256(content.data).digest()


class NetworkKernels(Kernels, Protocol):
    """Kernels that know what the network is fed, and can be held against a run of the whole model."""

    @property
    def name(self) -> str:
        """Return the name of what runs the operators."""

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return the bytes of a network input, made of the seed."""

    def given_input(self, tensor: Tensor, array: npt.NDArray[np.generic]) -> Bytes:
        """A value handed in for the network input, of which the tensor may be a band; raises InputError."""

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float | None:
        """Relative; None where there is no model to compare with."""
