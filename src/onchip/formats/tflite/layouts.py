"""In which order a tensor's axes are presented: maps as batch, channels, rows, columns, all else as in the file.

Only the places of axes differ from the file, for all operators on a map alike; which maps these are follows from the
convolutions, pools and the like that read or write them, through every operator that has no order of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from onchip.formats.tflite.network import NetworkOperator, readers_of
from onchip.formats.tflite.storage import TensorStorage

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
