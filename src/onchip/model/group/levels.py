"""Memory levels of a fused group's caches and weights: the lowest with enough capacity (DeFiNES, step 3).

The order is inputs, outputs, caches, weights: each gets the capacity left by those before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from onchip.answer.stacks import OverlapMode
from onchip.arch.memory import Operand
from onchip.model.accounting.conventions import Conventions
from onchip.model.group.machine import FusedMachine
from onchip.model.group.tiles import Made, StackTile, both_caches_bits, column_cache_bits, row_cache_bits, stack_tile
from onchip.model.layer.limits import array_of
from onchip.ops.fusable import Layout, Stack, TiledAxis

RowKind: TypeAlias = tuple[int, int]  # classes of the tile's rows and of the rows that size the column caches
ColumnKind: TypeAlias = tuple[int, bool]  # class, and True if the tile begins a row


@dataclass(frozen=True, slots=True)
class CacheLevels:
    """The memories from and to which a tile moves cached pixels; None if it has no such transfer."""

    columns_from: str | None = None
    columns_to: str | None = None
    rows_from: str | None = None
    rows_to: str | None = None


@dataclass(frozen=True, slots=True)
class PlacedTile:
    """Equal tiles with equal cache levels, `times` in all; `rows` and `columns` are their classes."""

    rows: int
    columns: int
    caches: CacheLevels
    is_first_tile: bool
    times: int


@dataclass(frozen=True, slots=True)
class TilePlacement:
    """The tiles of a group, the first one first, and each layer's weight memory once loaded from DRAM."""

    tiles: tuple[PlacedTile, ...]
    weights: tuple[str, ...]


@dataclass(slots=True)
class TiledStack:
    """A fused group with tiled rows and columns; `sized_rows` determine the size of column caches."""

    stack: Stack
    mode: OverlapMode
    rows: TiledAxis
    columns: TiledAxis
    sized_rows: TiledAxis
    conventions: Conventions
    _tiles: dict[tuple[int, int], StackTile] = field(default_factory=dict)

    def tile(self, rows: int, columns: int) -> StackTile:
        """Return the tile of a row class and a column class."""
        if (rows, columns) not in self._tiles:
            down, across = self.rows.classes[rows], self.columns.classes[columns]
            stored = self.conventions.padding_is_stored
            self._tiles[rows, columns] = stack_tile(self.stack, down, across, padding_is_stored=stored)
        return self._tiles[rows, columns]


@dataclass(frozen=True, slots=True)
class _Own:
    """The levels that one tile would choose; `room_for_weights` is its free capacity in the highest on-chip memory."""

    columns: str
    rows: str
    weights: str
    room_for_weights: float


def placement(tiled: TiledStack, machine: FusedMachine) -> TilePlacement:
    """Return the levels of all tiles.

    Column caches use the higher level of both neighbours; row caches, and weights, use one level for all tiles. With
    `cache_levels_are_the_next_tiles`, the right neighbour decides, and for rows the last tile of all.
    """
    rows = Counter(zip(tiled.rows.order, tiled.sized_rows.order, strict=True))
    kinds = [(column, at == 0) for at, column in enumerate(tiled.columns.order)]
    own = {(row, column): _own_levels(tiled, machine, row, column) for row, column in product(rows, set(kinds))}
    placed: Counter[tuple[int, int, CacheLevels, bool]] = Counter()
    for row, column, caches, is_first, times in _placed(tiled, own, rows, kinds, machine):
        placed[row, column, caches, is_first] += times
    return TilePlacement(
        tuple(PlacedTile(*key, times) for key, times in placed.items()), _weights(tiled, machine, list(own.values()))
    )


def _weights(tiled: TiledStack, machine: FusedMachine, own: list[_Own]) -> tuple[str, ...]:
    """Return the memory of each layer's weights, in general the same level for all.

    If only DRAM can hold all weights, the largest that fit stay on the chip. They leave capacity for one weight per
    unit, through which the others stream.
    """
    layers, together = tiled.stack.layers, machine.higher(one.weights for one in own)
    *on_chip, dram = machine.places(Operand.WEIGHT)
    is_one_tile = len(tiled.rows.order) == len(tiled.columns.order) == 1
    if together != dram or not on_chip or is_one_tile or tiled.conventions.weights_lie_together:
        return (together,) * len(layers)
    room = min(one.room_for_weights for one in own)
    room -= array_of(machine.accelerator).macs * max(layer.layer.weight_bits for layer in layers)
    places = [dram] * len(layers)
    for at in sorted(range(len(layers)), key=lambda at: -layers[at].weight_bits):
        if layers[at].weight_bits <= room:
            places[at] = on_chip[-1]
            room -= layers[at].weight_bits
    return tuple(places)


def _placed(
    tiled: TiledStack,
    own: Mapping[tuple[RowKind, ColumnKind], _Own],
    rows: Mapping[RowKind, int],
    kinds: list[ColumnKind],
    machine: FusedMachine,
) -> Iterator[tuple[int, int, CacheLevels, bool, int]]:
    """Yield row class, column class, levels, True for the first tile, and count; the first tile comes first."""
    next_decides = tiled.conventions.cache_levels_are_the_next_tiles
    rows_level = None
    if tiled.mode.caches_rows:
        last = (tiled.rows.order[-1], tiled.sized_rows.order[-1]), kinds[-1]
        rows_level = machine.higher(one.rows for one in ([own[last]] if next_decides else own.values()))
    neighbours = Counter(zip((None, *kinds), kinds, (*kinds[1:], None), strict=False))
    for number, (row, in_rows) in enumerate(rows.items()):
        down = tiled.rows.classes[row[0]]
        takes_rows = any(read.cached for reads in down.reads for read in reads)
        gives_rows = any(extent.written for extent in down.maps.values())
        for (before, kind, behind), in_columns in neighbours.items():
            columns_from, columns_to = (
                machine.higher(own[row, one].columns for one in ((right,) if next_decides else (left, right)))
                if tiled.mode.caches_columns and left is not None and right is not None
                else None
                for left, right in ((before, kind), (kind, behind))
            )
            rows_from, rows_to = rows_level if takes_rows else None, rows_level if gives_rows else None
            caches = CacheLevels(columns_from, columns_to, rows_from, rows_to)
            is_first = number == 0 and before is None
            if is_first:
                yield row[0], kind[0], caches, True, 1
            if times := in_rows * in_columns - is_first:
                yield row[0], kind[0], caches, False, times


def _own_levels(tiled: TiledStack, machine: FusedMachine, row: RowKind, kind: ColumnKind) -> _Own:
    """Return a tile's levels; in the first tile of a row the column caches fill during the run, later they are full."""
    tile, mode, stack = tiled.tile(row[0], kind[0]), tiled.mode, tiled.stack
    in_rows = row_cache_bits(stack, tiled.rows, tiled.columns) if mode.caches_rows else {}
    alive = peak_bits(tile, {})
    with_columns, with_rows, both = alive, alive, 0
    if mode.caches_columns:
        in_columns = column_cache_bits(stack, tiled.sized_rows.classes[row[1]], tiled.rows, tiled.columns)
        if not kind[1]:
            with_columns = alive + sum(in_columns.values())
        elif not tiled.conventions.first_tiles_count_no_caches:
            with_columns = peak_bits(tile, in_columns)
    columns = _lowest(machine, with_columns)
    rows = columns
    if mode.caches_rows:
        with_rows = with_columns + sum(in_rows.values())
        if stack.output.layout is Layout.MATRIX:  # the cache holds the whole matrix, which is read there
            with_rows += peak_bits(tile, {}, {name for name, bits in in_rows.items() if bits}) - alive
        both = both_caches_bits(stack, tiled.rows, tiled.columns)
        rows = _lowest(machine, with_rows, less={columns: both})
    beside = dict.fromkeys(_up_to(machine, alive), alive)
    if mode.caches_columns:
        beside[columns] = with_columns
    if mode.caches_rows:
        beside[rows] = with_rows - (both if rows == columns else 0)
    weights = sum(layer.weight_bits for layer in stack.layers)
    room = {name: machine.room_bits(name) - beside.get(name, 0) for name in machine.places(Operand.WEIGHT)}
    *on_chip, _ = room.values()
    return _Own(columns, rows, next(name for name in room if room[name] >= weights), on_chip[-1] if on_chip else 0)


def peak_bits(tile: StackTile, caches: Mapping[str, int], apart: Set[str] = frozenset()) -> int:
    """Return the peak bits while a layer runs: its inputs and output, waiting maps, and caches; not maps in `apart`.

    A map's cache in `caches` starts after the layer that computes the map; for a map from outside, at once.
    """

    def bits_of(made: Made) -> int:
        return 0 if made.map.name in apart else made.computed_bits

    readers = Counter(name for layer in tile.layers for name in {seen.source.name for seen in layer.seen})
    alive = {made.map.name: bits_of(made) for made in tile.inputs}
    cached = sum(caches.get(name, 0) for name in alive)
    peak = sum(alive.values()) + cached
    for layer in tile.layers:
        sources = {seen.source.name for seen in layer.seen}
        waiting = sum(bits for name, bits in alive.items() if name not in sources)
        seen_bits = sum(seen.all_bits for seen in layer.seen if seen.source.name not in apart)
        peak = max(peak, waiting + seen_bits + bits_of(layer.made) + cached)
        for name in sources:
            readers[name] -= 1
            if not readers[name]:
                alive.pop(name, None)
        alive[layer.made.map.name] = bits_of(layer.made)
        cached += caches.get(layer.made.map.name, 0)
    return peak


def _lowest(machine: FusedMachine, bits: int, less: Mapping[str, int] | None = None) -> str:
    """Return the lowest memory that holds inputs and outputs and has enough capacity."""
    saved = less or {}
    return next(name for name in machine.places_of_caches if machine.room_bits(name) >= bits - saved.get(name, 0))


def _up_to(machine: FusedMachine, bits: int) -> Iterator[str]:
    """Yield the memories of outputs up to the lowest that can hold the features and inputs."""
    top = machine.rank(_lowest(machine, bits))
    return (name for name in machine.places(Operand.OUTPUT) if machine.rank(name) <= top)
