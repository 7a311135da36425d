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
    """The number of pixels of a feature map along one axis, with the fields of `back_calculation.MapUse`."""

    needed: int
    computed: int
    kept: int
    written: int


@dataclass(frozen=True, slots=True)
class ReadExtent:
    """The number of pixels of a layer's input along one axis, with the fields of `back_calculation.ReadUse`."""

    seen: int
    cached: int
    zeros_before: int
    zeros_after: int


@dataclass(frozen=True, slots=True)
class TileClass:
    """The common extents of equal tiles along an axis: maps by name, and each layer's reads in the stack's order."""

    maps: Mapping[str, MapExtent]
    reads: tuple[tuple[ReadExtent, ...], ...]


@dataclass(frozen=True, slots=True)
class TiledAxis:
    """The tiles along an axis; `order` gives the class of each tile.

    `kept` is the most pixels of each map that any tile keeps; `whole` is the number of pixels that all tiles together
    compute at least once.
    """

    classes: tuple[TileClass, ...]
    order: tuple[int, ...]
    kept: Mapping[str, int]
    whole: Mapping[str, int]


@lru_cache(maxsize=1024)
def tiled_axis(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> TiledAxis:
    """Return the back-calculation of an axis, with equal tiles merged into classes."""
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
    """Return a row of numbers per tile: the extents of each map, then those of each read."""
    maps = [(use.needed.lengths, use.computed.lengths, use.kept, use.written) for use in found.maps.values()]
    reads = [
        (use.seen.lengths, use.cached, use.zeros_before, use.zeros_after) for layer in found.reads for use in layer
    ]
    return np.stack([column for group in (*maps, *reads) for column in group], axis=1)


def _class(found: BackCalculation, stack: Stack, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> TileClass:
    groups = iter(numbers.reshape(-1, 4).tolist())
    maps = {name: MapExtent(*next(groups)) for name in found.maps}
    return TileClass(maps, tuple(tuple(ReadExtent(*next(groups)) for _ in layer.reads) for layer in stack.layers))
