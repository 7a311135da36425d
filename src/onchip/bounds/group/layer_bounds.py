"""What a layer of a stack costs at least over all tiles, for the sum over the stack's layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import loops_along
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.group.reuse_floors import ReuseFloors, reuse_floors
from onchip.bounds.group.seen_shares import share_of
from onchip.bounds.group.tile_totals import LayerTotals
from onchip.bounds.layer.layer_floors import MachineFloors, NestFloors, OperandFloor
from onchip.bounds.layer.unit_shares import Number
from onchip.ir.layer import LOOPS, Layer
from onchip.ops.derive.fusable import FusableLayer

Shapes: TypeAlias = tuple[tuple[int, int], ...]
"""Rows and columns of tiles, the largest first."""


Taken: TypeAlias = tuple[tuple[str, int], ...]
"""Memories, and the bits that are taken of each."""
LEAST_BITS: Final = 8
"""Of a memory that others fill, as the cost model has it."""


@dataclass(frozen=True, slots=True)
class MapPlaces:
    """Where the stack's output lies, for its last layer, and at least how high cached rows lie, if any are.

    `taken` are the bits that whole maps take of memories while the stack runs, its output among them.
    """

    output: str | None = None
    rows: str | None = None
    taken: Taken = ()


@dataclass(frozen=True, slots=True)
class LayerShare:
    """Of a layer, or of several together; `energy_pj` is without weights, and without feature maps where they lie.

    `weights_pj` are the energies of weights if they lie, from the second tile on, no lower than in each of the
    memories of weights, DRAM last; there are at least `tiles_again` further tiles, in which a weight from DRAM costs
    at least `dearer_pj` a bit more than one from the highest memory on the chip. Of elements that move, `moved` is the
    part that is counted at least.
    """

    energy_pj: float
    cycles: float
    weight_bits: int
    weights_pj: tuple[float, ...]
    tiles_again: float = inf
    dearer_pj: float = inf
    moved: float = 1.0

    def __add__(self, other: LayerShare) -> LayerShare:
        return LayerShare(
            self.energy_pj + other.energy_pj,
            self.cycles + other.cycles,
            self.weight_bits + other.weight_bits,
            tuple(map(float.__add__, self.weights_pj, other.weights_pj)),
            min(self.tiles_again, other.tiles_again),
            min(self.dearer_pj, other.dearer_pj),
            min(self.moved, other.moved),
        )


@dataclass(slots=True)
class AlikeSizes:
    """Numbers of pixels with the same ways to be unrolled along the array of a machine: each stands for the least."""

    machine: MachineFloors
    _sides: Mapping[str, int] = field(init=False)
    """By loop, the most units along a dimension of the array that may run it side by side."""
    _tables: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    """By units along a dimension, for each number from 0 on the least number that is like it."""

    def __post_init__(self) -> None:
        array = self.machine.array
        self._sides = {
            loop: max((size for name, size in array.sizes.items() if loop in loops_along(array, name)), default=1)
            for loop in LOOPS
        }

    def of(self, pixels: NDArray[np.int64], loop: str) -> NDArray[np.int64]:
        """Return the least number like each of these, all at least 1, of iterations of a loop."""
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
    """Return for each number up to the largest the least that has the same factors up to `most`."""
    numbers = np.arange(largest + 1)
    found = np.ones_like(numbers)
    for factor in range(2, min(most, largest) + 1):
        found[::factor] = np.lcm(found[::factor], factor)
    return found


@dataclass(slots=True)
class LayerBounds:
    """Lower bounds of what layers cost on one machine, over all mappings."""

    machine: MachineFloors
    capacities: Mapping[str, float] = field(init=False)
    cache_places: tuple[str, ...] = field(init=False)
    weight_homes: tuple[str, ...] = field(init=False)
    longest_side: int = field(init=False)
    _floors: dict[tuple[str, Shapes], LayerFloors] = field(default_factory=dict)

    def __post_init__(self) -> None:
        levels = self.machine.accelerator.levels
        capacities = {one.memory.name: one.memory.capacity_bytes * 8 for one in levels}
        self.capacities = {**capacities, DRAM: inf}
        outputs = self.machine.homes(Operand.OUTPUT)
        self.cache_places = tuple(name for name in self.machine.homes(Operand.INPUT) if name in outputs)
        self.weight_homes = tuple(self.machine.homes(Operand.WEIGHT))
        array = self.machine.array
        self.longest_side = max(array.sizes.values())

    def free(self, taken: Taken) -> Mapping[str, float]:
        """Return the capacities in bits of all memories less what is taken of them."""
        if not taken:
            return self.capacities
        return {**self.capacities, **{name: max(self.capacities[name] - bits, LEAST_BITS) for name, bits in taken}}

    @property
    def highest_home(self) -> int:
        """The last of the memories of weights on the chip, by number, if there is any."""
        return max(len(self.weight_homes) - 2, 0)

    def share(self, layer: FusableLayer, rows: LayerTotals, columns: LayerTotals) -> LayerShare:
        """In so many tiles, without feature maps where they lie."""
        floors = self._floors_of(layer, rows, columns)
        macs = _macs(layer, rows.computed, columns.computed)
        energy_pj = macs * self.machine.mac_energy_pj + _macs(layer, rows.inner, columns.inner) * floors.input.per_mac
        cycles = macs / min(floors.nest.shares.at_work, _macs(layer, rows.most, columns.most))
        moved = min(floors.nest.shares.moved.values())
        if floors.reuse is None:
            return LayerShare(energy_pj, cycles, 0, (0.0,) * len(self.weight_homes), moved=moved)
        bits = layer.layer.elements(Operand.WEIGHT) * layer.layer.weight_bits
        weights_pj = self._weights_pj(layer, floors.reuse, rows, columns)
        dearer_pj = (weights_pj[-1] - weights_pj[self.highest_home]) / bits
        return LayerShare(energy_pj, cycles, bits, weights_pj, rows.tiles * columns.tiles - 1, dearer_pj, moved)

    def _weights_pj(
        self, layer: FusableLayer, reuse: ReuseFloors, rows: LayerTotals, columns: LayerTotals
    ) -> tuple[float, ...]:
        """By the lowest memory in which they may lie; in each tile the least of the cases of who is reused."""
        weights, channels = layer.layer.elements(Operand.WEIGHT), layer.output.channels
        pairs = list(product(rows.uses, columns.uses))
        uses = np.array(
            [rows.first * columns.first, *(down.computed * across.computed for down, across in pairs)], float
        )
        times = np.array([-1, *(down.times * across.times for down, across in pairs)], float)
        cases = reuse.weight_pj(uses * layer.layer.n)
        each = (cases + reuse.more_per_output[:, None] * uses * channels / weights).min(axis=0)
        begun = each[-1:, 0] if uses[0] else (cases[:, -1:, 0] - cases[:, :, 0]).min(axis=0) + each[:, 0]
        least: list[float] = (weights * np.minimum.accumulate((begun + each @ times)[::-1])[::-1]).tolist()
        return tuple(least)

    def maps_pj(
        self,
        layer: FusableLayer,
        rows: LayerTotals,
        columns: LayerTotals,
        channels: Mapping[str, int],
        places: MapPlaces,
    ) -> float:
        """Of a layer's output where it lies, and of its input unless that comes from outside, over all tiles.

        `channels` are those of maps of the stack, the others come from outside. Where the largest tile has room in the
        cheapest memories, all have; only there something is said of caches.
        """
        floors, home = self._floors_of(layer, rows, columns), places.output
        seen, written = _moved(layer, channels, rows.largest, columns.largest)
        source, target = floors.input.cheapest, home or min(floors.output, key=lambda name: floors.output[name])
        if self._has_room(layer, seen, written, (source, target), home):
            seen, written = _moved(layer, channels, rows.total, columns.total)
            near_pj = floors.input.per_element[source]
            kept = rows.written * columns.computed * layer.output.channels
            outputs_pj = self._written_pj(floors, layer, (written, kept), (target,) if home else (), places.rows)
            energy_pj = seen * floors.share * near_pj + outputs_pj
            if places.rows:
                dearer_pj = max(_from_there(floors.input.per_element, places.rows) - near_pj, 0.0)
                energy_pj += _read_again(layer, channels, rows, columns) * floors.share * dearer_pj
            return energy_pj
        energy_pj = 0.0
        for down, across in product(rows.slices, columns.slices):
            seen, written = _moved(layer, channels, (down.computed, down.seen), (across.computed, across.seen))
            energy_pj += down.times * across.times * self._least_pj(floors, layer, seen, written, home)
        return energy_pj

    def _written_pj(
        self,
        floors: LayerFloors,
        layer: FusableLayer,
        elements: tuple[int, int],
        targets: Sequence[str],
        cache: str | None,
    ) -> float:
        """Of outputs that are written, and of those of them that go on to the cache of rows, wherever they lie."""
        written, kept = elements
        bits = kept * layer.layer.output_bits
        return min(
            written * floors.output[name] + (bits * self.machine.up_to_pj(name, cache) if cache else 0.0)
            for name in targets or floors.output
        )

    def _has_room(
        self, layer: FusableLayer, seen: int, written: int, memories: tuple[str, str], output_home: str | None
    ) -> bool:
        """An output whose home is given has its place."""
        seen_bits, written_bits = seen * layer.layer.input_bits, written * layer.layer.output_bits
        source, target = memories
        beside = written_bits if source == target else 0
        has_place = output_home is not None or written_bits <= self.capacities[target]
        return has_place and (not seen or seen_bits + beside <= self.capacities[source])

    def _least_pj(
        self, floors: LayerFloors, layer: FusableLayer, seen: int, written: int, output_home: str | None
    ) -> float:
        """Both lie where they fit, in one memory side by side."""
        sources, targets = floors.input.per_element, floors.output
        return min(
            seen * floors.share * sources[source] + written * targets[target]
            for source in (sources if seen else (DRAM,))
            for target in ((output_home,) if output_home else targets)
            if self._has_room(layer, seen, written, (source, target), output_home)
        )

    def load_pj(self, layer: FusableLayer, rows: LayerTotals, columns: LayerTotals, home: str) -> float:
        """Of an element from outside as the layer sees it."""
        return _from_there(self._floors_of(layer, rows, columns).input.per_element, home)

    def floors_in_any_tiles(self, layer: FusableLayer) -> LayerFloors:
        """Of tiles that are as large as the map or smaller, where one shape does for all of them."""
        most = self.longest_side
        return self._floors_in(layer, ((min(layer.output.rows, most), min(layer.output.columns, most)),))

    def _floors_of(self, layer: FusableLayer, rows: LayerTotals, columns: LayerTotals) -> LayerFloors:
        return self._floors_in(layer, self._shapes(rows, columns))

    def _floors_in(self, fusable: FusableLayer, shapes: Shapes) -> LayerFloors:
        key = fusable.name, shapes
        if key not in self._floors:
            every = [self._nest(fusable, *shape) for shape in shapes]
            self._floors[key] = floors_of_nest(fusable, self.machine.of(every, adds_two_maps=adds_two_maps(fusable)))
        return self._floors[key]

    def floors_of_tiles(self, fusable: FusableLayer, sizes: Mapping[str, NDArray[np.int64]]) -> LayerFloors:
        """Return the floors of tiles of these very shapes, in arrays: `sizes` are loop bounds by tile, as P and Q."""
        layer = replace(fusable.layer, padding=(0, 0, 0, 0)) if "P" in sizes else fusable.layer
        return floors_of_nest(fusable, self.machine.of_tiles(layer, sizes, adds_two_maps=adds_two_maps(fusable)))

    def _shapes(self, rows: LayerTotals, columns: LayerTotals) -> Shapes:
        """A side that is longer than any of the array's is as good as one of these, unless units count in parts."""
        most = self.longest_side
        if not self.machine.sharing.is_of_every_shape:
            return ((min(rows.most, most), min(columns.most, most)),)
        every = product({one.computed for one in rows.slices}, {one.computed for one in columns.slices})
        return tuple(sorted(every, reverse=True))

    def _nest(self, fusable: FusableLayer, rows: int, columns: int) -> Layer:
        """Over a tile of so many pixels. Those of an addition are groups: of a shape that may be cut short, all."""
        layer, output = fusable.layer, fusable.output
        if (layer.p, layer.q) == (output.rows, output.columns):
            return replace(layer, p=max(rows, 1), q=max(columns, 1), padding=(0, 0, 0, 0))
        if not self.machine.sharing.is_of_every_shape:
            return layer
        return replace(layer, g=layer.g // (output.rows * output.columns) * rows * columns)

    def all_weights_pj(self, share: LayerShare) -> tuple[float, float]:
        """Return the energy of all weights of layers together, in pJ, and the bits of them that come from DRAM again.

        They lie in one memory with room for all; or else, if they fit, in the highest on the chip, the others in DRAM.
        """
        homes, capacities, highest = self.weight_homes, self.capacities, self.highest_home
        lowest = next(at for at, home in enumerate(homes) if share.weight_bits <= capacities[home])
        weights_pj = share.weights_pj[min(lowest, highest)]
        if homes[lowest] != DRAM or not share.weight_bits:
            return weights_pj, 0.0
        outside_bits = max(share.weight_bits - (capacities[homes[highest]] if len(homes) > 1 else 0), 0)
        return weights_pj + outside_bits * share.dearer_pj, outside_bits * share.tiles_again


def _read_again(layer: FusableLayer, channels: Mapping[str, int], rows: LayerTotals, columns: LayerTotals) -> int:
    """Elements that come from the cache of rows, and not from that of columns."""
    return sum(
        read.channels_seen(channels[read.source]) * rows.cached[at] * (columns.total[1][at] - columns.cached[at])
        for at, read in enumerate(layer.reads)
        if read.source in channels
    )


def _from_there(per_element: Mapping[str, float], home: str) -> float:
    """What an element costs that lies there or higher; homes are in order."""
    names = list(per_element)
    return min(per_element[name] for name in names[names.index(home) :])


def _moved(
    layer: FusableLayer,
    channels: Mapping[str, int],
    rows: tuple[int, tuple[int, ...]],
    columns: tuple[int, tuple[int, ...]],
) -> tuple[int, int]:
    """Elements that it sees of maps of the stack, and that it writes, for so many pixels along each axis."""
    seen = sum(
        read.channels_seen(channels[read.source]) * rows[1][number] * columns[1][number]
        for number, read in enumerate(layer.reads)
        if read.source in channels
    )
    return seen, rows[0] * columns[0] * layer.output.channels


def _macs(layer: FusableLayer, rows: int, columns: int) -> int:
    """For so many pixels."""
    return layer.layer.macs // (layer.output.rows * layer.output.columns) * rows * columns


@dataclass(frozen=True, slots=True)
class LayerFloors:
    """What a layer costs at least where no tile is larger, or in arrays by tile; without weights `reuse` is None.

    Of what it sees, at least the `share` is neither skipped by a stride nor between dilated taps.
    """

    nest: NestFloors
    share: float
    input: OperandFloor
    reuse: ReuseFloors | None
    output: Mapping[str, Number]


def floors_of_nest(fusable: FusableLayer, nest: NestFloors) -> LayerFloors:
    """Return the floors of a layer of a network by those of its loop nest in tiles."""
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
    """Return whether a layer adds one map to another, which is its second input."""
    return len(fusable.reads) > 1 and not fusable.joins


def pixels_are_groups(fusable: FusableLayer) -> bool:
    """True if each pixel is a group of the loop nest, with weights of its own: their number of uses is unknown."""
    layer, output = fusable.layer, fusable.output
    return (layer.p, layer.q) != (output.rows, output.columns)
