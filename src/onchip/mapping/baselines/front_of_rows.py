"""Of mappings in arrays those of which none is at most as much as another in energy and in cycles."""

from __future__ import annotations

import numpy as np

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.mapping.baselines.best import costs_of_rows, mapping_of
from onchip.model.layer.batch import LayerCosts
from onchip.model.layer.limits import check_memories
from onchip.model.layer.tables import Chosen
from onchip.model.unrolling.unrolling import Unrolled


class FrontOfRows:
    """Costs rows of mappings of one layer and keeps their front; of rows that are alike the first."""

    def __init__(self, problem: LayerProblem, unrolled: Unrolled) -> None:
        self._problem = problem
        self._costs = LayerCosts(problem, problem.layer.padded_to(unrolled.bounds))
        self._kept: list[tuple[float, float, LayerMapping]] = []

    @property
    def mappings(self) -> tuple[LayerMapping, ...]:
        """Return the mappings of the front in ascending order of energy, and so in descending order of cycles."""
        return tuple(mapping for _, _, mapping in self._kept)

    def offer(self, chosen: Chosen) -> None:
        """The rows that are on the front are kept, and what they dominate is forgotten."""
        costs = costs_of_rows(self._costs, chosen, self._problem)
        fit = np.flatnonzero(np.isfinite(costs.energy_pj))
        order = fit[np.lexsort((costs.cycles[fit], costs.energy_pj[fit]))]
        cycles = costs.cycles[order]
        is_less = np.ones(len(order), dtype=bool)
        is_less[1:] = cycles[1:] < np.minimum.accumulate(cycles)[:-1]
        for row in order[is_less].tolist():
            self._add(float(costs.energy_pj[row]), float(costs.cycles[row]), chosen, row)

    def _add(self, energy_pj: float, cycles: float, chosen: Chosen, row: int) -> None:
        if any(energy <= energy_pj and taken <= cycles for energy, taken, _ in self._kept):
            return
        mapping = mapping_of(chosen, row, self._problem)
        check_memories(self._problem, mapping)
        left = [one for one in self._kept if one[0] < energy_pj or one[1] < cycles]
        self._kept = sorted([*left, (energy_pj, cycles, mapping)], key=lambda one: one[:2])
