"""Cost of a fused group that runs tile by tile: energy, cycles, accesses (DeFiNES, HPCA 2023).

`stack_cost` follows DeFiNES's six steps: tile the output, back-propagate each layer's tile, choose memory levels, copy
data there, map each layer of each tile type, add up. docs/fused.md lists the counted costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.stacks import Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.errors import AcceleratorError, InputError
from onchip.model.accounting.accounting import Accounting
from onchip.model.accounting.conventions import OURS, Conventions
from onchip.model.group.layers import LayerLevels, StackHomes, TileRun, TileRunner
from onchip.model.group.levels import CacheLevels, PlacedTile, TiledStack, placement
from onchip.model.group.machine import FusedMachine, Mapper, check_machine
from onchip.model.group.sums import FusedSums, Sums, times, total
from onchip.model.group.tiles import column_cache_bits, row_cache_bits
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import needed_bits
from onchip.model.layer.ragged import boundaries
from onchip.ops.fusable import AxisName, Stack, back_calculation, tiled_axis


@dataclass(frozen=True, slots=True)
class LayerInTile:
    """A layer of a tile type: the pixels it computes, its operands' residency levels, and its mapping."""

    name: str
    rows: int
    columns: int
    levels: LayerLevels
    problem: LayerProblem
    mapping: LayerMapping


@dataclass(frozen=True, slots=True)
class TileTypeCost:
    """`times` equal tiles with an output of `rows` x `columns` pixels; `sums` is the cost of one tile."""

    rows: int
    columns: int
    times: int
    is_first_tile: bool
    caches: CacheLevels
    layers: tuple[LayerInTile, ...]
    sums: FusedSums


@dataclass(frozen=True, slots=True)
class StackCost:
    """The cost of a fused group; `sums` covers all tiles.

    A tile type appears once for each distinct choice of cache levels. Cache bits are the maximum per feature map, for
    the cache next to a tile and the cache below a row of tiles.
    """

    sums: FusedSums
    tile_types: int
    placed: tuple[TileTypeCost, ...]
    column_cache_bits: Mapping[str, int]
    row_cache_bits: Mapping[str, int]

    @property
    def tiles(self) -> int:
        """Return the number of tiles of the group."""
        return sum(one.times for one in self.placed)

    def stated_by(self, accelerator: Accelerator) -> StackCost:
        """Return the same cost without the energies that the accelerator does not state."""
        placed = tuple(replace(one, sums=one.sums.stated_by(accelerator)) for one in self.placed)
        return replace(self, sums=self.sums.stated_by(accelerator), placed=placed)


def stack_cost(
    stack: Stack,
    accelerator: Accelerator,
    tiling: Tiling,
    mapper: Mapper,
    conventions: Conventions = OURS,
    input_homes: Mapping[str, str] | None = None,
    output_home: str = DRAM,
    resident_bits: Mapping[str, int] | None = None,
    tiled: TiledStack | None = None,
    kept: frozenset[str] = frozenset(),
    read_last: frozenset[str] = frozenset(),
) -> StackCost:
    """Return the cost of a fused group.

    `input_homes` names the memories of the group's inputs (default: DRAM), `output_home` that of its output. These maps
    take capacity there while the group runs; `resident_bits` is the capacity that other data take, by memory. `tiled`
    is the tiled group, if known. Inputs that are `kept` are read where they are. No later group reads the inputs
    `read_last`: in strips of whole rows or columns, their pixels leave as soon as no tile needs them. Raises InputError
    for tiles larger than the output, AcceleratorError if nothing fits or the accelerator's description is incomplete.
    """
    check_machine(accelerator)
    homes = input_homes or {}
    taken = _taken_bits(stack, homes, output_home, resident_bits or {})
    for memory, bits in _freed_bits(stack, tiling, homes, output_home, read_last).items():
        taken[memory] -= bits
    machine = FusedMachine(accelerator, conventions.levels_are_skipped, taken)
    _check_homes(stack, machine, homes, output_home)
    tiled = tiled or tiled_stack(stack, tiling, conventions)
    placed = placement(tiled, machine)
    runner = TileRunner(stack, machine, mapper, StackHomes(homes, output_home, placed.weights, kept), conventions)
    sums, types = Sums(conventions.offloading_is_free), []
    for one in placed.tiles:
        run = runner.run(tiled.tile(one.rows, one.columns), one.caches, is_first_tile=one.is_first_tile)
        types.append(_tile_type(tiled, one, run, sums.of(run)))
    return StackCost(
        total(times(one.sums, one.times) for one in types),
        len({(one.rows, one.columns, one.is_first_tile) for one in placed.tiles}),
        tuple(types),
        _most(column_cache_bits(stack, rows, tiled.rows, tiled.columns) for rows in tiled.rows.classes),
        row_cache_bits(stack, tiled.rows, tiled.columns),
    )


def tiled_stack(stack: Stack, tiling: Tiling, conventions: Conventions) -> TiledStack:
    """Return the group in tiles; raises InputError for tiles larger than the output."""
    mode = tiling.mode
    rows = tiled_axis(stack, AxisName.ROWS, tiling.rows, cached=mode.caches_rows)
    columns = tiled_axis(stack, AxisName.COLUMNS, tiling.columns, cached=mode.caches_columns)
    sized = rows
    if conventions.caches_are_sized_as_fully_cached:
        sized = tiled_axis(stack, AxisName.ROWS, tiling.rows, cached=True)
    return TiledStack(stack, mode, rows, columns, sized, conventions)


def _tile_type(tiled: TiledStack, placed: PlacedTile, run: TileRun, sums: FusedSums) -> TileTypeCost:
    down, across = tiled.rows.classes[placed.rows].maps, tiled.columns.classes[placed.columns].maps
    layers = []
    for layer in run.layers:
        fusable = tiled.stack.layers[layer.tile.at]
        rows, columns = down[fusable.output.name].computed, across[fusable.output.name].computed
        layers.append(LayerInTile(fusable.name, rows, columns, layer.levels, layer.problem, layer.cost.mapping))
    output = tiled.stack.output.name
    size = down[output].computed, across[output].computed
    return TileTypeCost(*size, placed.times, placed.is_first_tile, placed.caches, tuple(layers), sums)


def _check_homes(stack: Stack, machine: FusedMachine, homes: Mapping[str, str], output_home: str) -> None:
    for name in homes:
        if name not in {one.name for one in stack.inputs}:
            expected = f"one of {', '.join(one.name for one in stack.inputs)}"
            raise InputError("the stack does not read it from outside", place=f"home of {name!r}", expected=expected)
    named = [(name, memory, Operand.INPUT) for name, memory in homes.items()]
    for name, memory, operand in (*named, (stack.output.name, output_home, Operand.OUTPUT)):
        if memory not in machine.places(operand):
            expected = f"one of {', '.join(machine.places(operand))}"
            detail = f"{memory!r} is no single memory that holds {operand}"
            raise AcceleratorError(detail, place=f"home of {name!r}", expected=expected)


def _taken_bits(
    stack: Stack, homes: Mapping[str, str], output_home: str, resident_bits: Mapping[str, int]
) -> dict[str, int]:
    """Return the bits that resident data take, by memory, without DRAM."""
    taken = dict(resident_bits)
    whole = [(homes.get(one.name, DRAM), one.size_bits) for one in stack.inputs]
    for memory, bits in (*whole, (output_home, stack.output.size_bits)):
        taken[memory] = taken.get(memory, 0) + bits
    return {memory: bits for memory, bits in taken.items() if memory != DRAM}


def _freed_bits(
    stack: Stack, tiling: Tiling, homes: Mapping[str, str], output_home: str, read_last: frozenset[str]
) -> Mapping[str, int]:
    """Return by how many bits the inputs and the output take less than their sizes, in the tile where they take most.

    In each tile the output has the pixels of all tiles so far, and inputs that are read last have those which this tile
    or a later one needs. Only the memory of the output counts.
    """
    inputs = [one for one in stack.inputs if one.name in read_last and homes.get(one.name) == output_home]
    is_row_by_row = tiling.columns == stack.output.columns
    if not inputs or not (is_row_by_row or tiling.rows == stack.output.rows):
        return {}
    axis, size = (AxisName.ROWS, tiling.rows) if is_row_by_row else (AxisName.COLUMNS, tiling.columns)
    maps = back_calculation(stack, axis, size, cached=False).maps
    bits_of_pixel = {one.name: one.size_bits // max(1, axis.pixels(one)) for one in (*inputs, stack.output)}
    made = maps[stack.output.name].computed.stops
    absent = (axis.pixels(stack.output) - made) * bits_of_pixel[stack.output.name]
    for one in inputs:
        absent = absent + maps[one.name].needed.starts * bits_of_pixel[one.name]
    return {output_home: max(0, int(absent.min()))}


def _most(found: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    every = list(found)
    return {name: max(one[name] for one in every) for name in every[0]}


def peak_bytes_of(costs: Iterable[StackCost]) -> Mapping[str, int]:
    """Return the peak bytes of one instance of each memory over all layers, by name; see docs/fused.md, section 4."""
    peaks: dict[str, int] = {}
    seen: set[tuple[int, int]] = set()
    for cost in costs:
        for layer in (layer for tile in cost.placed for layer in tile.layers):
            key = id(layer.problem), id(layer.mapping)
            if key not in seen:
                seen.add(key)
                for memory, size in _bytes_of(layer.problem, layer.mapping).items():
                    peaks[memory] = max(peaks.get(memory, 0), size)
    return peaks


def _bytes_of(problem: LayerProblem, mapping: LayerMapping) -> Mapping[str, int]:
    """Return the bytes that other data and tiles take, by memory; tiles count in whole units in every accounting."""
    needs = needed_bits(problem, boundaries(mapping.layer(problem.layer), problem, mapping))
    found: dict[str, int] = {}
    for level in problem.accelerator.levels:
        name, capacity_bytes = level.memory.name, level.memory.capacity_bytes
        bits = sum(need for (memory, _), need in needs.items() if memory == name) - problem.resident_bits(name)
        found[name] = capacity_bytes - problem.room_bytes.get(name, capacity_bytes) - (-bits // 8)
    return found


@dataclass(frozen=True, slots=True)
class MappedTileCost:
    """The cost of a mapped tile: energies in pJ by memory and operand and of the MACs, cycles, DRAM traffic in bits.

    An energy is None if the accelerator does not state it.
    """

    memory_energy_pj: Mapping[tuple[str, str], float | None]
    mac_energy_pj: float | None
    cycles: float
    dram_bits: int


def tile_prices_by(
    accounting: Accounting, conventions: Conventions = OURS
) -> Callable[[LayerProblem, LayerMapping], MappedTileCost]:
    """Return the cost model for an accounting; it raises MappingError for a mapping that does not fit.

    Equal layers of different groups are costed once.
    """

    @cache
    def price(problem: LayerProblem, mapping: LayerMapping) -> MappedTileCost:
        cost = layer_cost(problem, mapping, accounting)
        dram_bits = sum(one.elements * one.bits for one in cost.accesses if one.memory == DRAM)
        cycles = cost.cycles - (cost.latency.offload if conventions.offloading_is_free else 0)
        unknown = dict.fromkeys((one.memory, one.operand) for one in cost.accesses)
        return MappedTileCost(unknown | cost.memory_energy_pj, cost.mac_energy_pj, cycles, dram_bits)

    return price
