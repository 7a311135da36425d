"""Cheap lower bounds on the cost of a stack in given tiles, with which the search prunes choices.

A bound counts the MACs with recomputation, their least reads and writes, and the compulsory DRAM traffic of the stack.
Stacks that end with the same layer share most of the calculation, because a layer computes the same pixels in all of
them if the tiles are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import floor
from operator import mul
from typing import Final

import numpy as np

from onchip.answer.options.fusion_objective import Criteria, FusionObjective
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.bounds.group.alone_bounds import AloneBound, alone_bound
from onchip.bounds.group.axis_grids import Floats
from onchip.bounds.group.layer_bounds import LayerBounds, LayerShare, MapPlaces, Taken
from onchip.bounds.group.layer_grids import LayerGrids
from onchip.bounds.group.network_floor import NetworkFloor
from onchip.bounds.group.seen_shares import shares_of, skips_nothing
from onchip.bounds.group.span_totals import SpanTotals, Tiles
from onchip.bounds.group.stack_grids import GridSums, Places, StackGrids, TileGrid
from onchip.bounds.group.tile_ranges import paced_alike
from onchip.bounds.group.tile_totals import LayerTotals
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import Sharing
from onchip.errors import InputError
from onchip.ops.fusable import FeatureMap, FusableNetwork
from onchip.transform.groups.stacks import FEW_TILINGS, LayerSpan, StackChoice, TileBox, first_starts, stack_of

ROUNDING: Final = 1e-9
"""Relative tolerance: float sums differ from those of the cost model, which adds in another order."""


@dataclass(slots=True)
class StackBounds:
    """Lower bounds on stack choices of one network on one machine, for mappings whose `sharing` is known.

    Intermediate results that choices share are calculated once. The bound on a box of tilings holds for each of its
    tilings. It is the bound on arbitrary tiles if a layer skips pixels, branches differ in pace, mappings may bypass
    memories, or units count in parts.
    """

    network: FusableNetwork
    accelerator: Accelerator
    objective: FusionObjective
    sharing: Sharing
    _layers: LayerBounds = field(init=False)
    _floors: NetworkFloor = field(init=False)
    _longest: dict[int, LayerSpan] = field(init=False)
    _first_readers: dict[str, int] = field(init=False)
    _spans: SpanTotals = field(init=False)
    _channels: Mapping[str, int] = field(init=False)
    _suffixes: dict[tuple[LayerSpan, Tiles], list[LayerShare]] = field(default_factory=dict)
    _map_suffixes: dict[tuple[LayerSpan, Tiles, str | None], list[float]] = field(default_factory=dict)
    _row_caches: dict[tuple[LayerSpan, Tiles], str] = field(default_factory=dict)
    _maps: dict[tuple[LayerSpan, Tiles, int, tuple[str, ...], MapPlaces], float] = field(default_factory=dict)
    _outer_readers: dict[LayerSpan, tuple[int, ...]] = field(default_factory=dict)
    _outside: dict[tuple[LayerSpan, int], tuple[str, ...]] = field(default_factory=dict)
    _inside: dict[tuple[LayerSpan, Tiles, str], tuple[float, float, float, float]] = field(default_factory=dict)
    _ranged: dict[LayerSpan, bool] = field(default_factory=dict)
    _is_tiled: dict[tuple[LayerSpan, Tiles], bool] = field(default_factory=dict)
    _grids: ChoiceGrids = field(init=False)

    def __post_init__(self) -> None:
        self._spans = SpanTotals(self.network)
        self._layers = LayerBounds(MachineFloors(self.accelerator, self.sharing))
        layer_grids = LayerGrids(self._layers)
        self._floors = NetworkFloor(self.network, layer_grids)
        starts = first_starts(self.network)
        self._longest = {last + 1: LayerSpan(start, last + 1) for last, start in enumerate(starts)}
        self._channels = {name: one.channels for name, one in self.network.maps.items()}
        readers = [(read.source, at) for at, layer in enumerate(self.network.layers) for read in layer.reads]
        self._first_readers = dict(reversed(readers))
        grids = StackGrids(self._spans, layer_grids, self._first_readers)
        self._grids = ChoiceGrids(self.network, self.objective, grids, self._longest, self.sharing)

    def bound(self, choice: StackChoice) -> Criteria:
        """Return the lower bound on a choice, rounded down.

        Raises InputError if a tile sees only padding.
        """
        floor = self.floor(choice.span)
        if (in_grid := self._bound_in_grid(choice)) is not None:
            return tuple(map(max, floor, in_grid))
        if choice.box is not None and not self._knows_boxes(choice.span):
            return floor
        own = self._bound_alone(choice) if self._runs_alone(choice.span) else self._bound_in_tiles(choice)
        return tuple(map(max, floor, own))

    def least(self, choices: Sequence[StackChoice]) -> Criteria:
        """Return a lower bound on each of several choices that differ only in their tiles.

        It adds the bound on the longest known stack with the same end and tiles to the floors of the layers before it.
        """
        span = choices[0].span
        floor, end = self.floor(span), self._grids.longest_end(choices)
        if end is None:
            return floor
        start, inside = end
        least = self._floors.of(LayerSpan(span.start, start)).plus(inside)
        return tuple(map(max, floor, self.rounded_down(least.energy_pj, least.cycles, least.dram_bits)))

    def floor(self, span: LayerSpan) -> Criteria:
        """Return a lower bound on the cost of the layers of a span in any stacks and tiles, rounded down."""
        least = self._floors.of(span)
        return self.rounded_down(least.energy_pj, least.cycles, least.dram_bits)

    def _runs_alone(self, span: LayerSpan) -> bool:
        return self.network.layers[span.start].runs_alone

    def in_order(self, choice: StackChoice) -> Iterator[Tiling] | None:
        """Return the tilings of a box by ascending bound, or None if their bounds are unknown."""
        return self._grids.in_order(choice, self._floors.of(choice.span))

    def _bound_in_grid(self, choice: StackChoice) -> Criteria | None:
        """Return a bound valid for all tilings of the choice, or None if their bounds are unknown."""
        sums = self._grids.sums(choice)
        if sums is None:
            return None
        each = (sums.energy_pj, sums.cycles, sums.dram_bits)
        return self.rounded_down(*(float(one.min()) for one in each))

    def _bound_in_tiles(self, choice: StackChoice) -> Criteria:
        key = choice.span, choice.tiles, choice.output_home
        if key not in self._inside:
            self._inside[key] = self._sums_inside(choice)
        energy_pj, cycles, dram_bits, moved = self._inside[key]
        stack, homes = self._spans.stack(choice.span), dict(choice.homes)
        for source in stack.inputs:
            home = homes.get(source.name, DRAM)
            elements, own_pj = self._loaded(choice, source, home)
            energy_pj += own_pj
            dram_bits += elements * source.bits if home == DRAM else 0
        dram_bits += stack.output.size_bits if choice.output_home == DRAM else 0
        return self.rounded_down(energy_pj, cycles, dram_bits * moved)

    def rounded_down(self, energy_pj: float, cycles: float, dram_bits: float) -> Criteria:
        """Return the criteria of a bound, reduced by the tolerance for the order of float sums."""
        criteria = self.objective.criteria(energy_pj, cycles, dram_bits)
        return tuple(max(floor(part * (1 - ROUNDING)) - 1, 0) for part in criteria)

    def _bound_alone(self, choice: StackChoice) -> Criteria:
        layer, homes = self.network.layers[choice.span.start], dict(choice.homes)
        found = alone_bound(layer, self.network.maps, homes, choice.output_home, self._layers.machine)
        return self.rounded_down(found.energy_pj, found.cycles, found.dram_bits)

    def _sums_inside(self, choice: StackChoice) -> tuple[float, float, float, float]:
        """Return energy in pJ, cycles, DRAM bits, and the least fraction of these bits that the cost model counts.

        Excludes the stack's inputs and the write of its output to DRAM.
        """
        span, last = choice.span, choice.span.stop - 1
        key, cache = (self._tiled_as(span, choice.tiles), choice.tiles), self._row_cache(span, choice.tiles)
        share = self._shares_from(*key, span.start)
        maps_pj = self._maps_from(*key, cache, span.start)
        inner = MapPlaces(rows=cache)
        for at in self._readers_outside(span):
            if at != last:
                outside = self._from_outside(span, at)
                maps_pj += self._maps_of(*key, at, outside, inner) - self._maps_of(*key, at, (), inner)
        own = MapPlaces(choice.output_home, cache)
        maps_pj += self._maps_of(*key, last, self._from_outside(span, last), own)
        weights_pj, again_bits = self._layers.all_weights_pj(share)
        return (
            share.energy_pj + maps_pj + weights_pj,
            share.cycles,
            share.weight_bits + again_bits,
            share.moved,
        )

    def _shares_from(self, longest: LayerSpan, tiles: Tiles, start: int) -> LayerShare:
        """Return the sum over the layers from `start` to the stack's end, shared by stacks that end there."""
        known = self._suffixes.setdefault((longest, tiles), [])
        for at in range(longest.stop - 1 - len(known), start - 1, -1):
            share = self._layers.share(self.network.layers[at], *self._layer_totals(longest, tiles, at))
            known.append(share + known[-1] if known else share)
        return known[longest.stop - 1 - start]

    def _maps_from(self, longest: LayerSpan, tiles: Tiles, cache: str | None, start: int) -> float:
        """Return the energy in pJ of the feature maps of the layers from `start` on, without the last layer.

        All maps count as maps of the stack.
        """
        known = self._map_suffixes.setdefault((longest, tiles, cache), [0.0])
        for at in range(longest.stop - 1 - len(known), start - 1, -1):
            known.append(known[-1] + self._maps_of(longest, tiles, at, (), MapPlaces(rows=cache)))
        return known[longest.stop - 1 - start]

    def _row_cache(self, span: LayerSpan, tiles: Tiles) -> str | None:
        """Return the lowest memory with room for the cached rows of all maps, or None without cached rows.

        Excludes pixels that may also be in the column cache, and maps that another stack reads too.
        """
        if isinstance(tiles, TileBox) or not tiles.mode.caches_rows:
            return None
        if (span, tiles) not in self._row_caches:
            rows, columns = self._spans.of(self._tiled_as(span, tiles), tiles)
            stack = self._spans.stack(span)
            own = [one for one in stack.inputs if self._first_readers.get(one.name, -1) >= span.start]
            bits = sum(
                rows.kept[one.name] * (columns.whole[one.name] - columns.kept[one.name]) * one.channels * one.bits
                for one in (*own, *(layer.output for layer in stack.layers))
            )
            fitting = (name for name in self._layers.cache_places if bits <= self._layers.capacities[name])
            self._row_caches[span, tiles] = next(fitting)
        return self._row_caches[span, tiles]

    def _maps_of(self, longest: LayerSpan, tiles: Tiles, at: int, outside: tuple[str, ...], places: MapPlaces) -> float:
        key = longest, tiles, at, outside, places
        if key not in self._maps:
            layer = self.network.layers[at]
            inner = {read.source: self._channels[read.source] for read in layer.reads if read.source not in outside}
            rows, columns = self._layer_totals(longest, tiles, at)
            self._maps[key] = self._layers.maps_pj(layer, rows, columns, inner, places)
        return self._maps[key]

    def _readers_outside(self, span: LayerSpan) -> tuple[int, ...]:
        """Return the indices of the layers that read inputs of the stack."""
        if span not in self._outer_readers:
            every = range(span.start, span.stop)
            self._outer_readers[span] = tuple(at for at in every if self._from_outside(span, at))
        return self._outer_readers[span]

    def _layer_totals(self, longest: LayerSpan, tiles: Tiles, at: int) -> tuple[LayerTotals, LayerTotals]:
        rows, columns = self._spans.of(longest, tiles)
        name = self.network.layers[at].name
        return rows.layers[name], columns.layers[name]

    def _from_outside(self, span: LayerSpan, at: int) -> tuple[str, ...]:
        if (span, at) not in self._outside:
            inputs = {one.name for one in self._spans.stack(span).inputs}
            sources = [read.source for read in self.network.layers[at].reads]
            self._outside[span, at] = tuple(source for source in sources if source in inputs)
        return self._outside[span, at]

    def _loaded(self, choice: StackChoice, source: FeatureMap, home: str) -> tuple[float, float]:
        """Return the maximum over the reading layers of the elements loaded of an input, and of their energy in pJ.

        If the stack has all readers of the input, both figures are the same in a longer stack.
        """
        longest = self._tiled_as(choice.span, choice.tiles)
        is_alike = self._first_readers.get(source.name, choice.span.start) >= choice.span.start
        rows, columns = self._spans.of(longest if is_alike else choice.span, choice.tiles)
        taken = [
            (layer, channels * share * rows.layers[layer.name].new(at) * columns.layers[layer.name].new(at))
            for layer in self._spans.stack(choice.span).layers
            for at, share in shares_of(layer, source)
            for channels in (layer.reads[at].channels_seen(source.channels),)
        ]
        own_pj = (
            elements * self._layers.load_pj(layer, rows.layers[layer.name], columns.layers[layer.name], home)
            for layer, elements in taken
        )
        return max(elements for _, elements in taken), max(own_pj)

    def _tiled_as(self, span: LayerSpan, tiles: Tiles) -> LayerSpan:
        """Return the longest stack with the same end, or `span` if a tile of the longest sees only padding.

        A span of one layer returns itself, because it shares little with longer stacks.
        """
        if span.length == 1:
            return span
        longest = self._longest[span.stop]
        if (longest, tiles) not in self._is_tiled:
            try:
                self._spans.of(longest, tiles)
                self._is_tiled[longest, tiles] = True
            except InputError:
                self._is_tiled[longest, tiles] = False
        return longest if self._is_tiled[longest, tiles] else span

    def _knows_boxes(self, span: LayerSpan) -> bool:
        if not self.sharing.every_memory_keeps or self.sharing.is_of_every_shape:
            return False
        if span not in self._ranged:
            stack = self._spans.stack(span)
            self._ranged[span] = skips_nothing(stack) and paced_alike(stack)
        return self._ranged[span]


@dataclass(slots=True)
class ChoiceGrids:
    """Bounds on choices, from grids that contain their tilings. `longest` maps a stack's end to the longest stack."""

    network: FusableNetwork
    objective: FusionObjective
    grids: StackGrids
    longest: Mapping[int, LayerSpan]
    sharing: Sharing
    _grids_of: dict[tuple[LayerSpan, OverlapMode], list[TileGrid]] = field(default_factory=dict)
    _inputs: dict[LayerSpan, tuple[str, ...]] = field(default_factory=dict)
    _sums: dict[tuple[TileGrid, int, tuple[str, ...], Taken], GridSums] = field(default_factory=dict)
    _known_from: dict[tuple[int, str], int] = field(default_factory=dict)
    """Map from (end of a stack, home of its output) to the start of the longest stack with known sums."""
    _ends: dict[tuple[int, int, str, tuple[Tiling | TileBox, ...]], AloneBound | None] = field(default_factory=dict)

    def sums(self, choice: StackChoice) -> GridSums | None:
        """Return lower bounds on the tilings of a choice, by rows and columns, or None if they are unknown.

        They are unknown if mappings may bypass memories, units count in parts, the first layer runs alone, the box is
        large, or some tile sees only padding.
        """
        keeps = self.sharing.every_memory_keeps and not self.sharing.is_of_every_shape
        tiles, span = choice.tiles, choice.span
        runs_alone = self.network.layers[span.start].runs_alone
        if not keeps or runs_alone or (choice.box is not None and choice.box.count > FEW_TILINGS):
            return None
        longest = span if span.length == 1 else self.longest[span.stop]
        found = self._grid_with(longest, span.start, tiles.mode, *_sizes(tiles))
        return None if found is None else self._sums_in(choice, *found)

    def longest_end(self, choices: Sequence[StackChoice]) -> tuple[int, AloneBound] | None:
        """Return the start of the longest known stack with the end of these choices, and a bound on it in their tiles.

        The bound excludes its loads, because layers before it may compute its inputs. The choices differ only in their
        tiles. Returns None if no known stack lies within theirs, or if the bound on some tiles is unknown.
        """
        span, output_home = choices[0].span, choices[0].output_home
        start = self._known_from.get((span.stop, output_home))
        if start is None or span.length == 1:
            return None
        start = max(start, span.start)
        key = span.stop, start, output_home, tuple(choice.tiles for choice in choices)
        if key not in self._ends:
            every = [self._inside(choice, start) for choice in choices]
            found = [one for one in every if one is not None]
            self._ends[key] = reduce(_least_of, found) if len(found) == len(every) else None
        own = self._ends[key]
        return None if own is None else (start, own)

    def _inside(self, choice: StackChoice, start: int) -> AloneBound | None:
        if choice.box is not None and choice.box.count > FEW_TILINGS:
            return None
        found = self._grid_with(self.longest[choice.span.stop], start, choice.tiles.mode, *_sizes(choice.tiles))
        if found is None:
            return None
        grid, places = found
        sums = self.grids.sums_inside(grid, start, choice.output_home).at(places)
        return AloneBound(float(sums.energy_pj.min()), float(sums.cycles.min()), int(sums.dram_bits.min()))

    def in_order(self, choice: StackChoice, floor: AloneBound) -> Iterator[Tiling] | None:
        """Return the tilings of a box by ascending bound, each at least `floor`, or None if the bounds are unknown."""
        sums = self.sums(choice)
        if sums is None or choice.box is None:
            return None
        criteria = self.objective.of_arrays(
            np.maximum(sums.energy_pj, floor.energy_pj),
            np.maximum(sums.cycles, floor.cycles),
            np.maximum(sums.dram_bits, floor.dram_bits),
        )
        return _in_order(choice.box, reduce(mul, criteria))

    def _sums_in(self, choice: StackChoice, grid: TileGrid, places: Places) -> GridSums:
        homes, start = dict(choice.homes), choice.span.start
        if choice.span not in self._inputs:
            self._inputs[choice.span] = tuple(one.name for one in stack_of(self.network, choice.span).inputs)
        own = tuple(homes.get(name, DRAM) for name in self._inputs[choice.span])
        taken = self._taken(choice)
        key = grid, start, (*own, choice.output_home), taken
        if key not in self._sums:
            if choice.box is not None:  # the end of a choice of few tilings need not be known to other choices
                end = choice.span.stop, choice.output_home
                self._known_from[end] = min(start, self._known_from.get(end, start))
            self._sums[key] = self.grids.sums(grid, start, homes, choice.output_home, taken)
        return self._sums[key].at(places)

    def _taken(self, choice: StackChoice) -> Taken:
        """Return the bits of each memory that whole maps occupy while the stack runs."""
        taken: dict[str, int] = {}
        output = self.network.layers[choice.span.stop - 1].output
        for name, memory in (*choice.homes, (output.name, choice.output_home)):
            if memory != DRAM:
                taken[memory] = taken.get(memory, 0) + self.network.maps[name].size_bits
        return tuple(sorted(taken.items()))

    def _grid_with(
        self, longest: LayerSpan, start: int, mode: OverlapMode, columns: tuple[int, ...], rows: tuple[int, ...]
    ) -> tuple[TileGrid, Places] | None:
        """Return a grid that contains these sizes, and their indices in it.

        A new grid of several sizes also contains the whole axes. Returns None if some tile sees only padding in the
        layers from `start` on.
        """
        known = self._grids_of.setdefault((longest, mode), [])
        for grid in known:
            places = grid.places_of(columns, rows)
            if places is not None and self.grids.sees_all(grid, start):
                return grid, places
        output, few = self.network.layers[longest.stop - 1].output, len(columns) * len(rows) == 1
        across, down = (
            sizes if few else tuple(sorted({*sizes, whole}))
            for sizes, whole in ((columns, output.columns), (rows, output.rows))
        )
        if any((grid.columns, grid.rows) == (across, down) for grid in known):
            return None
        grid = TileGrid(longest, mode, across, down)
        known.append(grid)
        places = grid.places_of(columns, rows)
        return (grid, places) if places is not None and self.grids.sees_all(grid, start) else None


def _sizes(tiles: Tiling | TileBox) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of columns and rows."""
    return (tiles.columns, tiles.rows) if isinstance(tiles, TileBox) else ((tiles.columns,), (tiles.rows,))


def _least_of(one: AloneBound, other: AloneBound) -> AloneBound:
    return AloneBound(
        min(one.energy_pj, other.energy_pj), min(one.cycles, other.cycles), min(one.dram_bits, other.dram_bits)
    )


def _in_order(box: TileBox, values: Floats) -> Iterator[Tiling]:
    """Yield the tilings of a box by ascending value; `values` has the shape (rows, columns)."""
    width = len(box.columns)
    for place in np.argsort(values, axis=None, kind="stable").tolist():
        yield Tiling(box.columns[place % width], box.rows[place // width], box.mode)
