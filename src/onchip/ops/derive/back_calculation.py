"""Which pixels of every feature map a tile of a stack's output takes, along one axis (DeFiNES, steps 1 and 2).

Rows and columns are independent, so each axis is calculated alone, for all tiles at once. Intervals are half-open.
Tiles that do not fill the map are made by one smaller tile, the first: that one computes the halo of its caches too,
so fewer pixels are alive in it than with the smaller tile last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.errors import InputError
from onchip.ir.window import Window
from onchip.ops.derive.fusable import FeatureMap, FusableLayer, Read, Stack

Integers: TypeAlias = NDArray[np.int64]


class AxisName(StrEnum):
    """Tiles follow each other along the columns; rows of tiles along the rows."""

    ROWS = "rows"
    COLUMNS = "columns"

    def pixels(self, feature_map: FeatureMap) -> int:
        """How many the map has along this axis."""
        return feature_map.rows if self is AxisName.ROWS else feature_map.columns

    def window(self, read: Read) -> Window:
        """Through which a layer sees its input along this axis."""
        return read.rows if self is AxisName.ROWS else read.columns


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """An interval of pixels in every tile."""

    starts: Integers
    stops: Integers

    @property
    def lengths(self) -> Integers:
        """How many pixels each tile has along the axis."""
        return self.stops - self.starts


@dataclass(frozen=True, slots=True, eq=False)
class MapUse:
    """A feature map in every tile.

    `needed` reaches from the first to the last pixel that any layer sees, `computed` are those that the tile computes
    (of a map from outside: loads). Of these and what is cached before, the last `kept` wait in the cache for later
    tiles; `written` of them come new into the cache.
    """

    needed: Spans
    computed: Spans
    kept: Integers
    written: Integers


@dataclass(frozen=True, slots=True, eq=False)
class ReadUse:
    """What a layer sees of an input in every tile: the first `cached` pixels of it from the cache, zeros around it."""

    seen: Spans
    cached: Integers
    zeros_before: Integers
    zeros_after: Integers


@dataclass(frozen=True, slots=True, eq=False)
class BackCalculation:
    """One axis of a stack: maps by name, the reads of each layer in the stack's order."""

    maps: Mapping[str, MapUse]
    reads: tuple[tuple[ReadUse, ...], ...]

    @property
    def kept(self) -> dict[str, int]:
        """Return the most pixels that any tile keeps, by map."""
        return {name: int(use.kept.max()) for name, use in self.maps.items()}

    @property
    def whole(self) -> dict[str, int]:
        """Return how many pixels all tiles together compute at least once, by map."""
        return {name: int(use.computed.stops.max() - use.computed.starts.min()) for name, use in self.maps.items()}


def back_calculation(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> BackCalculation:
    """Tiles of `tile` pixels of the output; `cached`: what the tile before has computed is not computed again.

    Raises InputError for a tile larger than the output, for a layer that the output does not need, and where a tile
    would see nothing but padding.
    """
    edges = _edges(stack.output, axis, tile)
    computed: dict[str, Spans] = {stack.output.name: Spans(edges[:-1], edges[1:])}
    uses: dict[str, MapUse] = {stack.output.name: _used_outside(computed[stack.output.name])}
    reads: list[tuple[ReadUse, ...]] = [()] * len(stack.layers)
    readers: dict[str, list[tuple[FusableLayer, Read]]] = {}
    for layer in stack.layers:
        for read in layer.reads:
            readers.setdefault(read.source, []).append((layer, read))
    for feature_map in (*(layer.output for layer in reversed(stack.layers[:-1])), *stack.inputs):
        views = _views(readers.get(feature_map.name, ()), feature_map, axis, computed)
        computed[feature_map.name] = _computed(views, cached=cached)
        uses[feature_map.name] = _use(views, computed[feature_map.name], cached=cached)
    maps = {one.name: one for one in (*stack.inputs, *(layer.output for layer in stack.layers))}
    for at, layer in enumerate(stack.layers):
        own = computed[layer.output.name]
        reads[at] = tuple(
            _read_use(
                _View(axis.window(read), axis.pixels(maps[read.source]), own), computed[read.source], cached=cached
            )
            for read in layer.reads
        )
    return BackCalculation(uses, tuple(reads))


def _edges(output: FeatureMap, axis: AxisName, tile: int) -> Integers:
    """Where tiles begin, and the end."""
    size = axis.pixels(output)
    if not 1 <= tile <= size:
        raise InputError(f"a tile has {tile} {axis} of {output.name!r}", place="tile", expected=f"1 to {size}")
    first = size % tile or tile
    return np.concatenate((np.zeros(1, np.int64), np.arange(first, size + 1, tile, dtype=np.int64)))


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """How one layer sees a map of `size` pixels while it computes `computed` of its own."""

    window: Window
    size: int
    computed: Spans
    is_busy: NDArray[np.bool_] = field(init=False)
    """In the last tiles, a layer may have nothing left to compute."""
    seen: Spans = field(init=False)
    """What is stored of it; nothing while the layer computes nothing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_busy", self.computed.lengths > 0)
        starts, stops = (np.minimum(np.maximum(one, 0), self.positions) for one in (self.first, self.behind))
        begins, ends = starts // self.window.repeat, -(-stops // self.window.repeat)
        object.__setattr__(self, "seen", Spans(np.where(self.is_busy, begins, ends), ends))

    @property
    def positions(self) -> int:
        """How many positions are pixels of the map; a pixel that is repeated has several."""
        return self.size * self.window.repeat

    @property
    def first(self) -> Integers:
        """The first position seen, below 0 where that is padding."""
        return self.computed.starts * self.window.stride - self.window.pad

    @property
    def behind(self) -> Integers:
        """Behind the last position seen."""
        return (self.computed.stops - 1) * self.window.stride - self.window.pad + self.window.reach

    @property
    def next_first(self) -> Integers:
        """The first stored pixel that later tiles see; `size` where nothing is left for them."""
        later = np.minimum(np.maximum(self.computed.stops * self.window.stride - self.window.pad, 0), self.positions)
        return np.where(self.computed.stops < self.computed.stops[-1], later // self.window.repeat, self.size)


def _views(
    readers: Sequence[tuple[FusableLayer, Read]], feature_map: FeatureMap, axis: AxisName, computed: Mapping[str, Spans]
) -> list[_View]:
    size = axis.pixels(feature_map)
    views = [
        _View(axis.window(read), size, computed[layer.output.name])
        for layer, read in readers
        if layer.output.name in computed
    ]
    place = f"feature map {feature_map.name!r}"
    if not views:
        raise InputError("no layer of its stack reads it", place=place, expected="only the last output to leave")
    for view in views:
        if (view.is_busy & (view.seen.lengths <= 0)).any():
            raise InputError(f"a tile sees nothing but padding along its {axis}", place=place, expected="larger tiles")
    return views


def _computed(views: Sequence[_View], *, cached: bool) -> Spans:
    """The outermost edges over all readers; where caches are, from where the tile before ended."""
    starts = np.min([view.seen.starts for view in views], axis=0)
    stops = np.max([view.seen.stops for view in views], axis=0)
    if cached:
        starts[1:] = stops[:-1]
    return Spans(starts, stops)


def _use(views: Sequence[_View], computed: Spans, *, cached: bool) -> MapUse:
    starts = np.min([np.where(view.is_busy, view.seen.starts, view.size) for view in views], axis=0)
    stops = np.max([np.where(view.is_busy, view.seen.stops, 0) for view in views], axis=0)
    needed = Spans(np.minimum(starts, stops), stops)
    nothing = np.zeros_like(stops)
    if not cached:
        return MapUse(needed, computed, nothing, nothing)
    first_kept = np.min([view.next_first for view in views], axis=0)
    kept = np.maximum(computed.stops - first_kept, 0)
    return MapUse(needed, computed, kept, np.minimum(kept, computed.lengths))


def _used_outside(computed: Spans) -> MapUse:
    nothing = np.zeros_like(computed.starts)
    return MapUse(computed, computed, nothing, nothing)


def _read_use(view: _View, source: Spans, *, cached: bool) -> ReadUse:
    """`source` is what is computed of the map."""
    seen = view.seen
    from_cache = np.zeros_like(seen.starts)
    if cached:
        from_cache = np.maximum(np.minimum(seen.stops, source.starts) - seen.starts, 0)
    return ReadUse(
        seen,
        from_cache,
        np.where(view.is_busy, np.maximum(-view.first, 0), 0),
        np.where(view.is_busy, np.maximum(view.behind - view.positions, 0), 0),
    )
