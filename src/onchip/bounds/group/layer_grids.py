"""Lower bounds on a layer's cost in tiles of many sizes at once, with the exact shape of each tile.

Arrays by tile have the shape (class of rows, class of columns). Arrays by size, summed over all tiles, have the shape
(size of rows, size of columns).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import loops_along
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.group.reuse_floors import ReuseFloors, reuse_floors
from onchip.bounds.group.tile_axes import Floats, Integers, LayerAxis
from onchip.bounds.layer.layer_floors import MachineFloors, NestFloors, OperandFloor, least_of
from onchip.bounds.layer.unit_shares import Number
from onchip.ir.layer import LOOPS
from onchip.ops.fusable import FeatureMap, FusableLayer, Read

Reads: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of the index of a layer's read and the number of channels that it sees."""
_Place: TypeAlias = tuple[int, LayerAxis, LayerAxis]
"""A kind of layer, and its tiles along rows and columns."""
Taken: TypeAlias = tuple[tuple[str, int], ...]
"""Pairs of a memory and its occupied bits."""
LEAST_BITS: Final = 8
"""Bits left in a memory that other tensors fill, as in the cost model."""


@dataclass(frozen=True, slots=True)
class MapPlaces:
    """Placement of a stack's feature maps.

    `output` is the home of the stack's output (for its last layer only). `rows` is the lowest memory in which cached
    rows may lie, or None without cached rows. `taken` are the bits of each memory that whole maps occupy while the
    stack runs, including its output.
    """

    output: str | None = None
    rows: str | None = None
    taken: Taken = ()


@dataclass(frozen=True, slots=True, eq=False)
class GridShare:
    """Lower bounds on the cost of one layer or the sum of several, by size.

    `energy_pj` excludes weights and the accesses of feature maps at their homes. The first axis of `weights_pj` is the
    memory of weights, DRAM last: weights which, from the second tile on, lie in this memory or higher. At least
    `tiles_again` further tiles follow. In each, a weight bit from DRAM costs at least `dearer_pj` more than one from
    the highest memory on the chip. `moved` is the least fraction of moved elements that the cost model counts.
    """

    energy_pj: Floats
    cycles: Floats
    weight_bits: int
    weights_pj: Floats
    tiles_again: Floats
    dearer_pj: Floats
    moved: Floats

    def __add__(self, other: GridShare) -> GridShare:
        return GridShare(
            self.energy_pj + other.energy_pj,
            self.cycles + other.cycles,
            self.weight_bits + other.weight_bits,
            self.weights_pj + other.weights_pj,
            np.minimum(self.tiles_again, other.tiles_again),
            np.minimum(self.dearer_pj, other.dearer_pj),
            np.minimum(self.moved, other.moved),
        )


@dataclass(slots=True)
class AlikeSizes:
    """Classes of pixel counts with the same spatial unrollings on a machine's array, each represented by its least."""

    machine: MachineFloors
    _sides: Mapping[str, int] = field(init=False)
    """Map from loop to the size of the largest array dimension that may unroll it."""
    _tables: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    """Map from the size of an array dimension to an array with the representative of each number from 0 on."""

    def __post_init__(self) -> None:
        array = self.machine.array
        self._sides = {
            loop: max((size for name, size in array.sizes.items() if loop in loops_along(array, name)), default=1)
            for loop in LOOPS
        }

    def of(self, pixels: NDArray[np.int64], loop: str) -> NDArray[np.int64]:
        """Return the representative of each number of iterations of a loop. All `pixels` are at least 1."""
        most, sharing = self._sides[loop], self.machine.sharing
        if sharing.is_of_every_shape:
            return pixels
        if not sharing.divides_loops:
            return np.minimum(pixels, most)
        largest = int(pixels.max())
        if most not in self._tables or len(self._tables[most]) <= largest:
            self._tables[most] = _products_of_factors(most, 2 * largest)
        return self._tables[most][pixels]


def _products_of_factors(most: int, largest: int) -> NDArray[np.int64]:
    """Return for each number up to `largest` the least number with the same factors up to `most`."""
    numbers = np.arange(largest + 1)
    found = np.ones_like(numbers)
    for factor in range(2, min(most, largest) + 1):
        found[::factor] = np.lcm(found[::factor], factor)
    return found


@dataclass(frozen=True, slots=True)
class LayerFloors:
    """Lower bounds on a layer's cost, for tiles up to a size or in arrays by tile. `reuse` is None without weights.

    `share` is the least fraction of the pixels in view that no stride skips and that do not lie between dilated taps.
    """

    nest: NestFloors
    share: float
    input: OperandFloor
    reuse: ReuseFloors | None
    output: Mapping[str, Number]


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

    def least(self, numbers: Number) -> Floats:
        """Return the minimum over all tiles, by size, given numbers by shape, or one for all."""
        if not isinstance(numbers, np.ndarray):
            return np.full((len(self.rows.times), len(self.columns.times)), numbers)
        down = np.where(self.rows.times[:, :, None] > 0, self.by_tile(numbers), inf).min(axis=1)
        found: Floats = np.where(self.columns.times[None] > 0, down[:, None], inf).min(axis=2)
        return found

    def by_tile(self, numbers: Number) -> Floats:
        """Return numbers by tile, given numbers by shape."""
        return np.atleast_1d(numbers)[self.shape]


@dataclass(slots=True)
class LayerGrids:
    """Lower bounds on the layers of a network in tiles of many sizes, on one machine, over all mappings."""

    machine: MachineFloors
    capacities: Mapping[str, float] = field(init=False)
    """Map from memory to its bits."""
    cache_places: tuple[str, ...] = field(init=False)
    weight_homes: tuple[str, ...] = field(init=False)
    _alike: AlikeSizes = field(init=False)
    _kinds: dict[str, int] = field(default_factory=dict)
    """Map from layer name to the number of its class. Layers of a class differ only in names."""
    _nameless: dict[FusableLayer, int] = field(default_factory=dict)
    _shapes: dict[int, _ShapeFloors] = field(default_factory=dict)
    _tiles: dict[_Place, _Tiles] = field(default_factory=dict)
    _shares: dict[_Place, GridShare] = field(default_factory=dict)
    _maps: dict[tuple[_Place, Reads, MapPlaces], Floats] = field(default_factory=dict)
    _bits: dict[tuple[_Place, Reads], float] = field(default_factory=dict)
    _in_any_tiles: dict[str, LayerFloors] = field(default_factory=dict)

    def __post_init__(self) -> None:
        levels = self.machine.accelerator.levels
        self.capacities = {**{one.memory.name: one.memory.capacity_bytes * 8 for one in levels}, DRAM: inf}
        outputs = self.machine.homes(Operand.OUTPUT)
        self.cache_places = tuple(name for name in self.machine.homes(Operand.INPUT) if name in outputs)
        self.weight_homes = tuple(self.machine.homes(Operand.WEIGHT))
        self._alike = AlikeSizes(self.machine)

    def free(self, taken: Taken) -> Mapping[str, float]:
        """Return the available bits of each memory, given the bits that are taken."""
        if not taken:
            return self.capacities
        return {**self.capacities, **{name: max(self.capacities[name] - bits, LEAST_BITS) for name, bits in taken}}

    @property
    def highest_home(self) -> int:
        """The index of the highest on-chip memory of weights, or 0 if no memory on the chip holds weights."""
        return max(len(self.weight_homes) - 2, 0)

    def floors_in_any_tiles(self, layer: FusableLayer) -> LayerFloors:
        """Return floors valid for tiles of any size, if the largest shape stands for all shapes."""
        if layer.name not in self._in_any_tiles:
            most, nest = max(self.machine.array.sizes.values()), layer.layer
            if not pixels_are_groups(layer):
                rows, columns = min(layer.output.rows, most), min(layer.output.columns, most)
                nest = replace(nest, p=max(rows, 1), q=max(columns, 1), padding=(0, 0, 0, 0))
            found = self.machine.of([nest], adds_two_maps=adds_two_maps(layer))
            self._in_any_tiles[layer.name] = floors_of_nest(layer, found)
        return self._in_any_tiles[layer.name]

    def load_pj(self, layer: FusableLayer, rows: LayerAxis, columns: LayerAxis, home: str) -> float:
        """Return the least energy in pJ for the layer to read an element of a stack input from `home` or higher."""
        return _from_there(self._tiles_of(layer, rows, columns).per_element, home)

    def share(self, layer: FusableLayer, rows: LayerAxis, columns: LayerAxis) -> GridShare:
        """Return the bounds over all tiles, without the accesses of feature maps at their homes."""
        place = self._kind(layer), rows, columns
        if place not in self._shares:
            self._shares[place] = self._share(layer, rows, columns)
        return self._shares[place]

    def _share(self, layer: FusableLayer, rows: LayerAxis, columns: LayerAxis) -> GridShare:
        tiles = self._tiles_of(layer, rows, columns)
        machine, per_pixel = self.machine, _macs_of_a_pixel(layer)
        macs = per_pixel * tiles.pixels
        inner = per_pixel * np.outer(rows.inner, columns.inner)
        per_mac, at_work = tiles.by_tile(tiles.floors.input.per_mac), tiles.by_tile(tiles.floors.nest.shares.at_work)
        energy_pj = tiles.summed(macs * machine.mac_energy_pj + inner * per_mac)
        cycles = tiles.summed(macs / np.minimum(at_work, np.maximum(macs, 1)))
        moved = tiles.least(least_of(tiles.floors.nest.shares.moved.values()))
        if tiles.floors.reuse is None:
            nothing = np.zeros_like(energy_pj)
            homes = np.zeros((len(self.weight_homes), *energy_pj.shape))
            return GridShare(energy_pj, cycles, 0, homes, nothing + inf, nothing + inf, moved)
        bits = layer.layer.elements(Operand.WEIGHT) * layer.layer.weight_bits
        weights_pj = self._weights_pj(tiles)
        dearer_pj = (weights_pj[-1] - weights_pj[self.highest_home]) / bits
        again = np.outer(rows.tiles, columns.tiles) - 1
        return GridShare(energy_pj, cycles, bits, weights_pj, again, dearer_pj, moved)

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
        found = np.full((len(self.weight_homes), *uses.shape), inf)
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
            most_bits, free = self._most_bits(layer, place, reads), self.free(places.taken)
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
        tiles, homes = self._new_tiles(layer, rows, columns), self.weight_homes
        maps_pj, weights = self._maps_of_tiles(tiles, reads, places), layer.layer.elements(Operand.WEIGHT)
        if tiles.floors.reuse is None:
            return pixels * float((maps_pj / tiles.pixels).min())
        each = weights * self._weight_pj(tiles)
        begun = (each[-1] - each).min(axis=(1, 2))
        of_pixel = ((each + maps_pj) / tiles.pixels).min(axis=(1, 2))
        bits = weights * layer.layer.weight_bits
        lowest = next(at for at, home in enumerate(homes) if bits <= self.capacities[home])
        return float((begun + pixels * of_pixel)[min(lowest, self.highest_home) :].min())

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
        per_element, outputs, free = tiles.per_element, tiles.outputs, self.free(places.taken)
        for source in per_element if reads else (DRAM,):
            taken = seen * per_element[source]
            if places.rows:
                taken = taken + again * max(_from_there(per_element, places.rows) - per_element[source], 0.0)
            for target in (places.output,) if places.output else outputs:
                left = written * outputs[target]
                if places.rows:
                    left = left + kept * self.machine.up_to_pj(target, places.rows)
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
        if self.machine.sharing.is_of_every_shape:
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
        nest = replace(layer.layer, padding=(0, 0, 0, 0)) if len(across) else layer.layer
        found = floors_of_nest(layer, self.machine.of_tiles(nest, sizes, adds_two_maps=adds_two_maps(layer)))
        return _ShapeFloors(found, down, across)


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


def floors_of_nest(fusable: FusableLayer, nest: NestFloors) -> LayerFloors:
    """Return the floors of a network's layer, given the floors of its loop nest in tiles."""
    layer = nest.layer
    has_weights = layer.has_weight and not fusable.weight_is_a_map and not pixels_are_groups(fusable)
    return LayerFloors(
        nest,
        min(share_of(fusable, read) for read in fusable.reads),
        nest.floor(Operand.INPUT, layer.k),
        reuse_floors(nest) if has_weights else None,
        nest.output_floor(),
    )


def adds_two_maps(fusable: FusableLayer) -> bool:
    """Return True if the layer adds its second input, a feature map, to its first."""
    return len(fusable.reads) > 1 and not fusable.joins


def pixels_are_groups(fusable: FusableLayer) -> bool:
    """Return True if each pixel is a group of the loop nest with separate weights. Their number of uses is unknown."""
    layer, output = fusable.layer, fusable.output
    return (layer.p, layer.q) != (output.rows, output.columns)


def shares_of(layer: FusableLayer, source: FeatureMap) -> Iterator[tuple[int, float]]:
    """Yield the index of each of the layer's reads of a map, and its least touched fraction of a block."""
    return ((at, share_of(layer, read)) for at, read in enumerate(layer.reads) if read.source == source.name)


def share_of(layer: FusableLayer, read: Read) -> float:
    """Return the least fraction of a block that windows touch.

    They touch at least every `gap`th pixel, and the first ones may be zeros that are not stored. They may touch nothing
    of a padded map smaller than the gap.
    """
    found = 1.0
    for window, axis in zip((read.rows, read.columns), layer.layer.axes, strict=True):
        gap = max(window.dilation if window.kernel > 1 else 1, window.stride - (window.kernel - 1) * window.dilation)
        if window.pad > 0 and axis.size < gap:
            return 0.0
        found /= gap if window.pad <= 0 else 2 * gap - 1
    return found
