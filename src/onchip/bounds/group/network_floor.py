"""Lower bounds on each layer's cost in any stack and tiles, independent of the choice of stacks.

A layer computes at least the output pixels that the finest tiles need. DRAM supplies weights once, and the pixels of a
network input that its first reader touches. Network outputs are written to DRAM. Weights and maps together cost at
least as much as in the most favourable tile shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.arch.memory import DRAM, Operand
from onchip.bounds.group.layer_grids import LayerGrids, MapPlaces, Reads
from onchip.bounds.group.tile_axes import LayerAxis
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.ir.layer import Layer
from onchip.ir.window import Window
from onchip.ops.fusable import AxisName, FeatureMap, FusableLayer, FusableNetwork, Read
from onchip.transform.groups.stacks import LayerSpan

MOST_SHAPES: Final = 2**16
"""Largest number of output pixels of a layer for which all tile shapes are examined."""
_Seen: TypeAlias = tuple[Window, Window, int, int]
"""A read's windows along both axes, and the rows and columns of its feature map."""
_AxisKey: TypeAlias = tuple[int, tuple[tuple[Window, int], ...]]
"""Output pixels along an axis, and for each read its window and the pixels of its map."""
_Key: TypeAlias = tuple[Layer, int, tuple[_Seen, ...], Reads, bool, bool, int]

Pixels: TypeAlias = NDArray[np.int64]
"""Positions along an axis, ascending."""


@dataclass(frozen=True, slots=True)
class AloneBound:
    """Lower bounds on the cost of a layer: energy in pJ, cycles, and bits read from and written to DRAM."""

    energy_pj: float
    cycles: float
    dram_bits: int

    def plus(self, other: AloneBound) -> AloneBound:
        """Return the sum of two bounds, valid for layers that run one after the other."""
        return AloneBound(
            self.energy_pj + other.energy_pj, self.cycles + other.cycles, self.dram_bits + other.dram_bits
        )

    def less(self, other: AloneBound) -> AloneBound:
        """Return the difference of two sums of bounds."""
        return AloneBound(
            self.energy_pj - other.energy_pj, self.cycles - other.cycles, self.dram_bits - other.dram_bits
        )


@dataclass(frozen=True, slots=True)
class _Crossing:
    """The pixels of a map in these rows and columns."""

    rows: Pixels
    columns: Pixels

    @property
    def count(self) -> int:
        return len(self.rows) * len(self.columns)

    @classmethod
    def all_of(cls, feature_map: FeatureMap) -> _Crossing:
        return cls(np.arange(feature_map.rows), np.arange(feature_map.columns))


@dataclass(slots=True)
class NetworkFloor:
    """Prefix sums of lower bounds on layers, valid for any stacks and for mappings of the given sharing."""

    network: FusableNetwork
    grids: LayerGrids
    _every_shape: EveryShape = field(init=False)
    _until: list[AloneBound] = field(init=False)
    """Sum of the bounds on the layers before each index."""

    def __post_init__(self) -> None:
        layers = self.network.layers
        self._every_shape = EveryShape(self.grids, self.network.maps)
        first_readers = {read.source: at for at in reversed(range(len(layers))) for read in layers[at].reads}
        loaded = {one.name: first_readers.get(one.name) for one in self.network.inputs}
        self._until = [AloneBound(0.0, 0.0, 0)]
        for at, computed in enumerate(_computed(self.network)):
            own = {name for name, reader in loaded.items() if reader == at}
            self._until.append(self._until[-1].plus(self._floor(layers[at], computed, own)))

    def of(self, span: LayerSpan) -> AloneBound:
        """Return a lower bound on the cost of the layers of a span, in one stack or in several."""
        return self._until[span.stop].less(self._until[span.start])

    def _floor(self, layer: FusableLayer, own: _Crossing, loaded: set[str]) -> AloneBound:
        """Return the floor of a layer that computes `own` pixels; `loaded` are inputs counted with this layer."""
        machine, maps = self.grids.machine, self.network.maps
        leaves = _leaves(self.network, layer.output.name)
        if layer.runs_alone:
            elsewhere = {read.source: "" for read in layer.reads if read.source not in loaded}
            return alone_bound(layer, maps, elsewhere, DRAM if leaves else "", machine)
        if machine.sharing.is_of_every_shape:
            macs = _macs(layer, own.count)
            return AloneBound(macs * machine.mac_energy_pj, macs / prod(machine.array.sizes.values()), 0)
        return self._in_tiles(layer, own, loaded, leaves=leaves)

    def _in_tiles(self, layer: FusableLayer, own: _Crossing, loaded: set[str], *, leaves: bool) -> AloneBound:
        machine, maps, floors = self.grids.machine, self.network.maps, self.grids.floors_in_any_tiles(layer)
        macs, written = _macs(layer, own.count), own.count * layer.output.channels
        units_pj = macs * machine.mac_energy_pj + _macs(layer, self._inner(layer, own)) * floors.input.per_mac
        apart_pj = written * (floors.output[DRAM] if leaves else min(floors.output.values()))
        dram_bits = written * layer.output.bits if leaves else 0
        if floors.reuse is not None:
            weights, floor = layer.layer.elements(Operand.WEIGHT), floors.nest.floor(Operand.WEIGHT, 1)
            apart_pj += macs * floor.per_mac + weights * floor.per_element[DRAM]
            dram_bits += weights * layer.layer.weight_bits
        for source in {read.source for read in layer.reads}:
            reads = [read for read in layer.reads if read.source == source]
            touched = max(
                _through(read, own, maps[source], reaches=False).count * read.channels_seen(maps[source].channels)
                for read in reads
            )
            if source in loaded:
                units_pj += touched * floors.input.per_element[DRAM]
                dram_bits += touched * maps[source].bits
            else:
                apart_pj += touched * floors.input.per_element[floors.input.cheapest]
        if self._every_shape.knows(layer):
            together_pj = self._every_shape.energy_pj(layer, own.count, loaded, leaves=leaves)
            apart_pj = max(apart_pj, together_pj)
        return AloneBound(units_pj + apart_pj, macs / floors.nest.shares.at_work, dram_bits)

    def _inner(self, layer: FusableLayer, own: _Crossing) -> int:
        """Return the number of pixels whose windows see no zeros."""
        read = layer.reads[0]
        source = self.network.maps[read.source]
        return _inner(read.rows, own.rows, source.rows) * _inner(read.columns, own.columns, source.columns)


def least_macs(network: FusableNetwork) -> list[int]:
    """Return the minimum number of MACs of each layer, valid for any stacks, tiles and overlap mode."""
    computed = zip(network.layers, _computed(network), strict=True)
    return [_macs(layer, pixels.count) for layer, pixels in computed]


def _computed(network: FusableNetwork) -> list[_Crossing]:
    """Return for each layer the pixels that it computes in the finest tiles, hence in any tiles."""
    needed: dict[str, _Crossing] = {}
    found = []
    for layer in reversed(network.layers):
        name = layer.output.name
        is_whole = layer.runs_alone or _leaves(network, name)
        own = _Crossing.all_of(layer.output) if is_whole else needed[name]
        found.append(own)
        for read in layer.reads:
            seen = _through(read, own, network.maps[read.source], reaches=not layer.runs_alone)
            known = needed.get(read.source)
            needed[read.source] = seen if known is None or known.count < seen.count else known
    return found[::-1]


def _leaves(network: FusableNetwork, name: str) -> bool:
    """Return True if the feature map is an output of the network or has no reader."""
    return name in network.outputs or name not in network.last_readers


def _macs(layer: FusableLayer, pixels: int) -> int:
    return layer.layer.macs // (layer.output.rows * layer.output.columns) * pixels


def _inner(window: Window, computed: Pixels, size: int) -> int:
    first = computed * window.stride - window.pad
    return int(((first >= 0) & (first + window.reach <= size * window.repeat)).sum())


def _through(read: Read, computed: _Crossing, source: FeatureMap, *, reaches: bool) -> _Crossing:
    """Return the pixels of a map that taps touch or, if `reaches`, all pixels from the first tap to the last.

    Tiles compute the latter.
    """
    return _Crossing(
        _positions(read.rows, computed.rows, source.rows, reaches=reaches),
        _positions(read.columns, computed.columns, source.columns, reaches=reaches),
    )


def _positions(window: Window, computed: Pixels, size: int, *, reaches: bool) -> Pixels:
    taps = np.arange(window.reach) if reaches else np.arange(window.kernel) * window.dilation
    first = computed if window.stride else computed[:1]
    positions = (first[:, None] * window.stride - window.pad + taps).ravel()
    touched = np.zeros(size, bool)
    touched[positions[(positions >= 0) & (positions < size * window.repeat)] // window.repeat] = True
    return np.flatnonzero(touched)


@dataclass(slots=True)
class EveryShape:
    """Floors of layers over all tile shapes, for mappings that bypass no memory.

    Weights cost least in large tiles, which serve many pixels with each weight. Maps cost least in small tiles, which
    have room near the units. The price of a pixel is the least cost of both together in any tile shape, divided by the
    pixels of the tile.
    """

    grids: LayerGrids
    maps: Mapping[str, FeatureMap]
    _known: dict[_Key, float] = field(default_factory=dict)
    _axes: dict[_AxisKey, LayerAxis] = field(default_factory=dict)

    def knows(self, layer: FusableLayer) -> bool:
        """Return True if the layer runs in tiles, has at most MOST_SHAPES shapes, and mappings bypass no memory."""
        sharing = self.grids.machine.sharing
        keeps = sharing.every_memory_keeps and not sharing.is_of_every_shape
        return keeps and not layer.runs_alone and layer.output.rows * layer.output.columns <= MOST_SHAPES

    def energy_pj(self, layer: FusableLayer, pixels: int, loaded: set[str], *, leaves: bool) -> float:
        """Return the least energy in pJ of a layer's weights, its reads of maps that are not `loaded`, and its output.

        The layer computes at least `pixels` of its output, which is written to DRAM if it `leaves` the network.
        """
        reads = tuple(
            (number, read.channels_seen(self.maps[read.source].channels))
            for number, read in enumerate(layer.reads)
            if read.source not in loaded
        )
        key = layer.layer, layer.output.bits, self._windows(layer), reads, layer.joins, leaves, pixels
        if key not in self._known:
            rows, columns = (self._axis(layer, axis) for axis in (AxisName.ROWS, AxisName.COLUMNS))
            places = MapPlaces(DRAM if leaves else None)
            self._known[key] = self.grids.in_any_tiles_pj(layer, rows, columns, reads, places, pixels)
        return self._known[key]

    def _axis(self, layer: FusableLayer, axis: AxisName) -> LayerAxis:
        reads = tuple((axis.window(read), axis.pixels(self.maps[read.source])) for read in layer.reads)
        key = axis.pixels(layer.output), reads
        if key not in self._axes:
            self._axes[key] = _sizes_along(*key)
        return self._axes[key]

    def _windows(self, layer: FusableLayer) -> tuple[_Seen, ...]:
        maps = [self.maps[read.source] for read in layer.reads]
        return tuple(
            (read.rows, read.columns, one.rows, one.columns) for read, one in zip(layer.reads, maps, strict=True)
        )


def _sizes_along(pixels: int, reads: Sequence[tuple[Window, int]]) -> LayerAxis:
    """Return uncached tiles of every size along an axis, each with the fewest pixels that it sees at any position."""
    nothing, sizes = np.zeros(pixels), np.arange(1, pixels + 1)
    seen = np.array([_least_seen(window, size, sizes) for window, size in reads], float)
    return LayerAxis(np.eye(pixels), sizes.astype(float), nothing, nothing, seen, np.zeros_like(seen), sizes - 1, seen)


def _least_seen(window: Window, size: int, tiles: Pixels) -> Pixels:
    """Return the fewest pixels of a map that tiles of each size see, over all positions.

    The first and the last tile see the fewest, because padding is least far from the ends of the map. Between them,
    the count depends only on the phase, if each pixel stands for several positions.
    """
    positions, inside = size * window.repeat, max(-(-window.pad // window.stride), 0) if window.stride else 0
    last = len(tiles) - tiles
    places = np.stack([np.zeros_like(tiles), last, *(np.full_like(tiles, inside + at) for at in range(window.repeat))])
    first = np.clip(places, 0, last) * window.stride - window.pad
    begins = np.clip(first, 0, positions) // window.repeat
    ends = -(-np.clip(first + (tiles - 1) * window.stride + window.reach, 0, positions) // window.repeat)
    least: Pixels = (ends - begins).min(axis=0)
    return least


def alone_bound(
    layer: FusableLayer,
    maps: Mapping[str, FeatureMap],
    homes: Mapping[str, str],
    output_home: str,
    machine: MachineFloors,
) -> AloneBound:
    """Return the cost of the layer's MACs at full use of the array, and of its compulsory DRAM traffic.

    `homes` maps the inputs that do not lie in DRAM to their memories. The DRAM bound is 0 if units count in parts.
    """
    macs = layer.layer.macs
    bits = 0 if machine.sharing.is_of_every_shape else _dram_bits(layer, maps, homes, output_home)
    return AloneBound(macs * machine.mac_energy_pj, macs / prod(machine.array.sizes.values()), bits)


def _dram_bits(layer: FusableLayer, maps: Mapping[str, FeatureMap], homes: Mapping[str, str], output_home: str) -> int:
    """Return the compulsory DRAM traffic in bits.

    A feature map counts only if the loop nest reads all of it. A map that the nest reads twice counts once.
    """
    operands = (Operand.INPUT, Operand.WEIGHT)[: len(layer.reads)]
    read = {
        one.source: maps[one.source].size_bits
        for one, operand in zip(layer.reads, operands, strict=True)
        if one.source not in homes and _reads_all(layer.layer, operand, maps[one.source])
    }
    return layer.weight_bits + sum(read.values()) + (layer.output.size_bits if output_home == DRAM else 0)


def _reads_all(nest: Layer, operand: Operand, source: FeatureMap) -> bool:
    """Return True if each element of the feature map is an operand of some product."""
    if nest.elements(operand) != source.elements:
        return False
    axes = zip(nest.axes, (nest.r, nest.s), strict=True)
    is_dense = all(axis.dilation == axis.stride == 1 or (taps == 1 and axis.stride == 1) for axis, taps in axes)
    return operand is not Operand.INPUT or is_dense
