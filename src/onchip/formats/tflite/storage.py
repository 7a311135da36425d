"""Views and their bases, constants and their stored form, and the order in which a tensor's axes are presented.

Maps are presented as batch, channels, rows, columns; all other tensors as in the file. Only the places of axes differ
from the file. Convolutions, pools and similar kinds mark their operands as maps, and the mark spreads through every
operator that has no order of axes of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError
from onchip.formats.tflite.file import INT4, ModelFile, bits_of, dtype_of
from onchip.formats.tflite.network import FlatNetwork, NetworkOperator, NetworkTensor, readers_of
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
    """Facts about a network's tensors that are known before it runs."""

    def __init__(self, file: ModelFile, network: FlatNetwork) -> None:
        self.network = network
        self._file = file
        self._folded = _folded(network)
        for index, tensor in enumerate(network.tensors):
            if index in self._folded.constants and index not in self._folded.writer:
                _has_its_bytes(tensor)

    def tensor(self, index: int) -> NetworkTensor:
        """Return the tensor of that index."""
        return self.network.tensors[index]

    def base(self, index: int) -> int:
        """Return the tensor whose bytes a tensor shows: itself unless it is a view."""
        return self._folded.base.get(index, index)

    def is_constant(self, index: int) -> bool:
        """Return True if the value is known before the network runs."""
        return index in self._folded.constants

    def writer(self, index: int) -> NetworkOperator | None:
        """Return the operator of the file that writes a tensor, folded or not."""
        return self._folded.writer.get(index)

    def is_folded(self, operator: NetworkOperator) -> bool:
        """Return True if nothing runs for an operator: it is a view, or its outputs are constants."""
        return all(self.base(index) != index or self.is_constant(index) for index in operator.outputs)

    def state_of(self, operator: NetworkOperator) -> tuple[int, ...]:
        """Return the variable tensors that an operator reads and writes in place."""
        return tuple(at for at in dict.fromkeys(operator.inputs) if at >= 0 and self.is_state(at))

    def is_state(self, index: int) -> bool:
        """Return True if a tensor keeps its value from one inference to the next."""
        return self.tensor(index).stated.is_variable and index not in self._folded.writer

    def stored_as(self, constant: int) -> Iterator[int]:
        """Yield the tensor that stores a constant: itself, or the narrower one that it is dequantised from.

        The result of DENSIFY is stored dense, as in the runtime.
        """
        origin = self._dequantised_from(constant)
        for index in (constant,) if origin is None else (origin,):
            if prod(self.tensor(index).shape):
                yield index

    def value(self, index: int) -> npt.NDArray[Any] | None:
        """Return the array of a small constant; None for one that is computed, large, or of no numpy type."""
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
    """Raise GraphError for a constant whose number of bytes does not match its shape."""
    bits, content = bits_of(tensor.element_type), tensor.stated.content
    if bits is None or content is None or tensor.stated.is_sparse:
        return
    expected = size_in_bytes(tensor.shape, bits)
    found = content.stop - content.start
    if found != expected and not (tensor.element_type == INT4 and found == prod(tensor.shape)):
        what = f"its buffer holds {found} bytes"
        raise GraphError(what, f"tensor {tensor.name!r}", f"{expected} for {list(tensor.shape)}")


MAP_RANK: Final = 4
CHANNELS_FIRST: Final = (0, 3, 1, 2)
"""The presented axes of a map, among the file's batch, rows, columns, channels."""
_TURNED: Final = (0, 2, 3, 1)
_MAPS_OF: Final = {
    "CONV_2D": 0,
    "DEPTHWISE_CONV_2D": 0,
    "AVERAGE_POOL_2D": 0,
    "MAX_POOL_2D": 0,
    "L2_POOL_2D": 0,
    "RESIZE_BILINEAR": 0,
    "RESIZE_NEAREST_NEIGHBOR": 0,
    "SPACE_TO_DEPTH": 0,
    "DEPTH_TO_SPACE": 0,
    "LOCAL_RESPONSE_NORMALIZATION": 0,
    "TRANSPOSE_CONV": 2,
    "custom.Convolution2DTransposeBias": 0,
}
"""Map from kinds with rows and columns to the operand that is the map."""
_HAVE_AN_ORDER: Final = frozenset(
    {"TRANSPOSE", "RESHAPE", "BATCH_MATMUL", "FULLY_CONNECTED", "GATHER", "GATHER_ND", "REVERSE_V2", "TILE", "PACK"}
    | {"UNPACK", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "SCATTER_ND", "ONE_HOT", "CUMSUM", "BROADCAST_TO", "EINSUM"}
)
"""Kinds whose operands have different axes."""


@dataclass(frozen=True, slots=True)
class Presentation:
    """Presented axis i is the file's axis `order[i]`; `shape` may have additional axes of one element."""

    order: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Self:
        """Return the axes of `shape`, the file's, in that order, by default unchanged."""
        places = tuple(range(len(shape))) if order is None else order
        return cls(places, tuple(shape[at] for at in places))


class MapLayouts:
    """The tensors of a network that are presented as maps."""

    def __init__(self, storage: TensorStorage) -> None:
        self._storage = storage
        self._group: dict[int, int] = {}
        maps: list[int] = []
        for operator in storage.network.operators:
            if storage.is_folded(operator):
                continue
            if operator.kind in _MAPS_OF:
                maps += [*self._maps(operator.inputs[_MAPS_OF[operator.kind] :][:1]), *self._maps(operator.outputs)]
            elif operator.kind not in _HAVE_AN_ORDER and not operator.kind.startswith("custom."):
                alike = list(self._maps((*operator.inputs, *operator.outputs)))
                for other in alike[1:]:
                    self._group[self._root(other)] = self._root(alike[0])
        self._roots = {self._root(index) for index in maps}
        self._turned: frozenset[int] = frozenset()
        self._turned = frozenset(self._hidden_ends())

    def order(self, index: int) -> tuple[int, ...]:
        """Return the order in which the axes of an activation are presented; it must not be a view."""
        if index in self._turned:
            return _TURNED
        if self._root(index) in self._roots:
            return CHANNELS_FIRST
        return tuple(range(len(self._storage.tensor(index).shape)))

    def presented(self, index: int) -> Presentation:
        """Return the presentation of an activation that is not a view."""
        return Presentation.of(self._storage.tensor(index).shape, self.order(index))

    def is_direct(self, index: int) -> bool:
        """Return True if an operand has its base's shape: it is no view, or a view without effect."""
        storage = self._storage
        return storage.tensor(index).shape == storage.tensor(storage.base(index)).shape

    def _hidden_ends(self) -> Iterator[int]:
        """Yield network inputs and outputs in map order that only a transposition separates from a map.

        In the file's order they would look like the map, and the transposition like an identity.
        """
        network = self._storage.network
        readers = Counter(index for index, _ in readers_of(network))
        wanted = set(network.outputs)
        given = set(network.inputs) - wanted
        for operator in network.operators:
            if operator.kind != "TRANSPOSE" or self._storage.is_folded(operator) or min(operator.inputs) < 0:
                continue
            source, target = operator.inputs[0], operator.outputs[0]
            is_map = [bool({*self._maps((each,))}) and self._root(each) in self._roots for each in (source, target)]
            if source in given and readers[source] == 1 and is_map == [False, True]:
                yield from (source,) if self._moves(operator) == _TURNED else ()
            elif target in wanted and not readers[target] and is_map == [True, False]:
                yield from (target,) if self._moves(operator) == CHANNELS_FIRST else ()

    def _moves(self, operator: NetworkOperator) -> tuple[int, ...]:
        value = self._storage.value(operator.inputs[1]) if self._storage.is_constant(operator.inputs[1]) else None
        return () if value is None else tuple(int(axis) for axis in value.reshape(-1))

    def _maps(self, operands: tuple[int, ...]) -> Iterator[int]:
        """Yield the bases of operands that may be maps."""
        storage = self._storage
        for index in operands:
            if index < 0 or storage.is_constant(index) or len(storage.tensor(index).shape) != MAP_RANK:
                continue
            if self.is_direct(index):
                yield storage.base(index)

    def _root(self, index: int) -> int:
        while (above := self._group.get(index, index)) != index:
            self._group[index] = self._group.get(above, above)
            index = above
        return index
