"""Equal tiles of many sizes along an axis, told together: `tile_totals` in arrays, for bounds of all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.solve.stacks.tile_totals import AxisTotals, LayerTotals, Slice

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LayerAxis:
    """Classes of tiles in which a layer computes and sees equally much, of all sizes together.

    `times` says by size and class how many tiles there are. All else is in pixels. By class: what is `computed`, and of
    it `inner` where no zeros are seen and `written` to a cache; by read and class what is `seen`, and of it `cached`.
    By size: what the `first` tile computes, and by read and size what all tiles together see `new`, from no cache.
    """

    times: Floats
    computed: Floats
    inner: Floats
    written: Floats
    seen: Floats
    cached: Floats
    first: Floats
    new: Floats

    @property
    def tiles(self) -> Floats:
        """Return by size in how many tiles the layer computes anything."""
        found: Floats = self.times.sum(axis=1)
        return found


@dataclass(slots=True)
class AxisGrid:
    """Tiles of several sizes along one axis of a stack, by size in the order of `sizes`."""

    sizes: tuple[int, ...]
    totals: Sequence[AxisTotals]
    _layers: dict[str, LayerAxis]

    @classmethod
    def of(cls, sizes: tuple[int, ...], totals: Sequence[AxisTotals]) -> AxisGrid:
        """Return the grid of these totals, one for each size."""
        return cls(sizes, totals, {})

    def layer(self, name: str) -> LayerAxis:
        """Return the tiles of one layer."""
        if name not in self._layers:
            self._layers[name] = _layer_axis([one.layers[name] for one in self.totals])
        return self._layers[name]

    def kept(self, name: str) -> Floats:
        """Return by size how many pixels of a map neighbours share through a cache."""
        return np.array([one.kept[name] for one in self.totals], float)

    def whole(self, name: str) -> Floats:
        """Return by size how many pixels of a map are computed in all tiles, each counted once."""
        return np.array([one.whole[name] for one in self.totals], float)


def _layer_axis(totals: Sequence[LayerTotals]) -> LayerAxis:
    places: dict[Slice, int] = {}
    counted: list[tuple[int, int, float]] = []
    for size, one in enumerate(totals):
        for own in one.slices:
            alike = Slice(1, own.computed, own.seen, own.inner, own.cached, own.written)
            counted.append((size, places.setdefault(alike, len(places)), own.times))
    times = np.zeros((len(totals), len(places)))
    for size, place, count in counted:
        times[size, place] += count
    return LayerAxis(
        times,
        np.array([one.computed for one in places], float),
        np.array([one.inner for one in places], float),
        np.array([one.written for one in places], float),
        np.array([one.seen for one in places], float).T,
        np.array([one.cached for one in places], float).T,
        np.array([one.first for one in totals], float),
        np.array([[one.new(read) for one in totals] for read in range(len(totals[0].cached))], float),
    )
