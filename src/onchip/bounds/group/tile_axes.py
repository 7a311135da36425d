"""Classes of equal tiles of many sizes along one axis, for bounds on all sizes at once.

Tiles of a class compute and see equally many pixels of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.errors import InputError
from onchip.ops.fusable import SizeTiles

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

AxisContent: TypeAlias = tuple[tuple[tuple[int, ...], bytes], ...]
"""The shape and the bytes of each array of a `LayerAxis`."""

MOST_KEYS: Final = 2**62
"""Limit below which a single integer key identifies a class."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerAxis:
    """Classes of tiles with equal pixel counts in a layer, over all tile sizes.

    `times` is the number of tiles, of shape (size, class). `first_class` is the class of the first tile of each size.
    The other arrays are in pixels. Of shape (class,): `computed` pixels, those whose windows see no zeros (`inner`),
    and those `written` to a cache. Of shape (read, class): pixels `seen`, and those that come from a cache (`cached`).
    Of shape (read, size): pixels that all tiles together see and that come from no cache (`new`).
    """

    times: Floats
    computed: Floats
    inner: Floats
    written: Floats
    seen: Floats
    cached: Floats
    first_class: NDArray[np.intp]
    new: Floats

    @property
    def content(self) -> AxisContent:
        """Return all arrays as a hashable value."""
        arrays = (self.times, self.computed, self.inner, self.written, self.seen, self.cached, self.first_class)
        return tuple((one.shape, one.tobytes()) for one in (*arrays, self.new))

    @property
    def tiles(self) -> Floats:
        """Return for each size the number of tiles in which the layer computes at least one pixel."""
        found: Floats = self.times.sum(axis=1)
        return found


@dataclass(slots=True)
class AxisGrid:
    """Tiles of several sizes along one axis of a stack. Arrays by size follow the order of `sizes`.

    Layers with equal tiles share one `LayerAxis`, also across stacks. `alike` stores these objects.
    """

    of_sizes: SizeTiles
    alike: dict[AxisContent, LayerAxis] = field(default_factory=dict)
    _layers: dict[int, LayerAxis] = field(default_factory=dict)
    _sees_from: int | None = None
    _sees_not: int = -1

    def sees_all(self, start: int) -> bool:
        """Return True if, from layer `start` of the stack on, each tile sees at least one pixel that is not padding."""
        layers = self.of_sizes.stack.layers
        seen_from = len(layers) if self._sees_from is None else self._sees_from
        if start <= self._sees_not:
            return False
        for at in reversed(range(start, seen_from)):
            try:
                for read in layers[at].reads:
                    self.of_sizes.computed(read.source)
            except InputError:
                self._sees_not = at
                return False
            self._sees_from = at
        return True

    def layer(self, at: int) -> LayerAxis:
        """Return the tiles of the layer with index `at` in the stack.

        Raises InputError if a tile sees only padding.
        """
        if at not in self._layers:
            found = self._layer_axis(at)
            self._layers[at] = self.alike.setdefault(found.content, found)
        return self._layers[at]

    def kept(self, name: str) -> Floats:
        """Return for each size the number of pixels of a map that neighbouring tiles share through a cache."""
        return np.maximum.reduceat(self.of_sizes.kept(name), self.of_sizes.begins).astype(float)

    def whole(self, name: str) -> Floats:
        """Return for each size the number of distinct pixels of a map that all tiles together compute."""
        spans, begins = self.of_sizes.computed(name), self.of_sizes.begins
        found = np.maximum.reduceat(spans.stops, begins) - np.minimum.reduceat(spans.starts, begins)
        return found.astype(float)

    def _layer_axis(self, at: int) -> LayerAxis:
        tiles, layer = self.of_sizes, self.of_sizes.stack.layers[at]
        pixels, name = tiles.computed(layer.output.name).lengths, layer.output.name
        reads = [tiles.read(at, number) for number in range(len(layer.reads))]
        seen, cached = [one.seen.lengths for one in reads], [one.cached for one in reads]
        stride = tiles.axis.window(layer.reads[0]).stride
        outer = -(-reads[0].zeros_before // stride) - (-reads[0].zeros_after // stride)
        inner = np.maximum(pixels - outer, 0)
        written = np.minimum(tiles.kept(name), pixels)
        is_busy = pixels > 0
        table = np.stack([pixels, *seen, inner, *cached, written])[:, is_busy]
        classes, which = _classes(table)
        firsts = is_busy.cumsum()[tiles.begins] - 1  # every layer computes something in the first tile
        count, sizes = classes.shape[1], len(tiles.sizes)
        times = np.bincount(tiles.of_size[is_busy] * count + which, minlength=sizes * count)
        new = [np.add.reduceat(one - old, tiles.begins) for one, old in zip(seen, cached, strict=True)]
        by_class, behind = classes.astype(float), 1 + len(seen)
        return LayerAxis(
            times.reshape(sizes, count).astype(float),
            by_class[0],
            by_class[behind],
            by_class[-1],
            by_class[1:behind],
            by_class[behind + 1 : -1],
            which[firsts],
            np.array(new, float),
        )


def _classes(table: Integers) -> tuple[Integers, NDArray[np.intp]]:
    """Return the distinct columns of a table of integers, and for each column the index of its distinct column."""
    key, keys = table[0], int(table[0].max()) + 1
    for row in table[1:]:
        most = int(row.max()) + 1
        if keys * most > MOST_KEYS:
            key = np.unique(key, return_inverse=True)[1]
            keys = len(key)
        key, keys = key * most + row, keys * most
    _, firsts, which = np.unique(key, return_index=True, return_inverse=True)
    return table[:, firsts], which
