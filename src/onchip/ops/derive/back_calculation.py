"""The pixels of every feature map that a tile of a stack's output needs along one axis (DeFiNES, steps 1 and 2).

Rows and columns are independent, so each axis is calculated separately, for all tiles at once. Intervals are half-open.
If the tiles do not fill the map, the first one is smaller. The first tile also computes the halo of its caches, so
fewer pixels are live in it than if the last tile were smaller.
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
    """The axis of tiling: tiles follow each other along the columns, rows of tiles along the rows."""

    ROWS = "rows"
    COLUMNS = "columns"

    def pixels(self, feature_map: FeatureMap) -> int:
        """Return the number of pixels of the map along this axis."""
        return feature_map.rows if self is AxisName.ROWS else feature_map.columns

    def window(self, read: Read) -> Window:
        """Return the window of the read along this axis."""
        return read.rows if self is AxisName.ROWS else read.columns


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """An interval of pixels in every tile."""

    starts: Integers
    stops: Integers

    @property
    def lengths(self) -> Integers:
        """Return the number of pixels in each tile along the axis."""
        return self.stops - self.starts


@dataclass(frozen=True, slots=True, eq=False)
class MapUse:
    """The pixels of a feature map in every tile.

    `needed` reaches from the first to the last pixel that any layer sees. `computed` are the pixels that the tile
    computes, or loads for a map from outside. Of these and of the pixels cached before, the last `kept` wait in the
    cache for later tiles; `written` of them are newly cached.
    """

    needed: Spans
    computed: Spans
    kept: Integers
    written: Integers


@dataclass(frozen=True, slots=True, eq=False)
class ReadUse:
    """The pixels of an input that a layer sees in every tile; the first `cached` come from the cache.

    `zeros_before` and `zeros_after` count the padding seen around them.
    """

    seen: Spans
    cached: Integers
    zeros_before: Integers
    zeros_after: Integers


@dataclass(frozen=True, slots=True, eq=False)
class BackCalculation:
    """An axis of a stack: the maps by name, and the reads of each layer in the stack's order."""

    maps: Mapping[str, MapUse]
    reads: tuple[tuple[ReadUse, ...], ...]

    @property
    def kept(self) -> dict[str, int]:
        """Return the most pixels of each map that any tile keeps, by name."""
        return {name: int(use.kept.max()) for name, use in self.maps.items()}

    @property
    def whole(self) -> dict[str, int]:
        """Return the number of pixels of each map that all tiles together compute at least once, by name."""
        return {name: int(use.computed.stops.max() - use.computed.starts.min()) for name, use in self.maps.items()}


def back_calculation(stack: Stack, axis: AxisName, tile: int, *, cached: bool) -> BackCalculation:
    """Calculate tiles of `tile` output pixels along an axis; if `cached`, pixels of the previous tile are reused.

    Raises InputError for a tile larger than the output, for a layer that the output does not need, and for a tile that
    would see only padding.
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
    """Return the starts of the tiles, then the end of the last one."""
    size = axis.pixels(output)
    if not 1 <= tile <= size:
        raise InputError(f"a tile has {tile} {axis} of {output.name!r}", place="tile", expected=f"1 to {size}")
    first = size % tile or tile
    return np.concatenate((np.zeros(1, np.int64), np.arange(first, size + 1, tile, dtype=np.int64)))


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """The view of one layer on a map of `size` pixels while the layer computes the pixels `computed`."""

    window: Window
    size: int
    computed: Spans
    is_busy: NDArray[np.bool_] = field(init=False)
    """True for tiles in which the layer computes something; in the last tiles it may be finished."""
    seen: Spans = field(init=False)
    """The stored pixels seen; empty while the layer computes nothing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_busy", self.computed.lengths > 0)
        starts, stops = (np.minimum(np.maximum(one, 0), self.positions) for one in (self.first, self.behind))
        begins, ends = starts // self.window.repeat, -(-stops // self.window.repeat)
        object.__setattr__(self, "seen", Spans(np.where(self.is_busy, begins, ends), ends))

    @property
    def positions(self) -> int:
        """Return the number of positions over the map; a repeated pixel has several."""
        return self.size * self.window.repeat

    @property
    def first(self) -> Integers:
        """Return the first position seen; negative in the padding."""
        return self.computed.starts * self.window.stride - self.window.pad

    @property
    def behind(self) -> Integers:
        """Return the position behind the last one seen."""
        return (self.computed.stops - 1) * self.window.stride - self.window.pad + self.window.reach

    @property
    def next_first(self) -> Integers:
        """Return the first stored pixel that later tiles see; `size` if they see none."""
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
    """Return the hull of the pixels that all readers see; with caches it starts at the end of the previous tile."""
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
    """Return the use of an input; `source` is the interval of the map that the tile computes."""
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
