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
from typing import Any, Final, Self, TypeAlias

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


MAP_RANK: Final = 4
CHANNELS_FIRST: Final = (0, 3, 1, 2)
"""A map's axes among the file's batch, rows, columns, channels."""
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
"""Kinds that are about rows and columns, and which of their operands is the map."""
_HAVE_AN_ORDER: Final = frozenset(
    {"TRANSPOSE", "RESHAPE", "BATCH_MATMUL", "FULLY_CONNECTED", "GATHER", "GATHER_ND", "REVERSE_V2", "TILE", "PACK"}
    | {"UNPACK", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "SCATTER_ND", "ONE_HOT", "CUMSUM", "BROADCAST_TO", "EINSUM"}
)
"""Kinds of which the operands' axes are not each other's."""


@dataclass(frozen=True, slots=True)
class Presentation:
    """Axis i of what is presented is the file's axis `order[i]`; `shape` may have more axes of one element."""

    order: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Self:
        """Return the axes of `shape`, the file's, in that order; without one in their own."""
        places = tuple(range(len(shape))) if order is None else order
        return cls(places, tuple(shape[at] for at in places))


class MapLayouts:
    """Which tensors of a network are presented as maps."""

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
        """The order in which the axes of an activation that is no view are presented."""
        if index in self._turned:
            return _TURNED
        if self._root(index) in self._roots:
            return CHANNELS_FIRST
        return tuple(range(len(self._storage.tensor(index).shape)))

    def presented(self, index: int) -> Presentation:
        """The presentation of an activation that is no view."""
        return Presentation.of(self._storage.tensor(index).shape, self.order(index))

    def is_direct(self, index: int) -> bool:
        """Whether an operand has its base's own shape: it is no view, or one that changes nothing."""
        storage = self._storage
        return storage.tensor(index).shape == storage.tensor(storage.base(index)).shape

    def _hidden_ends(self) -> Iterator[int]:
        """Network inputs and outputs that lie as maps are presented, with nothing but a transposition to a map.

        In the file's order they would look like that map, and the transposition as if it moved nothing.
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
        """The bases among operands that may be maps."""
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


Content: TypeAlias = npt.NDArray[np.uint8]


def as_presented(content: Content, element_type: int, shape: tuple[int, ...], presented: Presentation) -> Content:
    """The bytes of a tensor of that shape in the file, in the presented order."""
    if presented.order == tuple(range(len(shape))):
        return content
    elements = _elements(content, element_type, prod(shape)).reshape(shape)
    return _packed(elements.transpose(presented.order), element_type)


def as_in_file(content: Content, element_type: int, shape: tuple[int, ...], presented: Presentation) -> Content:
    """The bytes of a tensor that is presented so, in the file's order."""
    if presented.order == tuple(range(len(shape))):
        return content
    turned = tuple(shape[at] for at in presented.order)
    elements = _elements(content, element_type, prod(shape)).reshape(turned)
    return _packed(elements.transpose(np.argsort(presented.order)), element_type)


def bytes_of_array(array: npt.NDArray[Any]) -> Content:
    """The bytes of an array, one after the other."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _elements(content: Content, element_type: int, count: int) -> npt.NDArray[Any]:
    """One entry for each element; of two in a byte, the lower half comes first."""
    if element_type == INT4:
        return np.stack((content & 15, content >> 4), axis=-1).reshape(-1)[:count]
    dtype = dtype_of(element_type)
    return content.view(np.uint16 if dtype is None else dtype)  # bfloat16 is moved, never computed with


def _packed(elements: npt.NDArray[Any], element_type: int) -> Content:
    flat = np.ascontiguousarray(elements).reshape(-1)
    if element_type != INT4:
        return flat.view(np.uint8)
    halves = np.concatenate((flat, np.zeros(len(flat) % 2, np.uint8))).reshape(-1, 2)
    packed: Content = (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8)
    return packed
