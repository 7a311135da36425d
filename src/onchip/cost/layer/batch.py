"""The cost of many mappings of one layer, about a million in a second; the same figures as `layer.layer_cost`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.cost.layer import kernel
from onchip.cost.layer.cost import layer_cost
from onchip.cost.layer.limits import check_array, check_memories
from onchip.cost.layer.tables import Chosen, Costs, Integers, Table, chosen_of, machine_of, shape_of, workspace_of
from onchip.cost.layer.tiles import block_sizes
from onchip.ir.layer import Layer

FIRST_SLOTS: Final = 1 << 12


class LayerCosts:
    """Costs mappings of one layer; `executed` is that layer with its bounds as they are executed, if they are padded.

    Raises AcceleratorError where the accelerator says too little, InputError for loops of more than 65,535.
    """

    def __init__(self, problem: LayerProblem, executed: Layer | None = None) -> None:
        self._problem = problem
        self._layer = problem.layer if executed is None else executed
        self._shape = shape_of(self._layer, problem.accelerator)
        self._machine = machine_of(problem)
        self._table = BlockTable(self._layer)

    def encode(self, mappings: Sequence[LayerMapping]) -> Chosen:
        """In flat arrays, which a search may also fill itself; raises MappingError for what no capacity could mend."""
        for mapping in mappings:
            check_memories(self._problem, mapping)
            check_array(self._problem.accelerator, mapping)
        return chosen_of(self._layer, self._problem, mappings)

    def of_chosen(self, chosen: Chosen) -> Costs:
        """Energy infinite and cycles -1 for mappings that exceed a capacity or the array (`status` says which).

        So too where status is INTERLEAVED: tiles of the input are scattered rows, which only `layer_cost` counts.
        """
        rows = chosen.temporal_count.size
        costs = Costs(np.empty(rows), np.empty(rows, np.int64), np.empty(rows, np.int64))
        workspace = workspace_of(self._machine, chosen.temporal_loop.shape[1])
        row = 0
        while row < rows:
            row = kernel.cost_from(row, self._shape, self._machine, chosen, self._table.arrays, workspace, costs)
            if row < rows:
                self._table.add(workspace.unknown)
        return costs

    def of(self, mappings: Sequence[LayerMapping]) -> Costs:
        """Return costs as `of_chosen` does, those of INTERLEAVED mappings by `layer_cost`."""
        costs = self.of_chosen(self.encode(mappings))
        for row in np.flatnonzero(costs.status == kernel.INTERLEAVED).tolist():
            try:
                cost = layer_cost(self._problem, mappings[row])
            except MappingError:
                costs.status[row] = kernel.OVER_CAPACITY
            else:
                costs.energy_pj[row], costs.cycles[row] = cost.energy_pj, round(cost.cycles)
                costs.status[row] = kernel.COSTED
        return costs


class BlockTable:
    """Sizes of blocks of the input along each axis, worked out when first asked for."""

    def __init__(self, layer: Layer, first_slots: int = FIRST_SLOTS) -> None:
        self._layer = layer
        self._used = 0
        self._pairs = 0
        self.arrays = Table(np.full(first_slots, -1, np.int64), *(np.zeros(first_slots, np.int64) for _ in range(4)))

    def add(self, unknown: Integers) -> None:
        """The entry that a workspace says is unknown: axis, loops within and beside, key, free slot."""
        which, outputs, more_outputs, filters, more_filters, key, slot = (int(value) for value in unknown)
        axis = self._layer.axes[which]
        bounds = self._layer.bounds[axis.output_loop], self._layer.bounds[axis.filter_loop]
        rest = bounds[0] // (outputs * more_outputs), bounds[1] // (filters * more_filters)
        output_step, filter_step = axis.stride * outputs, axis.dilation * filters
        found = block_sizes(
            axis.padding,
            axis.size,
            ((outputs, axis.stride), (filters, axis.dilation)),
            ((more_outputs, output_step), (more_filters, filter_step)),
            ((rest[0], output_step * more_outputs), (rest[1], filter_step * more_filters)),
        )
        stop = self._pairs + len(found)
        while stop > self.arrays.size.size:
            room = np.zeros_like(self.arrays.size)
            size, times = (np.concatenate([old, room]) for old in (self.arrays.size, self.arrays.times))
            self.arrays = self.arrays._replace(size=size, times=times)
        self.arrays.size[self._pairs : stop], self.arrays.times[self._pairs : stop] = np.array(found).T
        self.arrays.key[slot], self.arrays.start[slot], self.arrays.stop[slot] = key, self._pairs, stop
        self._pairs, self._used = stop, self._used + 1
        if 2 * self._used > self.arrays.key.size:
            self._rehash()

    def _rehash(self) -> None:
        old, slots = self.arrays, 2 * self.arrays.key.size
        fresh = Table(
            np.full(slots, -1, np.int64), np.zeros(slots, np.int64), np.zeros(slots, np.int64), old.size, old.times
        )
        for key, start, stop in zip(old.key, old.start, old.stop, strict=True):
            if key >= 0:
                slot = kernel.free_slot(fresh, key)
                fresh.key[slot], fresh.start[slot], fresh.stop[slot] = key, start, stop
        self.arrays = fresh
