"""Pixels of feature maps that tiles of many sizes take along one axis: `back_calculation` for all sizes at once.

One array holds the tiles of all sizes, one size after the other. Maps are calculated on demand, from the stack's output
backwards, so the unused beginning of a long stack costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.errors import InputError
from onchip.ir.window import Window
from onchip.ops.fusable import AxisName, Spans, Stack

Integers: TypeAlias = NDArray[np.int64]


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
