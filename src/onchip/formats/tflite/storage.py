"""Which tensors share bytes: views and their base; which are constants, and what is stored for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError
from onchip.formats.tflite.file import ModelFile
from onchip.formats.tflite.network import FlatNetwork, NetworkOperator, NetworkTensor
from onchip.formats.tflite.types import INT4, bits_of, dtype_of
from onchip.ir.tensor import size_in_bytes

VIEWS: Final = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})
_FACTS_OF_A_SHAPE: Final = frozenset({"SHAPE", "RANK"})
_NOT_FOLDED: Final = frozenset({"RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL"})
_PASSED_THROUGH: Final = VIEWS | {"TRANSPOSE"}
_LARGEST_VALUE_ELEMENTS: Final = 1024


@dataclass(frozen=True, slots=True)
class _Folded:
    base: dict[int, int]
    constants: frozenset[int]
    writer: dict[int, NetworkOperator]


class TensorStorage:
    """What is known of a network's tensors before anything runs."""

    def __init__(self, file: ModelFile, network: FlatNetwork) -> None:
        self.network = network
        self._file = file
        self._folded = _folded(network)
        for index, tensor in enumerate(network.tensors):
            if index in self._folded.constants and index not in self._folded.writer:
                _has_its_bytes(tensor)

    def tensor(self, index: int) -> NetworkTensor:
        """The tensor of that index."""
        return self.network.tensors[index]

    def base(self, index: int) -> int:
        """The tensor whose bytes one shows: itself if it is not a view."""
        return self._folded.base.get(index, index)

    def is_constant(self, index: int) -> bool:
        """Whether its value is known before anything runs."""
        return index in self._folded.constants

    def writer(self, index: int) -> NetworkOperator | None:
        """The operator of the file that writes a tensor, folded or not."""
        return self._folded.writer.get(index)

    def is_folded(self, operator: NetworkOperator) -> bool:
        """Whether nothing runs for an operator: it is a view, or its outputs are constants."""
        return all(self.base(index) != index or self.is_constant(index) for index in operator.outputs)

    def state_of(self, operator: NetworkOperator) -> tuple[int, ...]:
        """The variable tensors that an operator reads and writes in their place."""
        return tuple(at for at in dict.fromkeys(operator.inputs) if at >= 0 and self.is_state(at))

    def is_state(self, index: int) -> bool:
        """Whether a tensor keeps its value from one inference to the next."""
        return self.tensor(index).stated.is_variable and index not in self._folded.writer

    def stored_as(self, constant: int) -> Iterator[int]:
        """The constant that is kept for another: itself, or the narrower one that it is dequantised from.

        One behind DENSIFY is kept dense, as the runtime keeps it.
        """
        origin = self._dequantised_from(constant)
        for index in (constant,) if origin is None else (origin,):
            if prod(self.tensor(index).shape):
                yield index

    def value(self, index: int) -> npt.NDArray[Any] | None:
        """The array of a small constant; None for one that is computed, large, or of no numpy type."""
        writer, tensor = self.writer(index), self.tensor(index)
        if writer is not None:
            known = writer.kind in _FACTS_OF_A_SHAPE and len(writer.inputs) > 0
            shape = self.tensor(writer.inputs[0]).shape if known else ()
            return np.array(len(shape) if writer.kind == "RANK" else shape) if known else None
        content, dtype = self.network.content(self._file, index), dtype_of(tensor.element_type)
        if content is None or dtype is None or prod(tensor.shape) > _LARGEST_VALUE_ELEMENTS or tensor.stated.is_sparse:
            return None
        return np.frombuffer(content, dtype).reshape(tensor.shape)

    def _dequantised_from(self, index: int) -> int | None:
        while (writer := self.writer(index)) is not None and writer.inputs:
            if writer.kind == "DEQUANTIZE":
                return writer.inputs[0]
            if writer.kind not in _PASSED_THROUGH:
                return None
            index = writer.inputs[0]
        return None


def _folded(network: FlatNetwork) -> _Folded:
    base: dict[int, int] = {}
    writer: dict[int, NetworkOperator] = {}
    written = {index for operator in network.operators for index in operator.outputs}
    given = written | set(network.inputs)
    constants = {
        index
        for index, tensor in enumerate(network.tensors)
        if index not in given and not tensor.stated.is_variable
        if tensor.stated.content is not None or 0 in tensor.shape
    }
    for operator in network.operators:
        writer |= dict.fromkeys(operator.outputs, operator)
        read = [index for index in operator.inputs if index >= 0]
        are_constants = all(index in constants for index in read)
        if operator.kind in _FACTS_OF_A_SHAPE or (read and are_constants and operator.kind not in _NOT_FOLDED):
            constants.update(operator.outputs)
        elif _is_view(network, operator, constants):
            base[operator.outputs[0]] = base.get(operator.inputs[0], operator.inputs[0])
    return _Folded(base, frozenset(constants), writer)


def _is_view(network: FlatNetwork, operator: NetworkOperator, constants: set[int]) -> bool:
    if operator.kind not in VIEWS or len(operator.outputs) != 1 or not operator.inputs or operator.inputs[0] < 0:
        return False
    if any(index >= 0 and index not in constants for index in operator.inputs[1:]):
        return False
    source, shown = network.tensors[operator.inputs[0]], network.tensors[operator.outputs[0]]
    return prod(source.shape) == prod(shown.shape) and source.element_type == shown.element_type


def _has_its_bytes(tensor: NetworkTensor) -> None:
    """Raise GraphError for a constant that has more or fewer bytes than its shape says."""
    bits, content = bits_of(tensor.element_type), tensor.stated.content
    if bits is None or content is None or tensor.stated.is_sparse:
        return
    expected = size_in_bytes(tensor.shape, bits)
    found = content.stop - content.start
    if found != expected and not (tensor.element_type == INT4 and found == prod(tensor.shape)):
        what = f"its buffer holds {found} bytes"
        raise GraphError(what, place=f"tensor {tensor.name!r}", expected=f"{expected} for {list(tensor.shape)}")
