"""Which grid of tilings a choice of the search is in, and what of it is the choice's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import mul

import numpy as np

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.memory import DRAM
from onchip.bounds.group.alone_bounds import AloneBound
from onchip.bounds.group.axis_grids import Floats
from onchip.bounds.group.stack_grids import GridSums, Places, StackGrids, TileGrid
from onchip.bounds.layer.unit_shares import Sharing
from onchip.ops.derive.fusable import FusableNetwork
from onchip.transform.groups.stack_choice import FEW_TILINGS, StackChoice
from onchip.transform.groups.stacks import LayerSpan, stack_of
from onchip.transform.groups.tilings import TileBox


@dataclass(slots=True)
class ChoiceGrids:
    """Bounds of choices by the grids in which their tilings are; `longest` is by where a stack ends."""

    network: FusableNetwork
    objective: FusionObjective
    grids: StackGrids
    longest: Mapping[int, LayerSpan]
    sharing: Sharing
    _grids_of: dict[tuple[LayerSpan, OverlapMode], list[TileGrid]] = field(default_factory=dict)
    _inputs: dict[LayerSpan, tuple[str, ...]] = field(default_factory=dict)
    _sums: dict[tuple[TileGrid, int, tuple[str, ...]], GridSums] = field(default_factory=dict)
    _known_from: dict[tuple[int, str], int] = field(default_factory=dict)
    """By where a stack ends, and where its output lies: where the longest one begins of which sums are known."""
    _ends: dict[tuple[int, int, str, tuple[Tiling | TileBox, ...]], AloneBound | None] = field(default_factory=dict)

    def sums(self, choice: StackChoice) -> GridSums | None:
        """Return by rows and columns what the tilings of a choice cost at least; None where nothing is known.

        So it is where memories are left out, units count in parts, a box is large, or some tile sees only padding.
        """
        keeps = self.sharing.every_memory_keeps and not self.sharing.is_of_every_shape
        tiles, span = choice.tiles, choice.span
        runs_alone = self.network.layers[span.start].runs_alone
        if not keeps or runs_alone or (choice.box is not None and choice.box.count > FEW_TILINGS):
            return None
        longest = span if span.length == 1 else self.longest[span.stop]
        found = self._grid_with(longest, span.start, tiles.mode, *_sizes(tiles))
        return None if found is None else self._sums_in(choice, *found)

    def longest_end(self, choices: Sequence[StackChoice]) -> tuple[int, AloneBound] | None:
        """Return where the longest stack begins that ends as these do and is known, and its least cost in their tiles.

        Of what it loads nothing is counted, as layers before it may make that. The choices differ in their tiles alone.
        None without such a stack within theirs, or where nothing is known of some tiles.
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
        found = self._grid_with(self.longest[choice.span.stop], start, choice.tiles.mode, *_sizes(choice.tiles))
        if found is None:
            return None
        grid, places = found
        sums = self.grids.sums_inside(grid, start, choice.output_home).at(places)
        return AloneBound(float(sums.energy_pj.min()), float(sums.cycles.min()), int(sums.dram_bits.min()))

    def in_order(self, choice: StackChoice, floor: AloneBound) -> Iterator[Tiling] | None:
        """Yield the tilings of a box, the one of least bound first, none below the floor; None without such bounds."""
        sums = self.sums(choice)
        if sums is None or choice.box is None:
            return None
        criteria = self.objective.of_arrays(
            np.maximum(sums.energy_pj, floor.energy_pj),
            np.maximum(sums.cycles, floor.cycles),
            np.maximum(sums.dram_bits, floor.dram_bits),
        )
        return _in_order(choice.box, reduce(mul, criteria))

    def _sums_in(self, choice: StackChoice, grid: TileGrid, places: Places) -> GridSums:
        homes, start = dict(choice.homes), choice.span.start
        if choice.span not in self._inputs:
            self._inputs[choice.span] = tuple(one.name for one in stack_of(self.network, choice.span).inputs)
        own = tuple(homes.get(name, DRAM) for name in self._inputs[choice.span])
        key = grid, start, (*own, choice.output_home)
        if key not in self._sums:
            if choice.box is not None:  # of a few tilings alone others need not be known
                end = choice.span.stop, choice.output_home
                self._known_from[end] = min(start, self._known_from.get(end, start))
            self._sums[key] = self.grids.sums(grid, start, homes, choice.output_home)
        return self._sums[key].at(places)

    def _grid_with(
        self, longest: LayerSpan, start: int, mode: OverlapMode, columns: tuple[int, ...], rows: tuple[int, ...]
    ) -> tuple[TileGrid, Places] | None:
        """Return a grid that has these sizes, and where; a new one has the whole axes, too, if it is of several.

        None where some tile sees nothing but padding in the layers from `start` on.
        """
        known = self._grids_of.setdefault((longest, mode), [])
        for grid in known:
            places = grid.places_of(columns, rows)
            if places is not None and self.grids.sees_all(grid, start):
                return grid, places
        output, few = self.network.layers[longest.stop - 1].output, len(columns) * len(rows) == 1
        across, down = (
            sizes if few else tuple(sorted({*sizes, whole}))
            for sizes, whole in ((columns, output.columns), (rows, output.rows))
        )
        if any((grid.columns, grid.rows) == (across, down) for grid in known):
            return None
        grid = TileGrid(longest, mode, across, down)
        known.append(grid)
        places = grid.places_of(columns, rows)
        return (grid, places) if places is not None and self.grids.sees_all(grid, start) else None


def _sizes(tiles: Tiling | TileBox) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Columns and rows."""
    return (tiles.columns, tiles.rows) if isinstance(tiles, TileBox) else ((tiles.columns,), (tiles.rows,))


def _least_of(one: AloneBound, other: AloneBound) -> AloneBound:
    return AloneBound(
        min(one.energy_pj, other.energy_pj), min(one.cycles, other.cycles), min(one.dram_bits, other.dram_bits)
    )


def _in_order(box: TileBox, values: Floats) -> Iterator[Tiling]:
    """By values of rows and columns."""
    width = len(box.columns)
    for place in np.argsort(values, axis=None, kind="stable").tolist():
        yield Tiling(box.columns[place % width], box.rows[place // width], box.mode)
