"""Pixels of feature maps that equal tiles of many sizes take along one axis: `back_calculation` for all sizes at once.

`SizeTiles` holds one array with the tiles of all sizes, one size after the other. Maps are calculated on demand, from
the stack's output backwards, so the unused beginning of a long stack costs nothing. `AxisGrid` gathers the tiles of a
layer that compute and see equally many pixels into classes, for bounds on all sizes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.errors import InputError
from onchip.ir.window import Window
from onchip.ops.fusable import AxisName, Spans, Stack

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

AxisContent: TypeAlias = tuple[tuple[tuple[int, ...], bytes], ...]
"""The shape and the bytes of each array of a `LayerAxis`."""

MOST_KEYS: Final = 2**62
"""Limit below which a single integer key identifies a class."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenPixels:
    """The pixels of a map that one read of a layer sees in each tile, and the number of `zeros` before and behind."""

    spans: Spans
    zeros: tuple[Integers, Integers]


@dataclass(slots=True)
class SizeTiles:
    """Tiles of several `sizes` along one axis of a stack. If `cached`, pixels of the preceding tile stay available.

    All queries raise InputError if a tile sees only padding of a map that it needs.
    """

    stack: Stack
    axis: AxisName
    sizes: Sequence[int]
    cached: bool
    begins: Integers = field(init=False)
    """Index of the first tile of each size."""
    of_size: Integers = field(init=False)
    """Index of the size of each tile."""
    _pixels: dict[str, int] = field(init=False)
    _readers: dict[str, list[tuple[int, int]]] = field(init=False)
    """Map from feature map to its readers, as pairs of layer index and read index."""
    _computed: dict[str, Spans] = field(init=False)
    _seen: dict[tuple[int, int], SeenPixels] = field(default_factory=dict)
    _calculated_from: int = field(init=False)

    def __post_init__(self) -> None:
        output, layers = self.stack.output, self.stack.layers
        maps = (*self.stack.inputs, *(layer.output for layer in layers))
        self._pixels = {one.name: self.axis.pixels(one) for one in maps}
        self._readers = {one.name: [] for one in maps}
        for at, layer in enumerate(layers):
            for number, read in enumerate(layer.reads):
                self._readers[read.source].append((at, number))
        pixels = self._pixels[output.name]
        firsts = [pixels % size or size for size in self.sizes]
        stops = [np.arange(first, pixels + 1, size) for first, size in zip(firsts, self.sizes, strict=True)]
        counts = np.array([len(one) for one in stops])
        self.begins = np.concatenate(([0], counts.cumsum()[:-1]))
        self.of_size = np.repeat(np.arange(len(counts)), counts)
        behind = np.concatenate(stops).astype(np.int64)
        self._computed = {output.name: Spans(self._after_the_one_before(behind, 0), behind)}
        self._calculated_from = len(layers) - 1

    def computed(self, name: str) -> Spans:
        """Return the pixels of a map that each tile computes."""
        if name not in self._computed:
            needed = min(at for at, _ in self._readers[name])
            for at in reversed(range(needed, self._calculated_from)):  # chains exceed the recursion limit
                self._calculate(self.stack.layers[at].output.name)
                self._calculated_from = at
            self._calculate(name)
        return self._computed[name]

    def seen(self, at: int, number: int) -> SeenPixels:
        """Return the pixels that layer `at` sees in each tile through read `number`."""
        if (at, number) not in self._seen:
            layer = self.stack.layers[at]
            read = layer.reads[number]
            own, size = self.computed(layer.output.name), self._pixels[read.source]
            self._seen[at, number] = _through(self.axis.window(read), size, own)
        return self._seen[at, number]

    def cached_before(self, at: int, number: int) -> Integers:
        """Return for each tile the number of pixels that a read of a layer takes from a cache."""
        seen = self.seen(at, number).spans
        if not self.cached:
            return np.zeros_like(seen.starts)
        source = self.computed(self.stack.layers[at].reads[number].source)
        from_cache: Integers = np.maximum(np.minimum(seen.stops, source.starts) - seen.starts, 0)
        return from_cache

    def kept(self, name: str) -> Integers:
        """Return the number of pixels of a map that a cache holds for later tiles after each tile."""
        stops = self.computed(name).stops
        if not self.cached or not self._readers[name]:
            return np.zeros_like(stops)
        found: Integers = np.maximum(stops - self._next_first(name), 0)
        return found

    def _calculate(self, name: str) -> None:
        """Set the computed pixels of a map: the hull of its readers' views, after the preceding tile if cached."""
        if name in self._computed:
            return
        seen = [self.seen(*reader).spans for reader in self._readers[name]]
        stops = np.max([one.stops for one in seen], axis=0)
        starts = np.min([one.starts for one in seen], axis=0)
        if self.cached:
            starts = self._after_the_one_before(stops, starts)
        self._computed[name] = Spans(starts, stops)

    def _after_the_one_before(self, stops: Integers, first: Integers | int) -> Integers:
        """Return the end of the preceding tile for each tile, and `first` for the first tile of each size."""
        starts = np.concatenate((stops[:1], stops[:-1]))
        starts[self.begins] = first if isinstance(first, int) else first[self.begins]
        return starts

    def _next_first(self, name: str) -> Integers:
        """Return the first pixel that any reader sees in later tiles, or the map's size if no reader sees one."""
        size, found = self._pixels[name], []
        for at, number in self._readers[name]:
            layer = self.stack.layers[at]
            window, stops = self.axis.window(layer.reads[number]), self.computed(layer.output.name).stops
            last = stops[np.append(self.begins[1:], len(stops)) - 1][self.of_size]
            later = np.minimum(np.maximum(stops * window.stride - window.pad, 0), size * window.repeat)
            found.append(np.where(stops < last, later // window.repeat, size))
        least: Integers = np.min(found, axis=0)
        return least


def _through(window: Window, size: int, computed: Spans) -> SeenPixels:
    """Return the pixels seen of a map of `size` pixels; the spans of tiles that compute nothing are empty.

    Raises InputError if a tile sees only padding.
    """
    positions, is_busy = size * window.repeat, computed.lengths > 0
    first = computed.starts * window.stride - window.pad
    behind = (computed.stops - 1) * window.stride - window.pad + window.reach
    begins = np.minimum(np.maximum(first, 0), positions) // window.repeat
    ends = -(-np.minimum(np.maximum(behind, 0), positions) // window.repeat)
    spans = Spans(np.where(is_busy, begins, ends), ends)
    if (is_busy & (spans.lengths <= 0)).any():
        raise InputError("a tile sees nothing but padding", place="tile", expected="larger tiles")
    zeros = (np.maximum(-first, 0), np.maximum(behind - positions, 0))
    return SeenPixels(spans, zeros)


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
