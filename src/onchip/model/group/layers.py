"""The layers of a tile, one after the other: operand levels, copies, and mapping (DeFiNES, steps 3 to 5).

If no mapping fits, the output moves a level up, then the input, then both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil

from onchip.answer.layer_mapping import Move
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand, Port
from onchip.errors import AcceleratorError
from onchip.model.accounting.conventions import Conventions
from onchip.model.group.levels import CacheLevels
from onchip.model.group.machine import FusedMachine, Mapper
from onchip.model.group.tiles import LayerTile, Made, Seen, StackTile
from onchip.model.layer.cost import LayerCost, energy_pj, stated_access
from onchip.model.layer.limits import Accesses, port_for
from onchip.ops.fusable import Stack


@dataclass(frozen=True, slots=True)
class MapCopy:
    """A copy of a map from its memory and operand role to another; `bits` is the width of an element."""

    elements: int
    bits: int
    source: str
    source_operand: Operand
    target: str
    target_operand: Operand


@dataclass(frozen=True, slots=True)
class CopiesCost:
    """The cost of simultaneous copies: each access with its energy in pJ, and the cycles until the last copy ends.

    The energy of an access is None if the accelerator does not state it.
    """

    accesses: tuple[tuple[Accesses, float | None], ...] = ()
    cycles: int = 0


@dataclass(frozen=True, slots=True)
class _End:
    """An end of a hop."""

    memory: str
    operand: Operand
    move: Move


def copies_cost(copies: Iterable[MapCopy], accelerator: Accelerator) -> CopiesCost:
    """Return the cost of copies that start together.

    Hops of a copy are serial, and both ends of a hop are busy until the slower is done. A port is free after its last
    use, and not before the sum of its busy times has passed since its first use.
    """
    accesses: list[tuple[Accesses, float | None]] = []
    busy: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for copy in copies:
        begin = 0
        for ends in _hops(copy, accelerator):
            cycles = 0
            for end in ends:
                one = Accesses(end.memory, end.operand, end.move, ((copy.elements, 1),), copy.bits)
                access = stated_access(accelerator, end.memory)
                accesses.append((one, None if access is None else energy_pj(one, access)))
                cycles = max(cycles, _cycles(copy, end, accelerator))
            for end in ends:
                if ports := _ports(end.memory, accelerator):
                    busy[end.memory, port_for(end.memory, ports, end.move)].append((begin, begin + cycles))
            begin += cycles
    return CopiesCost(tuple(accesses), max((_end_of(intervals) for intervals in busy.values()), default=0))


def _hops(copy: MapCopy, accelerator: Accelerator) -> Iterator[tuple[_End, _End]]:
    """Yield the ends of each hop; data move upwards as the source operand, downwards as the target operand."""
    ranks = {level.memory.name: rank for rank, level in enumerate(accelerator.levels)} | {DRAM: len(accelerator.levels)}
    for sender, receiver in pairwise(_way(copy, accelerator)):
        if ranks[sender] < ranks[receiver]:
            operand, moves = copy.source_operand, (Move.READ_FOR_ABOVE, Move.WRITE_FROM_BELOW)
        else:
            operand, moves = copy.target_operand, (Move.READ_FOR_BELOW, Move.WRITE_FROM_ABOVE)
        yield _End(sender, operand, moves[0]), _End(receiver, operand, moves[1])


def _way(copy: MapCopy, accelerator: Accelerator) -> list[str]:
    """Return the path: up to the lowest memory that both operands share, then down, through all holders."""
    names = [*(level.memory.name for level in accelerator.levels), DRAM]
    rising = _holders(accelerator, copy.source_operand)
    falling = _holders(accelerator, copy.target_operand)
    low, high = names.index(copy.source), names.index(copy.target)
    top = next(rank for rank in range(max(low, high), len(names)) if names[rank] in rising and names[rank] in falling)
    up = [name for name in names[low : top + 1] if name in rising]
    return [*up, *reversed([name for name in names[high:top] if name in falling])]


def _holders(accelerator: Accelerator, operand: Operand) -> frozenset[str]:
    return frozenset((*(level.memory.name for level in accelerator.levels if operand in level.memory.holds), DRAM))


def _cycles(copy: MapCopy, end: _End, accelerator: Accelerator) -> int:
    """Return the cycles at one end; a memory without ports takes none."""
    ports = _ports(end.memory, accelerator)
    if not ports:
        return 0
    return ceil(copy.elements * copy.bits / ports[port_for(end.memory, ports, end.move)].bits_per_cycle)


def _ports(memory: str, accelerator: Accelerator) -> Sequence[Port]:
    if memory == DRAM:
        return accelerator.dram.ports if accelerator.dram else ()
    return next(level.ports for level in accelerator.levels if level.memory.name == memory)


def _end_of(intervals: Sequence[tuple[int, int]]) -> int:
    first = min(begin for begin, _ in intervals)
    return max(max(end for _, end in intervals), first + sum(end - begin for begin, end in intervals))


@dataclass(frozen=True, slots=True)
class LayerLevels:
    """The memories in which a layer's operands reside whole; `weight` is None without weights and for additions."""

    input: str
    output: str
    weight: str | None


@dataclass(frozen=True, slots=True)
class LayerRun:
    """A layer in a tile: `copies` precede it; `cost` is that of the mapping found for `problem`."""

    tile: LayerTile
    levels: LayerLevels
    copies: CopiesCost
    problem: LayerProblem
    cost: LayerCost


@dataclass(frozen=True, slots=True)
class TileRun:
    """The cost of a tile: `loads` of the maps from outside precede the layers."""

    loads: tuple[CopiesCost, ...]
    layers: tuple[LayerRun, ...]


@dataclass(frozen=True, slots=True)
class StackHomes:
    """The memories of outside inputs by name, of the output, and of each layer's weights once loaded.

    Inputs that are `kept` stay in their memory from slice to slice, and need no room next to themselves.
    """

    inputs: Mapping[str, str]
    output: str
    weights: tuple[str, ...]
    kept: frozenset[str] = frozenset()


@dataclass(slots=True)
class TileRunner:
    """The runner of the tiles of one fused group."""

    stack: Stack
    machine: FusedMachine
    mapper: Mapper
    homes: StackHomes
    conventions: Conventions
    _copied: dict[tuple[MapCopy, ...], CopiesCost] = field(default_factory=dict)

    def run(self, tile: StackTile, caches: CacheLevels, *, is_first_tile: bool) -> TileRun:
        """Return the cost of a tile; the first tile of all loads its weights from DRAM."""
        return _Tile(self, tile, caches, is_first_tile).run()

    def cost_of(self, copies: list[MapCopy]) -> CopiesCost:
        """Return the cost of simultaneous copies; empty copies are omitted."""
        key = tuple(copy for copy in copies if copy.elements)
        if key not in self._copied:
            self._copied[key] = copies_cost(key, self.machine.accelerator)
        return self._copied[key]


@dataclass(slots=True)
class _Tile:
    """The state of a tile's run.

    `stored` is the memory of each computed map; `pending` are the copies to caches that run with the next layer.
    """

    runner: TileRunner
    tile: StackTile
    caches: CacheLevels
    is_first_tile: bool
    stored: dict[str, str] = field(default_factory=dict)
    pending: list[MapCopy] = field(default_factory=list)

    def run(self) -> TileRun:
        loads = tuple(self._loaded(made) for made in self.tile.inputs)
        return TileRun(loads, tuple(self._layer(number) for number in range(len(self.tile.layers))))

    def _loaded(self, made: Made) -> CopiesCost:
        """Load an input to the lowest memory with capacity for its new pixels."""
        machine, home = self.runner.machine, self.runner.homes.inputs.get(made.map.name, DRAM)
        places = [name for name in machine.places(Operand.INPUT) if machine.rank(name) <= machine.rank(home)]
        level = next((name for name in places if machine.room_bits(name) >= made.computed_bits), home)
        self.stored[made.map.name] = level
        if not self.runner.conventions.stack_inputs_are_cached_for_free:
            self.pending += self._to_caches(made, level, Operand.INPUT, already=home)
        load = MapCopy(made.computed, made.map.bits, home, Operand.INPUT, level, Operand.INPUT)
        return self.runner.cost_of([load] if home != level else [])

    def _layer(self, number: int) -> LayerRun:
        tile = self.tile.layers[number]
        inputs, outputs = self._input_places(tile), self._output_places(tile)
        fits = next((at for at, name in enumerate(inputs) if self._room(name, number) >= tile.seen_bits), None)
        lowest = len(inputs) - 1 if fits is None else fits
        first = self._lowest_output(number, outputs, inputs[lowest])
        for more_inputs, more_outputs in _attempts(len(inputs) + len(outputs)):
            home = inputs[min(lowest + more_inputs, len(inputs) - 1)]
            output = outputs[min(first + more_outputs, len(outputs) - 1)]
            levels = LayerLevels(home, output, self._weights(tile, home) if tile.layer.has_weight else None)
            problem = self._problem(tile, levels)
            cost = None if problem is None else self.runner.mapper(problem)
            if problem is not None and cost is not None:
                return self._ran(tile, levels, problem, cost)
            if (home, output) == (inputs[-1], outputs[-1]):
                break
        name = self.runner.stack.layers[tile.at].name
        place = f"layer {name!r}"
        raise AcceleratorError("no mapping of a tile fits, wherever it lies", place=place, expected="larger memories")

    def _ran(self, tile: LayerTile, levels: LayerLevels, problem: LayerProblem, cost: LayerCost) -> LayerRun:
        copies = [*self.pending, *(copy for seen in tile.seen for copy in self._collected(seen, levels.input))]
        self.stored[tile.made.map.name] = levels.output
        self.pending = list(self._to_caches(tile.made, levels.output, Operand.OUTPUT))
        return LayerRun(tile, levels, self.runner.cost_of(copies), problem, cost)

    def _collected(self, seen: Seen, level: str) -> Iterator[MapCopy]:
        """Yield the copies to the memory of the layer's input; maps from outside may stay below it."""
        machine, source, bits = self.runner.machine, seen.source.name, seen.source.bits
        stored = self.stored.get(source, level)
        comes_from_outside = any(made.map.name == source for made in self.tile.inputs)
        if machine.rank(stored) > machine.rank(level) or (stored != level and not comes_from_outside):
            was = Operand.INPUT if comes_from_outside else Operand.OUTPUT
            yield MapCopy(seen.new, bits, stored, was, level, Operand.INPUT)
        for cache, elements in ((self.caches.columns_from, seen.from_columns), (self.caches.rows_from, seen.from_rows)):
            if cache not in (None, level):
                yield MapCopy(elements, bits, str(cache), Operand.INPUT, level, Operand.INPUT)

    def _to_caches(self, made: Made, level: str, operand: Operand, already: str | None = None) -> Iterator[MapCopy]:
        """Yield the copies to the caches; pixels in the row cache need no copy to the column cache: it is no higher."""
        rows, columns, bits = self.caches.rows_to, self.caches.columns_to, made.map.bits
        to_columns = made.to_columns
        if rows not in (None, level, already):
            yield MapCopy(made.to_rows, bits, level, operand, str(rows), operand)
            to_columns -= made.to_both
        if columns not in (None, level, already):
            yield MapCopy(to_columns, bits, level, operand, str(columns), operand)

    def _input_places(self, tile: LayerTile) -> list[str]:
        """Return the candidate memories of the input; data never move above the memory in which they reside whole."""
        machine, homes = self.runner.machine, self.runner.homes.inputs
        own = {made.map.name for made in self.tile.inputs}
        all_resident = all(seen.source.name in own for seen in tile.seen)
        top = max(machine.rank(homes.get(seen.source.name, DRAM)) for seen in tile.seen) if all_resident else None
        return [name for name in machine.places(Operand.INPUT) if top is None or machine.rank(name) <= top]

    def _output_places(self, tile: LayerTile) -> list[str]:
        """Return the candidate memories of the output; the group's output has a fixed memory."""
        if tile.at == len(self.runner.stack.layers) - 1:
            return [self.runner.homes.output]
        return list(self.runner.machine.places(Operand.OUTPUT))

    def _lowest_output(self, number: int, places: list[str], beside: str) -> int:
        """Return the lowest output level with enough capacity, counting the input if it is in the same memory."""
        tile, homes = self.tile.layers[number], self.runner.homes
        counted = {*homes.kept, *(name for name, home in homes.inputs.items() if home == beside)}
        seen_bits = sum(seen.all_bits for seen in tile.seen if seen.source.name not in counted)
        for at, name in enumerate(places):
            if self._room(name, number) >= tile.made.computed_bits + (seen_bits if name == beside else 0):
                return at
        return len(places) - 1

    def _room(self, memory: str, number: int) -> float:
        """Return a memory's free bits, without the maps that wait there for later layers."""
        room = self.runner.machine.room_bits(memory)
        if not self.runner.conventions.waiting_maps_take_room:
            return room
        own = {seen.source.name for seen in self.tile.layers[number].seen}
        later = {seen.source.name for layer in self.tile.layers[number + 1 :] for seen in layer.seen} - own
        made = (*self.tile.inputs, *(layer.made for layer in self.tile.layers[:number]))
        waiting = (one for one in made if one.map.name in later and self.stored[one.map.name] == memory)
        return room - sum(one.computed_bits for one in waiting)

    def _problem(self, tile: LayerTile, levels: LayerLevels) -> LayerProblem | None:
        homes = Homes(*(None if one == DRAM else one for one in (levels.input, levels.weight, levels.output)))
        others = self._others_bits(tile, levels)
        return self.runner.machine.problem(tile.layer, homes, is_addition=tile.is_addition, others_bits=others)

    def _weights(self, tile: LayerTile, beside: str) -> str:
        """Return the memory of the weights; an addition's second operand is with its first."""
        if tile.is_addition:
            return beside
        return DRAM if self.is_first_tile else self.runner.homes.weights[tile.at]

    def _others_bits(self, tile: LayerTile, levels: LayerLevels) -> Mapping[str, int]:
        """Return the bits that other data take, by memory; the layer's own tiles of whole maps are excluded.

        Weights count if only some layers' weights are on the chip.
        """
        homes, stack = self.runner.homes, self.runner.stack
        taken = dict(self.runner.machine.taken_bits)
        for seen in tile.seen:
            if homes.inputs.get(seen.source.name) == levels.input and levels.input in taken:
                taken[levels.input] -= seen.taken_bits
        if tile.at == len(stack.layers) - 1 and levels.output in taken:
            taken[levels.output] -= tile.made.computed_bits
        if len(set(homes.weights)) > 1:
            for at, memory in enumerate(homes.weights):
                if memory != DRAM and at != tile.at:
                    taken[memory] = taken.get(memory, 0) + stack.layers[at].weight_bits
        return taken


def _attempts(most: int) -> Iterator[tuple[int, int]]:
    """Yield level increments for input and output, lowest first."""
    for more in range(most):
        yield more, more
        yield more, more + 1
        yield more + 1, more
