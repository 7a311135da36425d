"""Lower bounds on the cost of a layer of a stack over all tiles, as terms of the sum over the stack's layers."""

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
from onchip.ops.fusable import FusableLayer

Shapes: TypeAlias = tuple[tuple[int, int], ...]
"""Rows and columns of tiles, the largest first."""


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


@dataclass(frozen=True, slots=True)
class LayerShare:
    """Lower bounds on the cost of one layer or the sum of several.

    `energy_pj` excludes weights and the accesses of feature maps at their homes. `weights_pj` has an energy for each
    memory of weights, DRAM last: that of weights which, from the second tile on, lie in this memory or higher. At least
    `tiles_again` further tiles follow. In each, a weight bit from DRAM costs at least `dearer_pj` more than one from
    the highest memory on the chip. `moved` is the least fraction of moved elements that the cost model counts.
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


@dataclass(slots=True)
class LayerBounds:
    """Lower bounds on the cost of layers on one machine, over all mappings."""

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
        """Return the available bits of each memory, given the bits that are taken."""
        if not taken:
            return self.capacities
        return {**self.capacities, **{name: max(self.capacities[name] - bits, LEAST_BITS) for name, bits in taken}}

    @property
    def highest_home(self) -> int:
        """The index of the highest on-chip memory of weights, or 0 if no memory on the chip holds weights."""
        return max(len(self.weight_homes) - 2, 0)

    def share(self, layer: FusableLayer, rows: LayerTotals, columns: LayerTotals) -> LayerShare:
        """Return the bounds on a layer in these tiles, without the accesses of feature maps at their homes."""
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
        """Return the energy in pJ of weights by the lowest memory in which they may lie.

        Each tile takes the cheapest case of reuse (see `ReuseFloors`).
        """
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
        """Return the least energy in pJ, over all tiles, of the accesses of a layer's output and input at their homes.

        `channels` maps the feature maps of the stack to their channels. Maps that are absent from it are inputs of the
        stack and excluded. If the largest tile fits in the cheapest memories, all tiles do. Only this case counts
        caches.
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
        """Return the least energy in pJ, over the `targets`, of writing outputs and copying some to the row cache."""
        written, kept = elements
        bits = kept * layer.layer.output_bits
        return min(
            written * floors.output[name] + (bits * self.machine.up_to_pj(name, cache) if cache else 0.0)
            for name in targets or floors.output
        )

    def _has_room(
        self, layer: FusableLayer, seen: int, written: int, memories: tuple[str, str], output_home: str | None
    ) -> bool:
        """Return True if a tile's input and output fit in these memories.

        An output with a given home always fits.
        """
        seen_bits, written_bits = seen * layer.layer.input_bits, written * layer.layer.output_bits
        source, target = memories
        beside = written_bits if source == target else 0
        has_place = output_home is not None or written_bits <= self.capacities[target]
        return has_place and (not seen or seen_bits + beside <= self.capacities[source])

    def _least_pj(
        self, floors: LayerFloors, layer: FusableLayer, seen: int, written: int, output_home: str | None
    ) -> float:
        """Return the least energy in pJ of a tile's input and output, over all memories in which both fit."""
        sources, targets = floors.input.per_element, floors.output
        return min(
            seen * floors.share * sources[source] + written * targets[target]
            for source in (sources if seen else (DRAM,))
            for target in ((output_home,) if output_home else targets)
            if self._has_room(layer, seen, written, (source, target), output_home)
        )

    def load_pj(self, layer: FusableLayer, rows: LayerTotals, columns: LayerTotals, home: str) -> float:
        """Return the least energy in pJ for the layer to read an element of a stack input from `home` or higher."""
        return _from_there(self._floors_of(layer, rows, columns).input.per_element, home)

    def floors_in_any_tiles(self, layer: FusableLayer) -> LayerFloors:
        """Return floors valid for tiles of any size, if the largest shape stands for all shapes."""
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
        """Return the floors of tiles of exactly these shapes, in arrays. `sizes` maps loops, as P and Q, to bounds."""
        layer = replace(fusable.layer, padding=(0, 0, 0, 0)) if "P" in sizes else fusable.layer
        return floors_of_nest(fusable, self.machine.of_tiles(layer, sizes, adds_two_maps=adds_two_maps(fusable)))

    def _shapes(self, rows: LayerTotals, columns: LayerTotals) -> Shapes:
        """Return the shapes whose floors hold for all tiles.

        A tile side longer than each array dimension counts as the longest of these, unless units count in parts.
        """
        most = self.longest_side
        if not self.machine.sharing.is_of_every_shape:
            return ((min(rows.most, most), min(columns.most, most)),)
        every = product({one.computed for one in rows.slices}, {one.computed for one in columns.slices})
        return tuple(sorted(every, reverse=True))

    def _nest(self, fusable: FusableLayer, rows: int, columns: int) -> Layer:
        """Return the loop nest over a tile of these pixels.

        The pixels of an addition are groups. If its shape may be cut short, the nest keeps all groups.
        """
        layer, output = fusable.layer, fusable.output
        if (layer.p, layer.q) == (output.rows, output.columns):
            return replace(layer, p=max(rows, 1), q=max(columns, 1), padding=(0, 0, 0, 0))
        if not self.machine.sharing.is_of_every_shape:
            return layer
        return replace(layer, g=layer.g // (output.rows * output.columns) * rows * columns)

    def all_weights_pj(self, share: LayerShare) -> tuple[float, float]:
        """Return the energy in pJ of the weights of all layers together, and their bits that DRAM supplies again.

        The weights lie in one memory with room for all. Otherwise the highest on-chip memory holds those that fit, and
        DRAM holds the others.
        """
        homes, capacities, highest = self.weight_homes, self.capacities, self.highest_home
        lowest = next(at for at, home in enumerate(homes) if share.weight_bits <= capacities[home])
        weights_pj = share.weights_pj[min(lowest, highest)]
        if homes[lowest] != DRAM or not share.weight_bits:
            return weights_pj, 0.0
        outside_bits = max(share.weight_bits - (capacities[homes[highest]] if len(homes) > 1 else 0), 0)
        return weights_pj + outside_bits * share.dearer_pj, outside_bits * share.tiles_again


def _read_again(layer: FusableLayer, channels: Mapping[str, int], rows: LayerTotals, columns: LayerTotals) -> int:
    """Return the number of elements that come from the row cache and not from the column cache."""
    return sum(
        read.channels_seen(channels[read.source]) * rows.cached[at] * (columns.total[1][at] - columns.cached[at])
        for at, read in enumerate(layer.reads)
        if read.source in channels
    )


def _from_there(per_element: Mapping[str, float], home: str) -> float:
    """Return the least energy in pJ of an element that lies in `home` or higher. Homes are ordered from the units."""
    names = list(per_element)
    return min(per_element[name] for name in names[names.index(home) :])


def _moved(
    layer: FusableLayer,
    channels: Mapping[str, int],
    rows: tuple[int, tuple[int, ...]],
    columns: tuple[int, tuple[int, ...]],
) -> tuple[int, int]:
    """Return the number of elements that a layer sees of maps of the stack, and the number that it writes.

    `rows` and `columns` hold the computed pixels along an axis, and the pixels seen by each read.
    """
    seen = sum(
        read.channels_seen(channels[read.source]) * rows[1][number] * columns[1][number]
        for number, read in enumerate(layer.reads)
        if read.source in channels
    )
    return seen, rows[0] * columns[0] * layer.output.channels


def _macs(layer: FusableLayer, rows: int, columns: int) -> int:
    """Return the number of MACs for these output pixels."""
    return layer.layer.macs // (layer.output.rows * layer.output.columns) * rows * columns


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
