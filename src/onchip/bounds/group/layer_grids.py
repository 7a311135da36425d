"""Lower bounds on a layer's cost for many tile sizes at once, with the exact shape of each tile (cf. `layer_bounds`).

Arrays by tile have the shape (class of rows, class of columns). Arrays by size, summed over all tiles, have the shape
(size of rows, size of columns).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.arch.memory import DRAM, Operand
from onchip.bounds.group.axis_grids import Floats, LayerAxis
from onchip.bounds.group.layer_bounds import AlikeSizes, LayerBounds, LayerFloors, MapPlaces, pixels_are_groups
from onchip.bounds.group.size_tiles import Integers
from onchip.bounds.layer.layer_floors import least_of
from onchip.bounds.layer.unit_shares import Number
from onchip.ops.fusable import FusableLayer

Reads: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of the index of a layer's read and the number of channels that it sees."""
_Place: TypeAlias = tuple[int, LayerAxis, LayerAxis]
"""A kind of layer, and its tiles along rows and columns."""


@dataclass(frozen=True, slots=True, eq=False)
class GridShare:
    """The fields of `LayerShare` by size. The first axis of `weights_pj` is the lowest home of the weights."""

    energy_pj: Floats
    cycles: Floats
    weight_bits: int
    weights_pj: Floats
    tiles_again: Floats
    dearer_pj: Floats

    def __add__(self, other: GridShare) -> GridShare:
        return GridShare(
            self.energy_pj + other.energy_pj,
            self.cycles + other.cycles,
            self.weight_bits + other.weight_bits,
            self.weights_pj + other.weights_pj,
            np.minimum(self.tiles_again, other.tiles_again),
            np.minimum(self.dearer_pj, other.dearer_pj),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _ShapeFloors:
    """Floors of a layer in arrays over all shapes in `down` x `across`, in row-major order."""

    floors: LayerFloors
    down: Integers
    across: Integers

    def places(self, down: Integers, across: Integers) -> NDArray[np.intp]:
        """Return the indices of tiles with these rows and columns, or with these pixels if pixels are groups."""
        if not len(self.across):
            return np.searchsorted(self.down, down)
        return np.searchsorted(self.down, down)[:, None] * len(self.across) + np.searchsorted(self.across, across)


@dataclass(frozen=True, slots=True, eq=False)
class _Tiles:
    """A layer in tiles: the floors by tile shape, and the index of each tile's shape."""

    layer: FusableLayer
    rows: LayerAxis
    columns: LayerAxis
    floors: LayerFloors
    shape: NDArray[np.intp]
    per_element: Mapping[str, float]
    """Map from home to the least energy in pJ of an input element over all shapes."""
    outputs: Mapping[str, float]

    @property
    def pixels(self) -> Floats:
        return np.outer(self.rows.computed, self.columns.computed)

    def summed(self, each: Floats) -> Floats:
        """Return the sum over all tiles, by size."""
        found: Floats = self.rows.times @ each @ self.columns.times.T
        return found

    def by_tile(self, numbers: Number) -> Floats:
        """Return numbers by tile, given numbers by shape."""
        return np.atleast_1d(numbers)[self.shape]


@dataclass(slots=True)
class LayerGrids:
    """Lower bounds on layers in tiles of many sizes, valid for mappings that bypass no memory."""

    bounds: LayerBounds
    _alike: AlikeSizes = field(init=False)
    _kinds: dict[str, int] = field(default_factory=dict)
    """Map from layer name to the number of its class. Layers of a class differ only in names."""
    _nameless: dict[FusableLayer, int] = field(default_factory=dict)
    _shapes: dict[int, _ShapeFloors] = field(default_factory=dict)
    _tiles: dict[_Place, _Tiles] = field(default_factory=dict)
    _shares: dict[_Place, GridShare] = field(default_factory=dict)
    _maps: dict[tuple[_Place, Reads, MapPlaces], Floats] = field(default_factory=dict)
    _bits: dict[tuple[_Place, Reads], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._alike = AlikeSizes(self.bounds.machine)

    def share(self, layer: FusableLayer, rows: LayerAxis, columns: LayerAxis) -> GridShare:
        """Return the bounds over all tiles, without the accesses of feature maps at their homes."""
        place = self._kind(layer), rows, columns
        if place not in self._shares:
            self._shares[place] = self._share(layer, rows, columns)
        return self._shares[place]

    def _share(self, layer: FusableLayer, rows: LayerAxis, columns: LayerAxis) -> GridShare:
        tiles = self._tiles_of(layer, rows, columns)
        machine, per_pixel = self.bounds.machine, _macs_of_a_pixel(layer)
        macs = per_pixel * tiles.pixels
        inner = per_pixel * np.outer(rows.inner, columns.inner)
        per_mac, at_work = tiles.by_tile(tiles.floors.input.per_mac), tiles.by_tile(tiles.floors.nest.shares.at_work)
        energy_pj = tiles.summed(macs * machine.mac_energy_pj + inner * per_mac)
        cycles = tiles.summed(macs / np.minimum(at_work, np.maximum(macs, 1)))
        if tiles.floors.reuse is None:
            nothing = np.zeros_like(energy_pj)
            homes = np.zeros((len(self.bounds.weight_homes), *energy_pj.shape))
            return GridShare(energy_pj, cycles, 0, homes, nothing + inf, nothing + inf)
        bits = layer.layer.elements(Operand.WEIGHT) * layer.layer.weight_bits
        weights_pj = self._weights_pj(tiles)
        dearer_pj = (weights_pj[-1] - weights_pj[self.bounds.highest_home]) / bits
        return GridShare(energy_pj, cycles, bits, weights_pj, np.outer(rows.tiles, columns.tiles) - 1, dearer_pj)

    def _weights_pj(self, tiles: _Tiles) -> Floats:
        """Return the energy in pJ by home and size of weights that lie in this home or higher.

        The first tile loads them from DRAM. Every layer computes something in that tile.
        """
        rows, columns, weights = tiles.rows, tiles.columns, tiles.layer.layer.elements(Operand.WEIGHT)
        each = self._weight_pj(tiles)
        least = each[:, rows.first_class[:, None], columns.first_class]
        by_home = least[-1] - least + tiles.rows.times @ each @ tiles.columns.times.T
        found: Floats = weights * np.minimum.accumulate(by_home[::-1])[::-1]
        return found

    def _weight_pj(self, tiles: _Tiles) -> Floats:
        """Return by home and tile the least energy in pJ of a weight over the cases of reuse.

        It includes the additional energy of outputs in each case.
        """
        layer, reuse = tiles.layer, tiles.floors.reuse
        assert reuse is not None
        uses = tiles.pixels * layer.layer.n
        per_weight = tiles.pixels * layer.output.channels / layer.layer.elements(Operand.WEIGHT)
        found = np.full((len(self.bounds.weight_homes), *uses.shape), inf)
        for lines, more in zip(reuse.lines, reuse.more_per_output, strict=True):
            more_pj = more[tiles.shape] * per_weight
            for home, ways in enumerate(lines):
                each = least_of(
                    np.maximum(*(slope[tiles.shape] * uses + once[tiles.shape] for slope, once in way)) for way in ways
                )
                np.minimum(found[home], each + more_pj, out=found[home])
        return found

    def maps_pj(
        self,
        layer: FusableLayer,
        rows: LayerAxis,
        columns: LayerAxis,
        reads: Reads,
        places: MapPlaces,
    ) -> Floats:
        """Return by size the least energy in pJ of the accesses of a layer's output and input at their homes.

        `reads` are the reads of maps of the stack; inputs of the stack are excluded. Each tile uses the cheapest
        memories with room for both.
        """
        place = self._kind(layer), rows, columns
        if places.taken:
            most_bits, free = self._most_bits(layer, place, reads), self.bounds.free(places.taken)
            some = tuple((name, bits) for name, bits in places.taken if most_bits > free[name])
            places = replace(places, taken=some)
        key = place, reads, places
        if key not in self._maps:
            tiles = self._tiles_of(layer, rows, columns)
            self._maps[key] = tiles.summed(self._maps_of_tiles(tiles, reads, places))
        return self._maps[key]

    def _most_bits(self, layer: FusableLayer, place: _Place, reads: Reads) -> float:
        """Return an upper bound on the bits of any tile's maps. With room for these bits, each tile fits."""
        key = place, reads
        if key not in self._bits:
            _, rows, columns = place
            seen = sum(count * rows.seen[at].max() * columns.seen[at].max() for at, count in reads)
            written = rows.computed.max() * columns.computed.max() * layer.output.channels
            self._bits[key] = float(seen * layer.layer.input_bits + written * layer.layer.output_bits)
        return self._bits[key]

    def in_any_tiles_pj(
        self,
        layer: FusableLayer,
        rows: LayerAxis,
        columns: LayerAxis,
        reads: Reads,
        places: MapPlaces,
        pixels: int,
    ) -> float:
        """Return the least energy in pJ of weights and maps if `pixels` are computed in tiles of these shapes.

        Tiles may have different shapes. Weights never lie in a memory without room for the layer's own weights. Maps
        count as in `maps_pj`.
        """
        tiles, homes = self._new_tiles(layer, rows, columns), self.bounds.weight_homes
        maps_pj, weights = self._maps_of_tiles(tiles, reads, places), layer.layer.elements(Operand.WEIGHT)
        if tiles.floors.reuse is None:
            return pixels * float((maps_pj / tiles.pixels).min())
        each = weights * self._weight_pj(tiles)
        begun = (each[-1] - each).min(axis=(1, 2))
        of_pixel = ((each + maps_pj) / tiles.pixels).min(axis=(1, 2))
        bits = weights * layer.layer.weight_bits
        lowest = next(at for at, home in enumerate(homes) if bits <= self.bounds.capacities[home])
        return float((begun + pixels * of_pixel)[min(lowest, self.bounds.highest_home) :].min())

    def _maps_of_tiles(self, tiles: _Tiles, reads: Reads, places: MapPlaces) -> Floats:
        """Return the least energy in pJ of maps by tile (see `maps_pj`)."""
        layer, rows, columns = tiles.layer, tiles.rows, tiles.columns
        nothing = np.zeros_like(tiles.pixels)
        seen = sum((count * np.outer(rows.seen[at], columns.seen[at]) for at, count in reads), nothing)
        again = sum(
            (count * np.outer(rows.cached[at], columns.seen[at] - columns.cached[at]) for at, count in reads), nothing
        )
        written = tiles.pixels * layer.output.channels
        kept = np.outer(rows.written, columns.computed) * layer.output.channels * layer.layer.output_bits
        least = nothing + inf
        per_element, outputs, free = tiles.per_element, tiles.outputs, self.bounds.free(places.taken)
        for source in per_element if reads else (DRAM,):
            taken = seen * per_element[source]
            if places.rows:
                taken = taken + again * max(_from_there(per_element, places.rows) - per_element[source], 0.0)
            for target in (places.output,) if places.output else outputs:
                left = written * outputs[target]
                if places.rows:
                    left = left + kept * self.bounds.machine.up_to_pj(target, places.rows)
                fits = _have_room(layer, seen, written, (source, target), places, free)
                least = np.where(fits, np.minimum(least, taken * tiles.floors.share + left), least)
        return least

    def _tiles_of(self, layer: FusableLayer, rows: LayerAxis, columns: LayerAxis) -> _Tiles:
        place = self._kind(layer), rows, columns
        if place not in self._tiles:
            self._tiles[place] = self._new_tiles(layer, rows, columns)
        return self._tiles[place]

    def _kind(self, layer: FusableLayer) -> int:
        if layer.name not in self._kinds:
            reads = tuple(replace(read, source="") for read in layer.reads)
            nameless = replace(layer, name="", output=replace(layer.output, name=""), reads=reads)
            self._kinds[layer.name] = self._nameless.setdefault(nameless, len(self._nameless))
        return self._kinds[layer.name]

    def _new_tiles(self, layer: FusableLayer, rows: LayerAxis, columns: LayerAxis) -> _Tiles:
        down, across = rows.computed.astype(np.int64), columns.computed.astype(np.int64)
        if pixels_are_groups(layer):
            down, across = self._alike.of(np.outer(down, across), "G"), np.ones(0, np.int64)
        else:
            down, across = self._alike.of(down, "P"), self._alike.of(across, "Q")
        shapes = self._shape_floors(layer, down, across)
        found = shapes.places(down, across)
        inputs, outputs = (
            {home: float(np.atleast_1d(one)[found].min()) for home, one in each.items()}
            for each in (shapes.floors.input.per_element, shapes.floors.output)
        )
        return _Tiles(layer, rows, columns, shapes.floors, found, inputs, outputs)

    def _shape_floors(self, layer: FusableLayer, down: Integers, across: Integers) -> _ShapeFloors:
        """Return the floors of all tile shapes of the layer, or only of the given ones if shapes form no classes."""
        if self.bounds.machine.sharing.is_of_every_shape:
            return self._floors_of(layer, down, across)
        kind = self._kind(layer)
        if kind not in self._shapes:
            most = layer.output.rows, layer.output.columns
            if pixels_are_groups(layer):
                down = self._alike.of(np.arange(1, prod(most) + 1), "G")
            else:
                down, across = (
                    self._alike.of(np.arange(1, side + 1), loop) for side, loop in zip(most, "PQ", strict=True)
                )
            self._shapes[kind] = self._floors_of(layer, down, across)
        return self._shapes[kind]

    def _floors_of(self, layer: FusableLayer, down: Integers, across: Integers) -> _ShapeFloors:
        down, across = np.unique(down), np.unique(across)
        sizes = {"P": down[:, None], "Q": across} if len(across) else {"G": down}
        if not len(across):
            sizes["G"] = down * (layer.layer.g // (layer.output.rows * layer.output.columns))
        return _ShapeFloors(self.bounds.floors_of_tiles(layer, sizes), down, across)


def _macs_of_a_pixel(layer: FusableLayer) -> int:
    return layer.layer.macs // (layer.output.rows * layer.output.columns)


def _from_there(per_element: Mapping[str, float], home: str) -> float:
    """Return the least energy in pJ of an element that lies in `home` or higher. Homes are ordered from the units."""
    names = list(per_element)
    return min(per_element[name] for name in names[names.index(home) :])


def _have_room(
    layer: FusableLayer,
    seen: Floats,
    written: Floats,
    memories: tuple[str, str],
    places: MapPlaces,
    free: Mapping[str, float],
) -> NDArray[np.bool_]:
    """Return by tile whether its input and output fit in these memories.

    An output with a given home always fits. Its bits are part of `places.taken`, unless that is empty.
    """
    source, target = memories
    written_bits = written * layer.layer.output_bits
    is_placed = places.output is not None
    beside = written_bits if source == target and not (is_placed and places.taken) else 0.0
    has_place = np.full(written.shape, True) if is_placed else written_bits <= free[target]
    found: NDArray[np.bool_] = has_place & ((seen == 0) | (seen * layer.layer.input_bits + beside <= free[source]))
    return found
