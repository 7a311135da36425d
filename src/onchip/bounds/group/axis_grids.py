"""Equal tiles of many sizes along an axis, told together: `tile_totals` in arrays, for bounds of all at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.bounds.group.size_tiles import Integers, SizeTiles
from onchip.errors import InputError

Floats: TypeAlias = NDArray[np.float64]

AxisContent: TypeAlias = tuple[tuple[tuple[int, ...], bytes], ...]
"""By array of an axis its shape and its bytes."""

MOST_KEYS: Final = 2**62
"""Classes are told apart by single integers below."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerAxis:
    """Classes of tiles in which a layer computes and sees equally much, of all sizes together.

    `times` says by size and class how many tiles there are. All else is in pixels. By class: what is `computed`, and of
    it `inner` where no zeros are seen and `written` to a cache; by read and class what is `seen`, and of it `cached`.
    By size: of which class the first tile is, and by read and size what all tiles together see `new`, from no cache.
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
        """Return all of it in a form that can be compared."""
        arrays = (self.times, self.computed, self.inner, self.written, self.seen, self.cached, self.first_class)
        return tuple((one.shape, one.tobytes()) for one in (*arrays, self.new))

    @property
    def tiles(self) -> Floats:
        """Return by size in how many tiles the layer computes anything."""
        found: Floats = self.times.sum(axis=1)
        return found


@dataclass(slots=True)
class AxisGrid:
    """Tiles of several sizes along one axis of a stack, by size in the order of `sizes`.

    Layers in equal tiles, in whatever stacks, have the same object, which is kept in `alike`.
    """

    of_sizes: SizeTiles
    alike: dict[AxisContent, LayerAxis] = field(default_factory=dict)
    _layers: dict[int, LayerAxis] = field(default_factory=dict)
    _sees_from: int | None = None
    _sees_not: int = -1

    def sees_all(self, start: int) -> bool:
        """Return whether no tile of the layers from that one of the stack on sees nothing but padding."""
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
        """Return the tiles of a layer by its place in the stack; raises InputError where one sees only padding."""
        if at not in self._layers:
            found = self._layer_axis(at)
            self._layers[at] = self.alike.setdefault(found.content, found)
        return self._layers[at]

    def kept(self, name: str) -> Floats:
        """Return by size how many pixels of a map neighbours share through a cache."""
        return np.maximum.reduceat(self.of_sizes.kept(name), self.of_sizes.begins).astype(float)

    def whole(self, name: str) -> Floats:
        """Return by size how many pixels of a map are computed in all tiles, each counted once."""
        spans, begins = self.of_sizes.computed(name), self.of_sizes.begins
        found = np.maximum.reduceat(spans.stops, begins) - np.minimum.reduceat(spans.starts, begins)
        return found.astype(float)

    def _layer_axis(self, at: int) -> LayerAxis:
        tiles, layer = self.of_sizes, self.of_sizes.stack.layers[at]
        pixels, name = tiles.computed(layer.output.name).lengths, layer.output.name
        reads = range(len(layer.reads))
        seen = [tiles.seen(at, number).spans.lengths for number in reads]
        cached = [tiles.cached_before(at, number) for number in reads]
        stride, zeros = tiles.axis.window(layer.reads[0]).stride, tiles.seen(at, 0).zeros
        outer = -(-zeros[0] // stride) - (-zeros[1] // stride)
        inner = np.maximum(pixels - outer, 0)
        written = np.minimum(tiles.kept(name), pixels)
        is_busy = pixels > 0
        table = np.stack([pixels, *seen, inner, *cached, written])[:, is_busy]
        classes, which = _classes(table)
        firsts = is_busy.cumsum()[tiles.begins] - 1  # of the first tiles, in which every layer computes something
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
    """Return the different columns of a table of whole numbers, and for each column which of these it is."""
    key, keys = table[0], int(table[0].max()) + 1
    for row in table[1:]:
        most = int(row.max()) + 1
        if keys * most > MOST_KEYS:
            key = np.unique(key, return_inverse=True)[1]
            keys = len(key)
        key, keys = key * most + row, keys * most
    _, firsts, which = np.unique(key, return_index=True, return_inverse=True)
    return table[:, firsts], which
