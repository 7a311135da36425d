"""Caches of fused groups, and sums over tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from onchip.answer.fused_network import FusedNetwork, MapInNetwork, NestInNetwork
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import FusionStrategy
from onchip.arch.memory import DRAM, Operand
from onchip.verify.stack.chip import ChipInUse
from onchip.verify.stack.strips import (
    Axis1D,
    StackPart,
    TiledLength,
    column_caches_bits,
    corner_bits,
    row_caches_bits,
    stack_part,
    tiled_length,
)


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A stack by its number; its `inputs` come from outside, and `input_homes` maps those on chip to their memory.

    `taken_bits` are the bits of whole maps in each memory: the inputs, the output, and maps that later stacks read.
    """

    number: int
    layers: tuple[NestInNetwork, ...]
    inputs: tuple[MapInNetwork, ...]
    tiling: Tiling
    input_homes: Mapping[str, str]
    output_home: str
    taken_bits: Mapping[str, int]


def running_stacks(network: FusedNetwork, strategy: FusionStrategy) -> Iterator[RunningStack]:
    """Yield the stacks of a structurally legal strategy in order."""
    layer_named = {layer.name: layer for layer in network.layers}
    maps = network.maps
    lying: dict[str, str] = {}
    left = list(network.layers)
    for number, stack in enumerate(strategy.stacks):
        read_later = {read.source for layer in left for read in layer.reads}
        lying = {name: memory for name, memory in lying.items() if name in read_later}
        layers = tuple(layer_named[name] for name in stack.layers)
        written = {layer.writes.name for layer in layers}
        sources = dict.fromkeys(read.source for layer in layers for read in layer.reads)
        inputs = tuple(maps[name] for name in sources if name not in written)
        output = layers[-1].writes
        taken: dict[str, int] = {}
        for name, memory in (*lying.items(), (output.name, stack.output_home)):
            if memory != DRAM:
                taken[memory] = taken.get(memory, 0) + maps[name].size_bits
        homes = {one.name: lying[one.name] for one in inputs if one.name in lying}
        yield RunningStack(number, layers, inputs, stack.tiling, homes, stack.output_home, taken)
        left = [layer for layer in left if layer not in layers]
        if stack.output_home != DRAM:
            lying[output.name] = stack.output_home


RowKind: TypeAlias = tuple[int, int]
"""The strip that a row of tiles computes, and the strip that sizes its column caches."""


@dataclass(frozen=True, slots=True)
class CachePlaces:
    """The memories that a tile reads cached pixels from and writes them to; None for a cache that it does not use."""

    columns_from: str | None
    columns_to: str | None
    rows_from: str | None
    rows_to: str | None


@dataclass(frozen=True, slots=True)
class AlikeTiles:
    """A group of `times` identical tiles with their caches in the same memories.

    The first tile of all forms its own group.
    """

    part: StackPart
    caches: CachePlaces
    is_first: bool
    times: int


@dataclass(frozen=True, slots=True)
class _Wish:
    """The memories that one tile would choose on its own.

    `spare_bits` are those left in the highest on-chip memory of weights; meaningless if no memory on the chip holds
    weights.
    """

    columns: str
    rows: str
    weights: str
    spare_bits: float


class TiledStackOnChip:
    """A stack in tiles on a chip; raises PaddingAloneError if a tile sees nothing but padding of a map.

    With `as_defines`, caches and weights are placed as in DeFiNES (docs/fused.md, section 5).
    """

    def __init__(self, stack: RunningStack, chip: ChipInUse, *, as_defines: bool = False) -> None:
        tiling = stack.tiling
        self._stack, self._chip, self._as_defines = stack, chip, as_defines
        self._caches_columns = tiling.mode is not OverlapMode.RECOMPUTE
        self._rows = self._axis(tiling.rows, is_rows=True, is_cached=tiling.mode is OverlapMode.FULLY_CACHED)
        self._measured = self._axis(tiling.rows, is_rows=True, is_cached=True) if as_defines else self._rows
        self._row_kinds = Counter(zip(self._rows.order, self._measured.order, strict=True))
        self._columns = self._axis(tiling.columns, is_rows=False, is_cached=self._caches_columns)
        self._parts = {
            (row, column): stack_part(stack.layers, stack.inputs, down, across)
            for row, down in enumerate(self._rows.strips)
            for column, across in enumerate(self._columns.strips)
        }
        kinds = dict.fromkeys((column, at == 0) for at, column in enumerate(self._columns.order))
        self._wishes = {
            (row, column, begins): self._wish(row, column, begins_row=begins)
            for row in self._row_kinds
            for column, begins in kinds
        }

    def _axis(self, tile: int, *, is_rows: bool, is_cached: bool) -> TiledLength:
        axis = Axis1D(self._stack.layers, self._stack.inputs, is_rows)
        return tiled_length(axis, tile, is_cached=is_cached)

    @property
    def _maps(self) -> Sequence[MapInNetwork]:
        return (*self._stack.inputs, *(layer.writes for layer in self._stack.layers))

    def tiles(self) -> Iterator[AlikeTiles]:
        """Yield groups of identical tiles; together they are all tiles of the stack.

        The column cache between two neighbours is in the higher of the memories that both choose. The row caches are in
        the highest memory that any tile chooses. As DeFiNES counts, the later neighbour alone chooses the column cache,
        and the last tile of all chooses the row caches.
        """
        columns = self._columns.order
        last = self._rows.order[-1], self._measured.order[-1]
        wishes = [self._wishes[last, columns[-1], len(columns) == 1]] if self._as_defines else [*self._wishes.values()]
        places = self._chip.farther(wish.rows for wish in wishes)
        for row, in_rows in self._row_kinds.items():
            strip = self._rows.strips[row[0]]
            takes = any(sight.cached for own in strip.reads for sight in own)
            gives = any(one.written for one in strip.maps.values())
            alike: Counter[tuple[int, str | None, str | None, bool]] = Counter()
            for at, column in enumerate(columns):
                before, behind = self._between(row, at), self._between(row, at + 1)
                alike[column, before, behind, at == 0] += 1
            for (column, before, behind, begins), in_columns in alike.items():
                caches = CachePlaces(before, behind, places if takes else None, places if gives else None)
                part, times = self._parts[row[0], column], in_rows * in_columns
                if begins and row == (self._rows.order[0], self._measured.order[0]):
                    yield AlikeTiles(part, caches, is_first=True, times=1)
                    times -= 1
                if times:
                    yield AlikeTiles(part, caches, is_first=False, times=times)

    def weights(self) -> tuple[str, ...]:
        """Return the memory of each layer's weights once they have been loaded from DRAM.

        If no memory on the chip has capacity for all weights, the largest that fit are in the highest memory of
        weights, together with one weight per unit. As DeFiNES counts, the weights of all layers are in one memory.
        """
        layers, chip = self._stack.layers, self._chip
        together = chip.farther(wish.weights for wish in self._wishes.values())
        on_chip = chip.places(Operand.WEIGHT)[:-1]
        is_one_tile = len(self._rows.order) * len(self._columns.order) == 1
        array = chip.accelerator.array
        if together != DRAM or not on_chip or is_one_tile or array is None or self._as_defines:
            return tuple(together for _ in layers)
        left = min(wish.spare_bits for wish in self._wishes.values())
        left -= array.macs * max(layer.nest.weight_bits for layer in layers)
        places = dict.fromkeys(range(len(layers)), DRAM)
        for number, layer in sorted(enumerate(layers), key=lambda one: -one[1].weight_bits):
            if layer.weight_bits <= left:
                places[number] = on_chip[-1]
                left -= layer.weight_bits
        return tuple(places[number] for number in range(len(layers)))

    def _between(self, row: RowKind, at: int) -> str | None:
        """Return the memory of the column cache between a tile and its predecessor; None at an edge."""
        order = self._columns.order
        if not self._caches_columns or not 0 < at < len(order):
            return None
        deciding = (at,) if self._as_defines else (at - 1, at)
        both = (self._wishes[row, order[one], one == 0] for one in deciding)
        return self._chip.farther(wish.columns for wish in both)

    def _wish(self, row: RowKind, column: int, *, begins_row: bool) -> _Wish:
        """Return the memories that a tile would choose on its own.

        The first tile of a row fills the column caches one by one; for all other tiles they are full. Caches that the
        overlap mode lacks are empty. As DeFiNES counts, the first tile has no column caches, and the caches are as high
        as if rows were cached.
        """
        part, chip, maps = self._parts[row[0], column], self._chip, self._maps
        beside = column_caches_bits(maps, self._measured.strips[row[1]], self._columns)
        if begins_row and self._as_defines:
            beside = {}
        alive = most_alive_bits(part, {})
        with_columns = most_alive_bits(part, beside) if begins_row else alive + sum(beside.values())
        with_rows = with_columns + row_caches_bits(maps, self._rows, self._columns)
        columns = self._lowest_for_caches(with_columns, {})
        corner = {columns: corner_bits(maps, self._rows, self._columns)}
        rows = self._lowest_for_caches(with_rows, corner)
        taken = dict.fromkeys(self._up_to(self._lowest_for_caches(alive, {})), alive)
        taken |= {columns: with_columns, rows: with_rows - corner.get(rows, 0)}
        needed = sum(layer.weight_bits for layer in self._stack.layers)
        left = {place: chip.room_bits(place) - taken.get(place, 0) for place in chip.places(Operand.WEIGHT)}
        weights = next(place for place, room in left.items() if room >= needed)
        return _Wish(columns, rows, weights, [*left.values()][-2:][0])

    def _lowest_for_caches(self, bits: int, saved: Mapping[str, int]) -> str:
        """Return the lowest memory of inputs and outputs with capacity for the bits, less those `saved` in a memory."""
        places = self._chip.places(Operand.INPUT, Operand.OUTPUT)
        return next(place for place in places if self._chip.room_bits(place) >= bits - saved.get(place, 0))

    def _up_to(self, top: str) -> Iterator[str]:
        places = self._chip.places(Operand.OUTPUT)
        return (place for place in places if self._chip.rank(place) <= self._chip.rank(top))


def most_alive_bits(part: StackPart, caches: Mapping[str, int]) -> int:
    """Return the peak of live bits: a layer's inputs and output, waiting maps, and caches of maps made before."""
    last_readers = {name: number for number, layer in enumerate(part.layers) for name in layer.sources}
    made = {one.map.name: one.bits for one in part.loaded}
    cached = sum(caches.get(name, 0) for name in made)
    most = sum(made.values()) + cached
    for number, layer in enumerate(part.layers):
        seen = layer.sources
        waiting = sum(
            bits for name, bits in made.items() if name not in seen and last_readers.get(name, number) >= number
        )
        most = max(most, waiting + layer.seen_bits + layer.made.bits + cached)
        made[layer.made.map.name] = layer.made.bits
        cached += caches.get(layer.made.map.name, 0)
    return most
