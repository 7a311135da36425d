"""Layers and mappings as the arrays of the compiled cost model, and costs of many mappings at once.

Operands are input, weight, output; levels are in the accelerator's order, then DRAM; loops are in LOOPS order.

A tile is a number of factors of each kind inside it. Tiles are numbered in a mixed radix, so that one more factor of a
kind adds that kind's `step`. Holders are the MACs, the levels in the accelerator's order, DRAM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onchip import native
from onchip.answer.layer_mapping import LayerMapping, Loop, MappingError, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energies import stated
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.errors import InputError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Axis, Layer
from onchip.model.accounting.accounting import INTERPRETER, Accounting
from onchip.model.layer.cost import access_of, layer_cost
from onchip.model.layer.limits import array_of, check_array, check_memories, port_for, ports_of
from onchip.model.layer.tiles import EPSILON, check_parts

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]

OPERANDS: Final = (INPUT, WEIGHT, OUTPUT)
MOVES: Final = tuple(Move)


class Level(NamedTuple):
    """A memory, or DRAM with unlimited capacity; energies are per `shortest_bits`, `port` is -1 for no port.

    `serves` is by dimension of the array, `port` by move.
    """

    serves: list[bool]
    capacity_bits: int
    is_double_buffered: bool
    shortest_bits: int
    read_pj: float
    write_pj: float
    port: list[int]


class Machine(NamedTuple):
    """An accelerator for compiled code: its levels, DRAM last, and by operand the level where it resides whole."""

    levels: list[Level]
    units: list[int]
    bits_per_cycle: list[int]
    home: list[int]


class Chosen(NamedTuple):
    """Mappings, a row each; loops innermost first, a `cut` counts temporal loops (-1: the level is skipped)."""

    temporal_count: Integers
    temporal_loop: Integers
    temporal_size: Integers
    spatial_count: Integers
    spatial_loop: Integers
    spatial_size: Integers
    spatial_along: Integers
    spatial_at: Integers  # number of temporal loops inside it
    cut: Integers  # row, operand, level


class CostStatus(IntEnum):
    """The cost status of a mapping; INTERLEAVED input tiles of scattered rows are not costed here."""

    COSTED = 0
    INTERLEAVED = 1
    OVER_CAPACITY = 2
    OVER_ARRAY = 3


class Costs(NamedTuple):
    """Costs by row; `status` is a CostStatus. Cycles are whole numbers unless loads are hidden behind the loops."""

    energy_pj: Reals
    cycles: Integers | Reals
    status: Integers


def machine_of(problem: LayerProblem) -> Machine:
    """Return the accelerator in numbers; raises AcceleratorError if its description is incomplete."""
    accelerator, sizes = problem.accelerator, array_of(problem.accelerator).sizes
    names = [*(level.memory.name for level in problem.levels), DRAM]
    levels, bits_per_cycle = list[Level](), list[int]()
    for name, own in zip(names, [*problem.levels, None], strict=True):
        access, ports = access_of(accelerator, name), ports_of(accelerator, name)
        shortest = access.shortest_access_bits or access.access_bits
        levels.append(
            Level(
                [own is None or own.serves is None or along in own.serves for along in sizes],
                0 if own is None else problem.usable_bits(name),
                own is not None and own.double_buffered,
                shortest,
                access.read_energy_pj * (shortest / access.access_bits),
                access.write_energy_pj * (shortest / access.access_bits),
                [len(bits_per_cycle) + port_for(name, ports, move) if ports else -1 for move in MOVES],
            )
        )
        bits_per_cycle += [one.bits_per_cycle for one in ports]
    home = [names.index(problem.home(operand)) for operand in OPERANDS]
    return Machine(levels, list(sizes.values()), bits_per_cycle or [1], home)


def chosen_of(layer: Layer, problem: LayerProblem, mappings: Sequence[LayerMapping]) -> Chosen:
    """Return mappings with exactly the layer's bounds and checked names; raises MappingError for other bounds."""
    names = [level.memory.name for level in problem.levels]
    along = list(array_of(problem.accelerator).sizes)
    loops = max((len(mapping.nest) for mapping in mappings), default=0)
    rows = empty_chosen(len(mappings), loops, len(names))
    for row, mapping in enumerate(mappings):
        if mapping.bounds != layer.bounds:
            raise MappingError("its loops are not the layer's", place=f"mapping {row}", expected=f"{layer.bounds}")
        temporal, spatial = 0, 0
        inside = [0]
        for loop in mapping.nest:
            if loop.along is None and loop.size > 1:
                rows.temporal_loop[row, temporal] = LOOPS.index(loop.dimension)
                rows.temporal_size[row, temporal] = loop.size
                temporal += 1
            elif loop.along is not None and loop.size > 1:
                rows.spatial_loop[row, spatial] = LOOPS.index(loop.dimension)
                rows.spatial_size[row, spatial] = loop.size
                rows.spatial_along[row, spatial] = along.index(loop.along)
                rows.spatial_at[row, spatial] = temporal
                spatial += 1
            inside.append(temporal)
        rows.temporal_count[row], rows.spatial_count[row] = temporal, spatial
        for index, operand in enumerate(Operand):
            for kept in mapping.kept(operand):
                rows.cut[row, index, names.index(kept.memory)] = inside[kept.loops]
    return rows


def empty_chosen(rows: int, loops: int, levels: int) -> Chosen:
    """Return empty rows for mappings of at most `loops` loops; no level keeps an operand."""

    def zeros() -> Integers:
        return np.zeros((rows, max(loops, 1)), np.int64)

    return Chosen(
        np.zeros(rows, np.int64), zeros(), zeros(),
        np.zeros(rows, np.int64), zeros(), zeros(), zeros(), zeros(),
        np.full((rows, 3, levels), -1, np.int64),
    )  # fmt: skip


SIDES: Final = ("P", "R", "Q", "S")
MOST_OUTPUTS: Final = 1 << 16  # per axis, since each position of a tile is examined
MOST_FILTERS: Final = 1 << 12
MOST_MACS: Final = 1 << 46  # with elements of at most 64 bits, no sum overflows 64 bits


def native_layer(layer: Layer, accelerator: Accelerator) -> native.LayerShape:
    """Return the layer for compiled code; raises InputError for a layer that is too large."""
    _check_size(layer)
    axes = [
        native.LayerAxis(
            outputs=layer.bounds[axis.output_loop],
            filters=layer.bounds[axis.filter_loop],
            stride=axis.stride,
            dilation=axis.dilation,
            padding=axis.padding,
            size=axis.size,
        )
        for axis in layer.axes
    ]
    return native.LayerShape(
        relevant=[[loop in RELEVANT[operand] for loop in LOOPS] for operand in OPERANDS],
        side_of=[SIDES.index(loop) if loop in SIDES else -1 for loop in LOOPS],
        is_channel=[loop in RELEVANT[INPUT] and loop not in SIDES for loop in LOOPS],
        bits=[layer.bits(operand) for operand in OPERANDS],
        elements=[layer.elements(operand) for operand in OPERANDS],
        partial_bits=layer.partial_bits,
        has_weight=layer.has_weight,
        mac_energy_pj=layer.macs * stated(array_of(accelerator).mac_energy_pj),
        axes=axes,
    )


def _check_size(layer: Layer) -> None:
    expected = None
    if layer.macs > MOST_MACS:
        expected = f"at most {MOST_MACS} multiply-accumulates"
    if max(layer.p, layer.q) >= MOST_OUTPUTS or max(layer.r, layer.s) >= MOST_FILTERS:
        expected = f"P, Q below {MOST_OUTPUTS}, R, S below {MOST_FILTERS}"
    if expected is not None:
        raise InputError("it is too large for the compiled cost model", place="layer", expected=expected)


def native_machine(problem: LayerProblem) -> native.LayerMachine:
    """Return the accelerator for compiled code; raises AcceleratorError if its description is incomplete."""
    levels, units, bits_per_cycle, home = machine_of(problem)
    native_levels = [native.MachineLevel(**level._asdict()) for level in levels]
    return native.LayerMachine(levels=native_levels, units=units, bits_per_cycle=bits_per_cycle, home=home)


class LayerCosts:
    """A compiled cost model for mappings of one layer, in any accounting.

    `executed` is the layer with its padded bounds, for the interpreter's accounting. The others take mappings of one
    bound, which may exceed the layer's. Raises AcceleratorError if the accelerator's description is incomplete,
    InputError for a layer that is too large.
    """

    def __init__(
        self, problem: LayerProblem, executed: Layer | None = None, accounting: Accounting = INTERPRETER
    ) -> None:
        self._problem = problem
        self._layer = problem.layer if executed is None else executed
        self._accounting = accounting
        layer, machine = native_layer(self._layer, problem.accelerator), native_machine(problem)
        self._costs: native.LayerCosts | native.ZigzagCosts
        if not accounting.counts_from_bounds:
            self._costs = native.LayerCosts(layer, machine)
        else:
            both = {Operand.INPUT, Operand.WEIGHT}
            self._costs = native.ZigzagCosts(
                layer=layer,
                bounds=list(problem.layer.bounds.values()),
                machine=machine,
                is_shared=[*(both <= set(level.memory.holds) for level in problem.levels), True],
                is_defines=accounting.is_defines,
                is_systolic=[name in accounting.systolic for name in array_of(problem.accelerator).sizes],
            )

    def encode(self, mappings: Sequence[LayerMapping]) -> Chosen:
        """Return the mappings as flat arrays, which a search may also fill itself.

        Raises MappingError if a mapping is illegal at any capacity, or if the mappings' bounds differ.
        """
        for mapping in mappings:
            check_memories(self._problem, mapping)
            check_array(self._problem.accelerator, mapping)
            if self._accounting.counts_from_bounds:
                check_parts(self._problem.layer, mapping)
        in_parts = mappings and self._accounting.counts_from_bounds
        executed = mappings[0].layer(self._problem.layer) if in_parts else self._layer
        return chosen_of(executed, self._problem, mappings)

    def of_chosen(self, chosen: Chosen) -> Costs:
        """Return costs by row: energy infinite and cycles -1 if a capacity or the array is exceeded (see `status`).

        The same holds for status INTERLEAVED: only `layer_cost` counts these.
        """
        return Costs(*self._costs.of(*chosen))

    def of(self, mappings: Sequence[LayerMapping]) -> Costs:
        """Return costs as `of_chosen` does, with INTERLEAVED mappings costed by `layer_cost`."""
        costs = self.of_chosen(self.encode(mappings))
        for row in np.flatnonzero(costs.status == CostStatus.INTERLEAVED).tolist():
            try:
                cost = layer_cost(self._problem, mappings[row])
            except MappingError:
                costs.status[row] = CostStatus.OVER_CAPACITY
            else:
                costs.energy_pj[row], costs.cycles[row] = cost.energy_pj, round(cost.cycles)
                costs.status[row] = CostStatus.COSTED
        return costs


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of a set of factors; equal factors form a kind. `inner` is a loop's product inside each tile."""

    kinds: tuple[Loop, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    inner: dict[str, Integers]

    @property
    def number(self) -> int:
        """Return the number of tiles; the last has all factors inside."""
        return prod(count + 1 for count in self.counts)

    @property
    def iterations(self) -> Integers:
        """Return for each tile the product of its loops."""
        found: Integers = np.prod([self.inner[loop] for loop in LOOPS], axis=0, dtype=np.int64)
        return found

    @property
    def sums_are_left(self) -> Flags:
        """Return True for tiles whose outputs loops outside add to."""
        return self.is_left([loop for loop in LOOPS if loop not in RELEVANT[OUTPUT]])

    def is_left(self, loops: Sequence[str]) -> Flags:
        """Return True for tiles outside which any of these loops continues."""
        return np.asarray(np.any([self.inner[loop] < self.inner[loop][-1] for loop in loops], axis=0))


def tiles_of(factors: Sequence[Loop]) -> Tiles:
    """Return all tiles that subsets of these temporal loops form, in any order."""
    counted = Counter(factors)
    steps: list[int] = []
    digits: list[Integers] = []
    number = prod(count + 1 for count in counted.values())
    for count in counted.values():
        steps.append(prod(one + 1 for one in list(counted.values())[: len(steps)]))
        digits.append(np.arange(number) // steps[-1] % (count + 1))
    inner = {loop: np.ones(number, np.int64) for loop in LOOPS}
    for kind, digit in zip(counted, digits, strict=True):
        inner[kind.dimension] *= kind.size**digit
    return Tiles(tuple(counted), tuple(counted.values()), tuple(steps), inner)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The spatial unrolling within one instance of each holder, by loop, and the number of instances."""

    within: tuple[dict[str, float], ...]
    apart: tuple[float, ...]


def sides_of(
    array: ComputeArray, levels: Iterable[MemoryLevel], beside: Sequence[Loop], parts: Mapping[str, tuple[int, int]]
) -> SideBySide:
    """Return the spatial sizes; `parts` has requested and executed bounds of padded loops; the longest is shortened."""
    sizes = {(one.dimension, one.along): float(one.size) for one in beside}
    for loop, (asked, executed) in parts.items():
        own = [key for key in sizes if key[0] == loop]
        if own:
            longest = max(own, key=lambda key: sizes[key])
            sizes[longest] = sizes[longest] * asked / executed
    names = set(array.sizes)
    served = [set[str](), *(names if one.serves is None else set(one.serves) for one in levels), names]
    within = tuple(
        {loop: prod(size for (own, along), size in sizes.items() if own == loop and along in serves) for loop in LOOPS}
        for serves in served
    )
    apart = tuple(prod(size for (_, along), size in sizes.items() if along not in serves) for serves in served)
    return SideBySide(within, apart)


@dataclass(frozen=True, slots=True)
class TileElements:
    """The element counts of tiles from bounds alone, in an `accounting`; `layer` has the bounds that count.

    With `has_stored_room` tiles of the input take capacity from their first row to their last, as `verify_mapping`
    requires. This includes rows that a stride skips, even if the accounting omits them.
    """

    layer: Layer
    tiles: Tiles
    accounting: Accounting
    has_stored_room: bool = False

    def elements(self, within: dict[str, float], operand: str) -> Reals:
        """Return the elements of each tile of an operand; fractional units are not rounded."""
        sizes: dict[str, Reals] = {loop: self.tiles.inner[loop] * np.float64(within[loop]) for loop in LOOPS}
        return self._of(sizes, operand)

    def room(self, within: dict[str, float], operand: str) -> Reals:
        """Return the elements for which each tile takes capacity."""
        if not self.accounting.is_defines and not self.has_stored_room:
            return self.elements(within, operand)
        sizes: dict[str, Reals] = {loop: np.ceil(within[loop] * self.tiles.inner[loop] - EPSILON) for loop in LOOPS}
        return self._of(sizes, operand, is_stored=self.has_stored_room)

    def _of(self, sizes: Mapping[str, Reals], operand: str, *, is_stored: bool = False) -> Reals:
        axes = self.layer.axes if operand == INPUT else ()
        on_axes = {loop for axis in axes for loop in (axis.output_loop, axis.filter_loop)}
        found = np.ones(self.tiles.number)
        for loop in RELEVANT[operand]:
            if loop not in on_axes:
                found = found * sizes[loop]
        for axis in axes:
            positions = self._block(axis, sizes) if is_stored else self._positions(axis, sizes)
            found = found * np.minimum(positions, axis.size)
        return found

    @staticmethod
    def _block(axis: Axis, sizes: Mapping[str, Reals]) -> Reals:
        """Return the positions from the first to the last."""
        outputs, filters = sizes[axis.output_loop], sizes[axis.filter_loop]
        return (outputs - 1) * axis.stride + (filters - 1) * axis.dilation + 1

    def _positions(self, axis: Axis, sizes: Mapping[str, Reals]) -> Reals:
        outputs, filters = sizes[axis.output_loop], sizes[axis.filter_loop]
        if self.accounting.is_defines and (self.layer.r, self.layer.s) == (1, 1):
            return outputs * filters
        if not self.accounting.is_defines:
            outputs, filters = np.floor(outputs + EPSILON), np.floor(filters + EPSILON)
        positions = (outputs - 1) * axis.stride + (filters - 1) * axis.dilation + 1
        if self.accounting.counts_from_bounds:
            common = np.gcd(axis.stride, axis.dilation)
            stride, dilation = axis.stride // common, axis.dilation // common
            positions = outputs * filters - np.maximum(0, filters - stride) * np.maximum(0, outputs - dilation)
        found: Reals = np.floor(positions + EPSILON)
        return found
