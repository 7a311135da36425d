"""Costs of many mappings of a layer, about a million per second; equal to those of `layer.layer_cost`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onchip import native
from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.ir.layer import Layer
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import check_array, check_memories
from onchip.model.layer.native_layer import native_layer, native_machine
from onchip.model.layer.tables import Chosen, Costs, CostStatus, chosen_of


class LayerCosts:
    """A compiled cost model for mappings of one layer; `executed` is the layer with its padded bounds.

    Raises AcceleratorError if the accelerator's description is incomplete, InputError for a layer that is too large.
    """

    def __init__(self, problem: LayerProblem, executed: Layer | None = None) -> None:
        self._problem = problem
        self._layer = problem.layer if executed is None else executed
        self._costs = native.LayerCosts(native_layer(self._layer, problem.accelerator), native_machine(problem))

    def encode(self, mappings: Sequence[LayerMapping]) -> Chosen:
        """Return the mappings as flat arrays, which a search may also fill itself.

        Raises MappingError if a mapping is illegal at any capacity.
        """
        for mapping in mappings:
            check_memories(self._problem, mapping)
            check_array(self._problem.accelerator, mapping)
        return chosen_of(self._layer, self._problem, mappings)

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
