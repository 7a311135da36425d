"""What a stack in some tiles costs at least: cheap, for the search to pass by what cannot be the best.

Multiply-accumulates with recomputation, what they read and write at least, and what every stack moves from and to DRAM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import floor, inf, prod

from onchip.analysis.back_calculation import AxisName
from onchip.analysis.fusable import FeatureMap, FusableLayer, FusableNetwork, Read, Stack
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.ir.loopnest import Layer
from onchip.plan.strategy import Tiling
from onchip.solve.fusion.layer_floors import MachineFloors, OperandFloor
from onchip.solve.fusion.objective import Criteria, FusionObjective
from onchip.solve.fusion.space import StackChoice
from onchip.solve.fusion.stacks import Span, stack_of
from onchip.solve.fusion.tile_totals import AxisTotals, LayerTotals, axis_totals
from onchip.solve.fusion.tilings import whole

ROUNDING = 1e-9
"""Sums of floats are not those of the cost model in another order."""


@dataclass(frozen=True, slots=True)
class LayerFloors:
    """What a layer costs at least where no tile is larger; `weight` is None without weights.

    Of what it sees, at least the `share` is neither skipped by a stride nor between dilated taps.
    """

    units: int
    share: float
    input: OperandFloor
    weight: OperandFloor | None
    output: Mapping[str, float]


@dataclass(slots=True)
class StackBounds:
    """Of the choices on one network and machine; what choices share is calculated once.

    With `is_for_any_tiles` a bound holds for tiles of any size: nothing is said of where data have room, nor of how few
    pixels a tile has.
    """

    network: FusableNetwork
    accelerator: Accelerator
    objective: FusionObjective
    is_for_any_tiles: bool = False
    _capacities: dict[str, float] = field(init=False)
    _stacks: dict[Span, Stack] = field(default_factory=dict)
    _axes: dict[tuple[Span, AxisName, int, bool], AxisTotals] = field(default_factory=dict)
    _floors: dict[tuple[str, int, int, int], LayerFloors] = field(default_factory=dict)
    _parts: dict[tuple[Span, Tiling, str], tuple[float, float, float]] = field(default_factory=dict)
    _any_tiles: StackBounds | None = None

    def __post_init__(self) -> None:
        capacities = {level.memory.name: level.memory.capacity_bytes * 8 for level in self.accelerator.levels}
        self._capacities = dict.fromkeys([*capacities, DRAM], inf) | ({} if self.is_for_any_tiles else capacities)

    def floor(self, choice: StackChoice) -> Criteria:
        """Of the same stack with the same homes in any tiles: one tile computes and loads least of all."""
        if self._any_tiles is None:
            self._any_tiles = StackBounds(self.network, self.accelerator, self.objective, is_for_any_tiles=True)
        return self._any_tiles.bound(replace(choice, tiling=whole(self._stack(choice.span).output)))

    def bound(self, choice: StackChoice) -> Criteria:
        """Rounded down; raises InputError for tiles that see nothing but padding."""
        stack, tiling = self._stack(choice.span), choice.tiling
        rows = self._totals(choice.span, AxisName.ROWS, tiling.rows, cached=tiling.mode.caches_rows)
        columns = self._totals(choice.span, AxisName.COLUMNS, tiling.columns, cached=tiling.mode.caches_columns)
        key, homes = (choice.span, tiling, choice.output_home), dict(choice.homes)
        if key not in self._parts:
            self._parts[key] = self._inside(stack, rows, columns, choice.output_home)
        energy_pj, cycles, dram_bits = self._parts[key]
        for source in stack.inputs:
            home = homes.get(source.name, DRAM)
            loads = rows.loads[source.name] * columns.loads[source.name] * source.channels * _seen_share(stack, source)
            energy_pj += loads * self._load_pj(stack, source, home, rows, columns)
            dram_bits += loads * source.bits if home == DRAM else 0
        dram_bits += stack.output.size_bits if choice.output_home == DRAM else 0
        criteria = self.objective.criteria(energy_pj, cycles, dram_bits)
        return tuple(max(floor(part * (1 - ROUNDING)) - 1, 0) for part in criteria)

    def _inside(
        self, stack: Stack, rows: AxisTotals, columns: AxisTotals, output_home: str
    ) -> tuple[float, float, float]:
        """Energy, cycles and bits of DRAM, without what comes from outside and the stack's output in DRAM."""
        energy_pj, dram_bits = self._weights_again(stack, rows, columns)
        cycles = 0.0
        for at, layer in enumerate(stack.layers):
            floors = self._floors_of(layer, rows.layers[at], columns.layers[at])
            energy_pj += self._mac_energy_pj(layer, floors, rows.layers[at], columns.layers[at])
            energy_pj += self._map_energy_pj(stack, at, floors, rows, columns, output_home)
            cycles += _macs(layer, rows.layers[at].computed, columns.layers[at].computed) / floors.units
            dram_bits += _weights(layer) * layer.layer.weight_bits
        return energy_pj, cycles, dram_bits

    def _mac_energy_pj(
        self, layer: FusableLayer, floors: LayerFloors, rows: LayerTotals, columns: LayerTotals
    ) -> float:
        """Of multiply-accumulates with what they read and write nearby, and of weights in the first tile."""
        macs = _macs(layer, rows.computed, columns.computed)
        energy_pj = macs * self._machine.mac_energy_pj
        energy_pj += _macs(layer, rows.inner, columns.inner) * floors.input.per_mac
        if floors.weight is not None:
            first = 1.0 if self.is_for_any_tiles else rows.most * columns.most / (rows.computed * columns.computed)
            near_pj, weights = macs * floors.weight.per_mac, _weights(layer)
            energy_pj += max(
                near_pj + weights * floors.weight.per_element[DRAM],
                near_pj * (1 - first) + weights * self._machine.read_pj(layer.layer, Operand.WEIGHT, DRAM),
            )
        return energy_pj

    def _weights_again(self, stack: Stack, rows: AxisTotals, columns: AxisTotals) -> tuple[float, float]:
        """Energy of weights from the second tile on, and the bits of them that come from DRAM again.

        They lie in one memory with room for all; or else, if they fit, in the highest on the chip, the others in DRAM.
        """
        needed_bits = sum(layer.weight_bits for layer in stack.layers)
        homes = [home for home in self._machine.homes(Operand.WEIGHT) if home != DRAM]
        roomy = [home for home in homes if needed_bits <= self._capacities[home]]
        energy_pj, dearer, fewest = 0.0, inf, inf
        for at, layer in enumerate(stack.layers):
            floors = self._floors_of(layer, rows.layers[at], columns.layers[at])
            if floors.weight is None:
                continue
            per_element = floors.weight.per_element
            near = min(per_element[home] for home in (*roomy, *homes[-1:], DRAM))
            again = max(rows.layers[at].tiles * columns.layers[at].tiles - 1, 0)
            energy_pj += _weights(layer) * again * near
            dearer = min(dearer, (per_element[DRAM] - near) / layer.layer.weight_bits)
            fewest = min(fewest, again)
        if roomy or fewest == inf:
            return energy_pj, 0.0
        outside_bits = max(needed_bits - (self._capacities[homes[-1]] if homes else 0), 0)
        return energy_pj + outside_bits * fewest * dearer, outside_bits * fewest

    def _map_energy_pj(
        self, stack: Stack, at: int, floors: LayerFloors, rows: AxisTotals, columns: AxisTotals, output_home: str
    ) -> float:
        """Of a layer's output where it lies, and of its input unless that comes from outside, over all tiles.

        Where the largest tile has room in the cheapest memories, all have.
        """
        layer, home = stack.layers[at], output_home if at == len(stack.layers) - 1 else None
        seen, written = self._moved(stack, at, rows.largest(at), columns.largest(at))
        cheapest = floors.input.cheapest, home or min(floors.output, key=lambda name: floors.output[name])
        if self._has_room(layer, seen, written, cheapest, home):
            seen, written = self._moved(stack, at, rows.total(at), columns.total(at))
            return seen * floors.share * floors.input.per_element[cheapest[0]] + written * floors.output[cheapest[1]]
        energy_pj = 0.0
        for down, across in product(rows.slices, columns.slices):
            seen, written = self._moved(stack, at, down.of(at), across.of(at))
            energy_pj += down.times * across.times * self._least_pj(floors, layer, seen, written, home)
        return energy_pj

    def _moved(
        self, stack: Stack, at: int, rows: tuple[int, tuple[int, ...]], columns: tuple[int, tuple[int, ...]]
    ) -> tuple[int, int]:
        """Elements that the layer sees of maps of the stack, and that it writes, for so many pixels along each axis."""
        layer = stack.layers[at]
        channels = {one.output.name: one.output.channels for one in stack.layers[:at]}
        seen = sum(
            channels.get(read.source, 0) * rows[1][number] * columns[1][number]
            for number, read in enumerate(layer.reads)
        )
        return seen, rows[0] * columns[0] * layer.output.channels

    def _has_room(
        self, layer: FusableLayer, seen: int, written: int, memories: tuple[str, str], output_home: str | None
    ) -> bool:
        """An output whose home is given has its place."""
        seen_bits, written_bits = seen * layer.layer.input_bits, written * layer.layer.output_bits
        source, target = memories
        beside = written_bits if source == target else 0
        has_place = output_home is not None or written_bits <= self._capacities[target]
        return has_place and (not seen or seen_bits + beside <= self._capacities[source])

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

    def _load_pj(self, stack: Stack, source: FeatureMap, home: str, rows: AxisTotals, columns: AxisTotals) -> float:
        """An element from outside, as the layer sees it to which it costs least."""
        readers = [at for at, layer in enumerate(stack.layers) if source.name in [read.source for read in layer.reads]]
        floors = [self._floors_of(stack.layers[at], rows.layers[at], columns.layers[at]) for at in readers]
        return min(one.input.per_element[home] for one in floors)

    @property
    def _machine(self) -> MachineFloors:
        return MachineFloors(self.accelerator)

    def _stack(self, span: Span) -> Stack:
        if span not in self._stacks:
            self._stacks[span] = stack_of(self.network, span)
        return self._stacks[span]

    def _totals(self, span: Span, axis: AxisName, tile: int, *, cached: bool) -> AxisTotals:
        key = span, axis, tile, cached
        if key not in self._axes:
            self._axes[key] = axis_totals(self._stack(span), axis, tile, cached=cached)
        return self._axes[key]

    def _floors_of(self, fusable: FusableLayer, rows: LayerTotals, columns: LayerTotals) -> LayerFloors:
        least = 1 if self.is_for_any_tiles else rows.least * columns.least
        key = fusable.name, rows.most, columns.most, least
        if key not in self._floors:
            layer, machine = _at_most(fusable, rows.most, columns.most), self._machine
            has_weights = layer.has_weight and len(fusable.reads) == 1
            self._floors[key] = LayerFloors(
                machine.units(layer),
                min(map(_share, fusable.reads)),
                machine.floor(layer, Operand.INPUT, layer.k),
                machine.floor(layer, Operand.WEIGHT, least * layer.n) if has_weights else None,
                machine.output_floor(layer),
            )
        return self._floors[key]


def _macs(layer: FusableLayer, rows: int, columns: int) -> int:
    """For so many pixels."""
    return layer.layer.macs // (layer.output.rows * layer.output.columns) * rows * columns


def _weights(layer: FusableLayer) -> int:
    """Elements; what an addition reads second is none."""
    return layer.layer.elements(Operand.WEIGHT) if len(layer.reads) == 1 else 0


def _seen_share(stack: Stack, source: FeatureMap) -> float:
    """Of the pixels of a block, at least so many are neither skipped by a stride nor between dilated taps."""
    return max(_share(read) for layer in stack.layers for read in layer.reads if read.source == source.name)


def _share(read: Read) -> float:
    windows = (read.rows, read.columns)
    return prod(one.kernel / max(one.kernel, one.stride, one.reach) for one in windows)


def _at_most(fusable: FusableLayer, rows: int, columns: int) -> Layer:
    """The nest over the largest tile; the pixels of an addition are groups."""
    layer = fusable.layer
    if (layer.p, layer.q) != (fusable.output.rows, fusable.output.columns):
        return layer
    return replace(layer, p=max(rows, 1), q=max(columns, 1), padding=(0, 0, 0, 0))
