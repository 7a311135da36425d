"""Classes of equal tiles along one axis; each class is costed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onchip.ops.derive.back_calculation import AxisName, BackCalculation, back_calculation
from onchip.ops.derive.fusable import Stack


@dataclass(frozen=True, slots=True)
class MapExtent:
    """Pixels of a feature map along one axis; `back_calculation.MapUse` says which."""

    needed: int
    computed: int
    kept: int
    written: int


@dataclass(frozen=True, slots=True)
class ReadExtent:
    """Pixels of a layer's input along one axis; `back_calculation.ReadUse` says which."""

    seen: int
    cached: int
    zeros_before: int
    zeros_after: int


@dataclass(frozen=True, slots=True)
class TileClass:
    """What equal tiles along an axis have in common: maps by name, the reads of each layer in the stack's order."""

    maps: Mapping[str, MapExtent]
    reads: tuple[tuple[ReadExtent, ...], ...]


@dataclass(frozen=True, slots=True)
class TiledAxis:
    """All tiles along an axis: `order` says of which class each is.

    `kept` is the most that any tile keeps of each map, `whole` what all tiles together compute of it at least once.
    """

    classes: tuple[TileClass, ...]
    order: tuple[int, ...]
    kept: Mapping[str, int]
    whole: Mapping[str, int]


@lru_cache(maxsize=1024)
def tiled_axis(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> TiledAxis:
    """The back-calculation of an axis with equal tiles told once."""
    found = back_calculation(stack, axis, tile, cached=cached)
    table = _table(found)
    _, firsts, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    ranks = np.argsort(np.argsort(firsts))
    return TiledAxis(
        tuple(_class(found, stack, table[first]) for first in sorted(firsts.tolist())),
        tuple(ranks[inverse.reshape(-1)].tolist()),
        found.kept,
        found.whole,
    )


def _table(found: BackCalculation) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """A row of numbers for each tile: of each map, then of each read."""
    maps = [(use.needed.lengths, use.computed.lengths, use.kept, use.written) for use in found.maps.values()]
    reads = [
        (use.seen.lengths, use.cached, use.zeros_before, use.zeros_after) for layer in found.reads for use in layer
    ]
    return np.stack([column for group in (*maps, *reads) for column in group], axis=1)


def _class(found: BackCalculation, stack: Stack, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> TileClass:
    groups = iter(numbers.reshape(-1, 4).tolist())
    maps = {name: MapExtent(*next(groups)) for name in found.maps}
    return TileClass(maps, tuple(tuple(ReadExtent(*next(groups)) for _ in layer.reads) for layer in stack.layers))
