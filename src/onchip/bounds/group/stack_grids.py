"""Lower bounds on the cost of stacks for many tile sizes at once (cf. `bounds`).

Stacks that end with the same layer share suffix sums, from a layer to the stack's end, which are cached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.stacks import OverlapMode
from onchip.arch.memory import DRAM
from onchip.bounds.group.layer_grids import GridShare, LayerGrids, MapPlaces, Taken, shares_of
from onchip.bounds.group.tile_axes import AxisContent, AxisGrid, Floats, LayerAxis
from onchip.ops.fusable import AxisName, FusableNetwork, SizeTiles, Stack
from onchip.transform.groups.stacks import LayerSpan, stack_of

Sizes: TypeAlias = tuple[int, ...]
Places: TypeAlias = tuple[NDArray[np.intp], ...]


@dataclass(frozen=True, slots=True, eq=False)
class TileGrid:
    """Set of tilings with these columns and rows in one mode, for the stacks that are suffixes of `longest`."""

    longest: LayerSpan
    mode: OverlapMode
    columns: Sizes
    rows: Sizes
    _places: dict[tuple[Sizes, Sizes], Places | None] = field(default_factory=dict)

    def places_of(self, columns: Sizes, rows: Sizes) -> Places | None:
        """Return the indices of these sizes in arrays by size, or None if the grid lacks one of them."""
        key = columns, rows
        if key not in self._places:
            has_all = set(columns) <= set(self.columns) and set(rows) <= set(self.rows)
            down, across = [self.rows.index(one) for one in rows] if has_all else [], self.columns
            self._places[key] = np.ix_(down, [across.index(one) for one in columns]) if has_all else None
        return self._places[key]


@dataclass(slots=True)
class _Suffixes:
    """The suffix sums of one grid by layer, from the last layer backwards."""

    rows: AxisGrid
    columns: AxisGrid
    shares: list[GridShare] = field(default_factory=list)
    maps_pj: dict[MapPlaces, list[Floats]] = field(default_factory=dict)
    kept_bits: list[Floats] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class GridSums:
    """Energy in pJ, cycles, and bits from and to DRAM, each of shape (size of rows, size of columns)."""

    energy_pj: Floats
    cycles: Floats
    dram_bits: Floats

    def at(self, places: Places) -> GridSums:
        """Return the sums at these indices of sizes."""
        return GridSums(self.energy_pj[places], self.cycles[places], self.dram_bits[places])


@dataclass(slots=True)
class StackGrids:
    """Bounds on the stacks of one network on one machine in tiles of many sizes, with shared terms calculated once.

    Callers check `sees_all` first: the bounds are undefined if some tile of a grid sees only padding.
    """

    network: FusableNetwork
    layers: LayerGrids
    _stacks: dict[tuple[int, int], Stack] = field(default_factory=dict)
    _axis_grids: dict[tuple[LayerSpan, AxisName, Sizes, bool], AxisGrid] = field(default_factory=dict)
    _alike: dict[AxisContent, LayerAxis] = field(default_factory=dict)
    _suffixes: dict[TileGrid, _Suffixes] = field(default_factory=dict)
    _inside: dict[tuple[TileGrid, int, str, Taken], GridSums] = field(default_factory=dict)
    _readers: Mapping[str, Sequence[int]] = field(init=False)
    """Map from feature map to the indices of its reading layers, ascending."""
    _outside: dict[tuple[int, int], Mapping[int, tuple[str, ...]]] = field(default_factory=dict)
    _maps: dict[tuple[TileGrid, int, tuple[str, ...], MapPlaces], Floats] = field(default_factory=dict)
    _loaded: dict[tuple[TileGrid, int, str, str], tuple[Floats, Floats]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        readers: dict[str, list[int]] = {}
        for at, layer in enumerate(self.network.layers):
            for source in dict.fromkeys(read.source for read in layer.reads):
                readers.setdefault(source, []).append(at)
        self._readers = readers

    def _stack(self, start: int, stop: int) -> Stack:
        if (start, stop) not in self._stacks:
            self._stacks[start, stop] = stack_of(self.network, LayerSpan(start, stop))
        return self._stacks[start, stop]

    def sees_all(self, grid: TileGrid, start: int) -> bool:
        """Return True if, in the layers from `start` on, each tile of the grid sees a pixel that is not padding."""
        axes, place = self._suffixes_of(grid), start - grid.longest.start
        return axes.rows.sees_all(place) and axes.columns.sees_all(place)

    def sums(
        self, grid: TileGrid, start: int, homes: Mapping[str, str], output_home: str, taken: Taken = ()
    ) -> GridSums:
        """Return a lower bound on the stack from layer `start` on, with its inputs and output in these homes.

        `taken` are the bits of each memory that these and other maps occupy while it runs.
        """
        inside = self.sums_inside(grid, start, output_home, taken)
        energy_pj, dram_bits, moved = inside.energy_pj, inside.dram_bits, self._share_from(grid, start).moved
        for source in self._stack(start, grid.longest.stop).inputs:
            home = homes.get(source.name, DRAM)
            elements, own_pj = self._load(grid, start, source.name, home)
            energy_pj = energy_pj + own_pj
            if home == DRAM:
                dram_bits = dram_bits + elements * source.bits * moved
        return GridSums(energy_pj, inside.cycles, dram_bits)

    def sums_inside(self, grid: TileGrid, start: int, output_home: str, taken: Taken = ()) -> GridSums:
        """Return the bound of `sums` without the loads of the stack's inputs."""
        key = grid, start, output_home, taken
        if key not in self._inside:
            share = self._share_from(grid, start)
            weights_pj, dram_bits = self._weights(share, taken)
            output = self.network.layers[grid.longest.stop - 1].output
            written = output.size_bits if output_home == DRAM else 0
            maps_pj = self._maps_inside(grid, start, output_home, taken)
            energy_pj = share.energy_pj + maps_pj + weights_pj
            dram_bits = (share.weight_bits + dram_bits + written) * share.moved
            self._inside[key] = GridSums(energy_pj, share.cycles, dram_bits)
        return self._inside[key]

    def _maps_inside(self, grid: TileGrid, start: int, output_home: str, taken: Taken) -> Floats:
        """Return the energy in pJ of maps by size, with cached rows in the lowest memory with room for them."""
        levels = self._row_levels(grid, start, taken)
        if levels is None:
            return self._maps_with(grid, start, output_home, MapPlaces(taken=taken))
        found = np.zeros(levels.shape)
        for level in np.unique(levels).tolist():
            cache = self.layers.cache_places[level]
            inner = MapPlaces(rows=cache, taken=taken)
            found = np.where(levels == level, self._maps_with(grid, start, output_home, inner), found)
        return found

    def _maps_with(self, grid: TileGrid, start: int, output_home: str, inner: MapPlaces) -> Floats:
        last = grid.longest.stop - 1
        found = self._maps_from(grid, inner, start)
        readers = self._outer_readers(start, grid.longest.stop)
        for at, outside in readers.items():
            if at != last:
                found = found + self._maps_of(grid, at, outside, inner) - self._maps_of(grid, at, (), inner)
        own = replace(inner, output=output_home)
        return found + self._maps_of(grid, last, readers.get(last, ()), own)

    def _maps_from(self, grid: TileGrid, inner: MapPlaces, start: int) -> Floats:
        """Return the energy in pJ of maps of the layers from `start` on, without the last layer.

        All maps count as maps of the stack.
        """
        known, last = self._suffixes_of(grid).maps_pj.setdefault(inner, []), grid.longest.stop - 1
        if not known:
            known.append(np.zeros((len(grid.rows), len(grid.columns))))
        for at in range(last - len(known), start - 1, -1):
            known.append(known[-1] + self._maps_of(grid, at, (), inner))
        return known[last - start]

    def _maps_of(self, grid: TileGrid, at: int, outside: tuple[str, ...], places: MapPlaces) -> Floats:
        key = grid, at, outside, places
        if key not in self._maps:
            layer, maps = self.network.layers[at], self.network.maps
            inner = tuple(
                (number, read.channels_seen(maps[read.source].channels))
                for number, read in enumerate(layer.reads)
                if read.source not in outside
            )
            self._maps[key] = self.layers.maps_pj(layer, *self._axes(grid, at), inner, places)
        return self._maps[key]

    def _outer_readers(self, start: int, stop: int) -> Mapping[int, tuple[str, ...]]:
        """Map each layer that reads inputs of the stack to the names of these inputs."""
        if (start, stop) not in self._outside:
            found: dict[int, tuple[str, ...]] = {}
            for source in self._stack(start, stop).inputs:
                for at in self._readers_within(source.name, start, stop):
                    found[at] = (*found.get(at, ()), source.name)
            self._outside[start, stop] = dict(sorted(found.items()))
        return self._outside[start, stop]

    def _readers_within(self, name: str, start: int, stop: int) -> list[int]:
        """Return the indices of the stack's layers that read a map, ascending."""
        return [at for at in self._readers.get(name, ()) if start <= at < stop]

    def _row_levels(self, grid: TileGrid, start: int, taken: Taken) -> Floats | None:
        """Return by size the index of the lowest memory with room for all cached rows, or None without cached rows."""
        if not grid.mode.caches_rows:
            return None
        suffixes, stop = self._suffixes_of(grid), grid.longest.stop
        for at in range(stop - 1 - len(suffixes.kept_bits), start - 1, -1):
            own = self._kept_bits(grid, self.network.layers[at].output.name)
            suffixes.kept_bits.append(own + suffixes.kept_bits[-1] if suffixes.kept_bits else own)
        bits = suffixes.kept_bits[stop - 1 - start]
        for source in self._stack(start, stop).inputs:
            if self._readers[source.name][0] >= start:
                bits = bits + self._kept_bits(grid, source.name)
        free = self.layers.free(taken)
        rooms = [free[name] for name in self.layers.cache_places]
        found: Floats = np.array([bits > room for room in rooms]).sum(axis=0)
        return found

    def _kept_bits(self, grid: TileGrid, name: str) -> Floats:
        """Return by size the bits of a map in the row cache, without pixels that are also in the column cache."""
        suffixes, one = self._suffixes_of(grid), self.network.maps[name]
        columns = suffixes.columns.whole(name) - suffixes.columns.kept(name)
        return np.outer(suffixes.rows.kept(name), columns) * one.channels * one.bits

    def _share_from(self, grid: TileGrid, start: int) -> GridShare:
        known, stop = self._suffixes_of(grid).shares, grid.longest.stop
        for at in range(stop - 1 - len(known), start - 1, -1):
            share = self.layers.share(self.network.layers[at], *self._axes(grid, at))
            known.append(share + known[-1] if known else share)
        return known[stop - 1 - start]

    def _weights(self, share: GridShare, taken: Taken) -> tuple[Floats, Floats]:
        """Return the energy in pJ of the weights of all layers together, and their bits that DRAM supplies again.

        The weights lie in one memory with room for all. Otherwise the highest on-chip memory holds those that fit, and
        DRAM holds the others.
        """
        homes, capacities, highest = self.layers.weight_homes, self.layers.free(taken), self.layers.highest_home
        lowest = next(at for at, home in enumerate(homes) if share.weight_bits <= capacities[home])
        weights_pj: Floats = share.weights_pj[min(lowest, highest)]
        if homes[lowest] != DRAM or not share.weight_bits:
            return weights_pj, np.zeros_like(weights_pj)
        outside_bits = max(share.weight_bits - (capacities[homes[highest]] if len(homes) > 1 else 0), 0)
        return weights_pj + outside_bits * share.dearer_pj, outside_bits * share.tiles_again

    def _load(self, grid: TileGrid, start: int, source: str, home: str) -> tuple[Floats, Floats]:
        """Return by size the maximum over the reading layers of the elements loaded, and of their energy in pJ."""
        key = grid, start, source, home
        if key not in self._loaded:
            one = self.network.maps[source]
            elements = own_pj = np.zeros((len(grid.rows), len(grid.columns)))
            for at in self._readers_within(source, start, grid.longest.stop):
                layer = self.network.layers[at]
                for number, share in shares_of(layer, one):
                    rows, columns = (self._taken(grid, axis, at, number) for axis in (AxisName.ROWS, AxisName.COLUMNS))
                    channels = layer.reads[number].channels_seen(one.channels)
                    taken = channels * share * np.outer(rows, columns)
                    elements = np.maximum(elements, taken)
                    each_pj = self.layers.load_pj(layer, *self._axes(grid, at), home)
                    own_pj = np.maximum(own_pj, taken * each_pj)
            self._loaded[key] = elements, own_pj
        return self._loaded[key]

    def _taken(self, grid: TileGrid, axis: AxisName, at: int, number: int) -> Floats:
        """Return by size the pixels along an axis that one read of a layer loads from a stack input.

        Without a cache, each tile loads all pixels that it sees. With a cache, each pixel is loaded once. The count is
        then the view of one tile over the whole axis, if windows leave no gaps and all pixels of the layer are
        computed. Otherwise it is the number of uncached pixels in the longest stack, a lower bound, because other
        readers there may have cached more.
        """
        tiles = self._axes(grid, at)[0 if axis is AxisName.ROWS else 1]
        is_cached = grid.mode.caches_rows if axis is AxisName.ROWS else grid.mode.caches_columns
        window = axis.window(self.network.layers[at].reads[number])
        new: Floats = tiles.new[number]
        if not is_cached or window.stride > window.reach:
            return new
        pixels = axis.pixels(self.network.layers[grid.longest.stop - 1].output)
        whole = self._axis(grid.longest, axis, (pixels,), cached=False).layer(at - grid.longest.start)
        is_complete = tiles.times @ tiles.computed >= whole.computed
        found: Floats = np.where(is_complete, np.maximum(new, whole.new[number]), new)
        return found

    def _axes(self, grid: TileGrid, at: int) -> tuple[LayerAxis, LayerAxis]:
        suffixes, place = self._suffixes_of(grid), at - grid.longest.start
        return suffixes.rows.layer(place), suffixes.columns.layer(place)

    def _suffixes_of(self, grid: TileGrid) -> _Suffixes:
        if grid not in self._suffixes:
            mode = grid.mode
            self._suffixes[grid] = _Suffixes(
                self._axis(grid.longest, AxisName.ROWS, grid.rows, cached=mode.caches_rows),
                self._axis(grid.longest, AxisName.COLUMNS, grid.columns, cached=mode.caches_columns),
            )
        return self._suffixes[grid]

    def _axis(self, span: LayerSpan, axis: AxisName, sizes: Sizes, *, cached: bool) -> AxisGrid:
        """Return the grid of a span along an axis. A square stack has one grid for both axes."""
        key = span, axis, sizes, cached
        if key not in self._axis_grids:
            stack = self._stack(span.start, span.stop)
            if axis is AxisName.COLUMNS and stack.is_square:
                self._axis_grids[key] = self._axis(span, AxisName.ROWS, sizes, cached=cached)
            else:
                self._axis_grids[key] = AxisGrid(SizeTiles(stack, axis, sizes, cached), self._alike)
        return self._axis_grids[key]
