"""What a stack in some tiles costs at least: cheap, for the search to pass by what cannot be the best.

Multiply-accumulates with recomputation, what they read and write at least, and what every stack moves from and to DRAM.
Stacks that end with the same layer have most of it in common: in equal tiles, a layer computes the same in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Final

from onchip.answer.options.fusion_objective import Criteria, FusionObjective
from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.bounds.group.alone_bounds import alone_bound
from onchip.bounds.group.choice_grids import ChoiceGrids
from onchip.bounds.group.layer_bounds import LayerBounds, LayerShare, MapPlaces
from onchip.bounds.group.network_floor import NetworkFloor
from onchip.bounds.group.seen_shares import shares_of, skips_nothing
from onchip.bounds.group.span_totals import SpanTotals, Tiles
from onchip.bounds.group.stack_grids import StackGrids
from onchip.bounds.group.tile_ranges import paced_alike
from onchip.bounds.group.tile_totals import LayerTotals
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import Sharing
from onchip.errors import InputError
from onchip.ops.derive.fusable import FeatureMap, FusableNetwork
from onchip.transform.groups.stack_choice import StackChoice
from onchip.transform.groups.stacks import LayerSpan, first_starts
from onchip.transform.groups.tilings import TileBox

ROUNDING: Final = 1e-9
"""Sums of floats are not those of the cost model in another order."""


@dataclass(slots=True)
class StackBounds:
    """Of the choices on one network and machine, with mappings of which `sharing` is known.

    What choices share is calculated once. Of a box of tilings the bound is that of each; where a layer skips pixels,
    branches differ in pace, or mappings leave out memories or count units in parts, it is that of any tiles.
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
        self._floors = NetworkFloor(self.network, self._layers)
        starts = first_starts(self.network)
        self._longest = {last + 1: LayerSpan(start, last + 1) for last, start in enumerate(starts)}
        self._channels = {name: one.channels for name, one in self.network.maps.items()}
        readers = [(read.source, at) for at, layer in enumerate(self.network.layers) for read in layer.reads]
        self._first_readers = dict(reversed(readers))
        grids = StackGrids(self._spans, self._layers, self._first_readers)
        self._grids = ChoiceGrids(self.network, self.objective, grids, self._longest, self.sharing)

    def bound(self, choice: StackChoice) -> Criteria:
        """Rounded down; raises InputError for tiles that see nothing but padding."""
        floor = self.floor(choice.span)
        if (in_grid := self._bound_in_grid(choice)) is not None:
            return tuple(map(max, floor, in_grid))
        if choice.box is not None and not self._knows_boxes(choice.span):
            return floor
        own = self._bound_alone(choice) if self._runs_alone(choice.span) else self._bound_in_tiles(choice)
        return tuple(map(max, floor, own))

    def least(self, choices: Sequence[StackChoice]) -> Criteria:
        """Return what each of several choices costs at least that differ in their tiles alone.

        Of the longest stack known that ends there, in the same tiles, and of the floors of the layers before it.
        """
        span = choices[0].span
        floor, end = self.floor(span), self._grids.longest_end(choices)
        if end is None:
            return floor
        start, inside = end
        least = self._floors.of(LayerSpan(span.start, start)).plus(inside)
        return tuple(map(max, floor, self.rounded_down(least.energy_pj, least.cycles, least.dram_bits)))

    def floor(self, span: LayerSpan) -> Criteria:
        """Return what the layers of a span cost at least, in whatever stacks and tiles, rounded down."""
        least = self._floors.of(span)
        return self.rounded_down(least.energy_pj, least.cycles, least.dram_bits)

    def _runs_alone(self, span: LayerSpan) -> bool:
        return self.network.layers[span.start].runs_alone

    def in_order(self, choice: StackChoice) -> Iterator[Tiling] | None:
        """Yield the tilings of a box, the one of least bound first; None where no such bounds are known."""
        return self._grids.in_order(choice, self._floors.of(choice.span))

    def _bound_in_grid(self, choice: StackChoice) -> Criteria | None:
        """Of all tilings of the choice together, None where nothing is known of these."""
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
        """Return the criteria of a bound, less what sums of floats in another order may differ by."""
        criteria = self.objective.criteria(energy_pj, cycles, dram_bits)
        return tuple(max(floor(part * (1 - ROUNDING)) - 1, 0) for part in criteria)

    def _bound_alone(self, choice: StackChoice) -> Criteria:
        layer, homes = self.network.layers[choice.span.start], dict(choice.homes)
        found = alone_bound(layer, self.network.maps, homes, choice.output_home, self._layers.machine)
        return self.rounded_down(found.energy_pj, found.cycles, found.dram_bits)

    def _sums_inside(self, choice: StackChoice) -> tuple[float, float, float, float]:
        """Energy, cycles and bits of DRAM, without what comes from outside and the stack's output in DRAM.

        The last is the part of these bits that is counted at least.
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
        """Of the layers from there to the stack's end, which stacks that end with the same layer have in common."""
        known = self._suffixes.setdefault((longest, tiles), [])
        for at in range(longest.stop - 1 - len(known), start - 1, -1):
            share = self._layers.share(self.network.layers[at], *self._layer_totals(longest, tiles, at))
            known.append(share + known[-1] if known else share)
        return known[longest.stop - 1 - start]

    def _maps_from(self, longest: LayerSpan, tiles: Tiles, cache: str | None, start: int) -> float:
        """Energy of their feature maps, as if all were of the stack, without those of the last layer."""
        known = self._map_suffixes.setdefault((longest, tiles, cache), [0.0])
        for at in range(longest.stop - 1 - len(known), start - 1, -1):
            known.append(known[-1] + self._maps_of(longest, tiles, at, (), MapPlaces(rows=cache)))
        return known[longest.stop - 1 - start]

    def _row_cache(self, span: LayerSpan, tiles: Tiles) -> str | None:
        """The lowest memory in which cached rows may lie, if any are: it has room for those of all maps.

        Not counted is what may be in the cache of columns, too, and a map that another stack reads as well.
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
        """Layers that read what is not of the stack."""
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
        """Elements from outside that the layer takes that takes most, and the energy of those that cost most.

        Where all readers of a map are in the stack, these are the same in a longer one.
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
        """The longest stack that ends there, or this one if its tiles see something where that one's do not.

        A layer alone has little in common with longer ones.
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
