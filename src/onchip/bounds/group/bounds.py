"""Cheap lower bounds on the cost of a stack in given tiles, with which the search prunes choices.

A bound counts the MACs with recomputation, their least reads and writes, and the compulsory DRAM traffic of the stack.
Stacks that end with the same layer share most of the calculation, because a layer computes the same pixels in all of
them if the tiles are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import floor
from operator import mul
from typing import Final

import numpy as np

from onchip.answer.options.fusion_objective import Criteria, FusionObjective
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.bounds.group.layer_grids import LayerGrids, Taken
from onchip.bounds.group.network_floor import AloneBound, NetworkFloor, alone_bound
from onchip.bounds.group.stack_grids import GridSums, Places, Sizes, StackGrids, TileGrid
from onchip.bounds.group.tile_axes import Floats
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import Sharing
from onchip.ops.fusable import AxisName, FusableNetwork, back_calculation
from onchip.transform.groups.stacks import FEW_TILINGS, LayerSpan, StackChoice, TileBox, first_starts, stack_of

ROUNDING: Final = 1e-9
"""Relative tolerance: float sums differ from those of the cost model, which adds in another order."""


@dataclass(slots=True)
class StackBounds:
    """Lower bounds on stack choices of one network on one machine, for mappings whose `sharing` is known.

    Intermediate results that choices share are calculated once. The bound on a box of tilings holds for each of its
    tilings. It is the floor of the layers if the box is large, or if some tile sees only padding.
    """

    network: FusableNetwork
    accelerator: Accelerator
    objective: FusionObjective
    sharing: Sharing
    _machine: MachineFloors = field(init=False)
    _floors: NetworkFloor = field(init=False)
    _grids: StackGrids = field(init=False)
    _longest: dict[int, LayerSpan] = field(init=False)
    """Map from the end of a stack to the longest stack that ends there."""
    _grids_of: dict[tuple[LayerSpan, OverlapMode, Sizes, Sizes], TileGrid] = field(default_factory=dict)
    _boxes: dict[tuple[LayerSpan, OverlapMode], list[TileGrid]] = field(default_factory=dict)
    """The grids of several sizes."""
    _inputs: dict[LayerSpan, tuple[str, ...]] = field(default_factory=dict)
    _sums: dict[tuple[TileGrid, int, tuple[str, ...], Taken], GridSums] = field(default_factory=dict)
    _known_from: dict[tuple[int, str], int] = field(default_factory=dict)
    """Map from (end of a stack, home of its output) to the start of the longest stack with known sums."""
    _ends: dict[tuple[int, int, str, tuple[Tiling | TileBox, ...]], AloneBound | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._machine = MachineFloors(self.accelerator, self.sharing)
        layers = LayerGrids(self._machine)
        self._floors = NetworkFloor(self.network, layers)
        self._grids = StackGrids(self.network, layers)
        starts = first_starts(self.network)
        self._longest = {last + 1: LayerSpan(start, last + 1) for last, start in enumerate(starts)}

    def bound(self, choice: StackChoice) -> Criteria:
        """Return the lower bound on a choice, rounded down.

        Raises InputError if a tile sees only padding.
        """
        least = self.floor(choice.span)
        if self.network.layers[choice.span.start].runs_alone:
            return tuple(map(max, least, self._bound_alone(choice)))
        sums = self._sums_of(choice)
        if sums is None:
            if choice.box is None:
                self._refuse(choice)
            return least
        each = (sums.energy_pj, sums.cycles, sums.dram_bits)
        return tuple(map(max, least, self.rounded_down(*(float(one.min()) for one in each))))

    def least(self, choices: Sequence[StackChoice]) -> Criteria:
        """Return a lower bound on each of several choices that differ only in their tiles.

        It adds the bound on the longest known stack with the same end and tiles to the floors of the layers before it.
        """
        span = choices[0].span
        least, end = self.floor(span), self._longest_end(choices)
        if end is None:
            return least
        start, inside = end
        found = self._floors.of(LayerSpan(span.start, start)).plus(inside)
        return tuple(map(max, least, self.rounded_down(found.energy_pj, found.cycles, found.dram_bits)))

    def floor(self, span: LayerSpan) -> Criteria:
        """Return a lower bound on the cost of the layers of a span in any stacks and tiles, rounded down."""
        least = self._floors.of(span)
        return self.rounded_down(least.energy_pj, least.cycles, least.dram_bits)

    def in_order(self, choice: StackChoice) -> Iterator[Tiling] | None:
        """Return the tilings of a box by ascending bound, or None if their bounds are unknown."""
        sums = None if self.network.layers[choice.span.start].runs_alone else self._sums_of(choice)
        if sums is None or choice.box is None:
            return None
        least = self._floors.of(choice.span)
        criteria = self.objective.of_arrays(
            np.maximum(sums.energy_pj, least.energy_pj),
            np.maximum(sums.cycles, least.cycles),
            np.maximum(sums.dram_bits, least.dram_bits),
        )
        return _in_order(choice.box, reduce(mul, criteria))

    def rounded_down(self, energy_pj: float, cycles: float, dram_bits: float) -> Criteria:
        """Return the criteria of a bound, reduced by the tolerance for the order of float sums."""
        criteria = self.objective.criteria(energy_pj, cycles, dram_bits)
        return tuple(max(floor(part * (1 - ROUNDING)) - 1, 0) for part in criteria)

    def _bound_alone(self, choice: StackChoice) -> Criteria:
        layer, homes = self.network.layers[choice.span.start], dict(choice.homes)
        found = alone_bound(layer, self.network.maps, homes, choice.output_home, self._machine)
        return self.rounded_down(found.energy_pj, found.cycles, found.dram_bits)

    def _refuse(self, choice: StackChoice) -> None:
        """Raise the InputError of a tiling in which some tile sees only padding."""
        stack, tiling = stack_of(self.network, choice.span), choice.tiling
        back_calculation(stack, AxisName.ROWS, tiling.rows, cached=tiling.mode.caches_rows)
        back_calculation(stack, AxisName.COLUMNS, tiling.columns, cached=tiling.mode.caches_columns)

    def _sums_of(self, choice: StackChoice) -> GridSums | None:
        """Return lower bounds on the tilings of a choice, by rows and columns, or None if they are unknown.

        They are unknown if the box is large, or if some tile sees only padding.
        """
        if choice.box is not None and choice.box.count > FEW_TILINGS:
            return None
        tiles, span = choice.tiles, choice.span
        longest = span if span.length == 1 else self._longest[span.stop]
        found = self._grid_with(longest, span.start, tiles.mode, *_sizes(tiles))
        return None if found is None else self._sums_in(choice, *found)

    def _longest_end(self, choices: Sequence[StackChoice]) -> tuple[int, AloneBound] | None:
        """Return the start of the longest known stack with the end of these choices, and a bound on it in their tiles.

        The bound excludes its loads, because layers before it may compute its inputs. The choices differ only in their
        tiles. Returns None if no known stack lies within theirs, or if the bound on some tiles is unknown.
        """
        span, output_home = choices[0].span, choices[0].output_home
        start = self._known_from.get((span.stop, output_home))
        if start is None or span.length == 1:
            return None
        start = max(start, span.start)
        key = span.stop, start, output_home, tuple(choice.tiles for choice in choices)
        if key not in self._ends:
            every = [self._inside(choice, start) for choice in choices]
            found = [one for one in every if one is not None]
            self._ends[key] = reduce(_least_of, found) if len(found) == len(every) else None
        own = self._ends[key]
        return None if own is None else (start, own)

    def _inside(self, choice: StackChoice, start: int) -> AloneBound | None:
        if choice.box is not None and choice.box.count > FEW_TILINGS:
            return None
        found = self._grid_with(self._longest[choice.span.stop], start, choice.tiles.mode, *_sizes(choice.tiles))
        if found is None:
            return None
        grid, places = found
        sums = self._grids.sums_inside(grid, start, choice.output_home).at(places)
        return AloneBound(float(sums.energy_pj.min()), float(sums.cycles.min()), int(sums.dram_bits.min()))

    def _sums_in(self, choice: StackChoice, grid: TileGrid, places: Places) -> GridSums:
        homes, start = dict(choice.homes), choice.span.start
        if choice.span not in self._inputs:
            self._inputs[choice.span] = tuple(one.name for one in stack_of(self.network, choice.span).inputs)
        own = tuple(homes.get(name, DRAM) for name in self._inputs[choice.span])
        taken = self._taken(choice)
        key = grid, start, (*own, choice.output_home), taken
        if key not in self._sums:
            if choice.box is not None:  # the end of a choice of few tilings need not be known to other choices
                end = choice.span.stop, choice.output_home
                self._known_from[end] = min(start, self._known_from.get(end, start))
            self._sums[key] = self._grids.sums(grid, start, homes, choice.output_home, taken)
        return self._sums[key].at(places)

    def _taken(self, choice: StackChoice) -> Taken:
        """Return the bits of each memory that whole maps occupy while the stack runs."""
        taken: dict[str, int] = {}
        output = self.network.layers[choice.span.stop - 1].output
        for name, memory in (*choice.homes, (output.name, choice.output_home)):
            if memory != DRAM:
                taken[memory] = taken.get(memory, 0) + self.network.maps[name].size_bits
        return tuple(sorted(taken.items()))

    def _grid_with(
        self, longest: LayerSpan, start: int, mode: OverlapMode, columns: Sizes, rows: Sizes
    ) -> tuple[TileGrid, Places] | None:
        """Return a grid that contains these sizes, and their indices in it.

        A new grid of several sizes also contains the whole axes. Returns None if some tile sees only padding in the
        layers from `start` on.
        """
        boxes = self._boxes.setdefault((longest, mode), [])
        for grid in boxes:
            places = grid.places_of(columns, rows)
            if places is not None and self._grids.sees_all(grid, start):
                return grid, places
        output, is_single = self.network.layers[longest.stop - 1].output, len(columns) * len(rows) == 1
        across, down = (
            sizes if is_single else tuple(sorted({*sizes, whole}))
            for sizes, whole in ((columns, output.columns), (rows, output.rows))
        )
        key = longest, mode, across, down
        if key not in self._grids_of:
            self._grids_of[key] = TileGrid(*key)
            if not is_single:
                boxes.append(self._grids_of[key])
        grid = self._grids_of[key]
        places = grid.places_of(columns, rows)
        return (grid, places) if places is not None and self._grids.sees_all(grid, start) else None


def _sizes(tiles: Tiling | TileBox) -> tuple[Sizes, Sizes]:
    """Return the sizes of columns and rows."""
    return (tiles.columns, tiles.rows) if isinstance(tiles, TileBox) else ((tiles.columns,), (tiles.rows,))


def _least_of(one: AloneBound, other: AloneBound) -> AloneBound:
    return AloneBound(
        min(one.energy_pj, other.energy_pj), min(one.cycles, other.cycles), min(one.dram_bits, other.dram_bits)
    )


def _in_order(box: TileBox, values: Floats) -> Iterator[Tiling]:
    """Yield the tilings of a box by ascending value; `values` has the shape (rows, columns)."""
    width = len(box.columns)
    for place in np.argsort(values, axis=None, kind="stable").tolist():
        yield Tiling(box.columns[place % width], box.rows[place // width], box.mode)
