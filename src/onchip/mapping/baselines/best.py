"""The best of mappings given as rows of arrays."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeAlias, cast

import numpy as np

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS
from onchip.model.accounting.accounting import Accounting
from onchip.model.layer.limits import array_of, check_memories
from onchip.model.layer.tables import Chosen, Costs, CostStatus, LayerCosts
from onchip.model.unrolling.unrolling import Unrolled
from onchip.search.budget.limits import Run

RankOfRow: TypeAlias = Callable[[Chosen, int], float]
"""Tie-breaker among rows of equal value: the row with the lowest rank wins."""


def unproven(
    value: float, mapping: LayerMapping | None, method: str, run: Run, stop: Stop, lower_bound: int = 0
) -> SearchResult[LayerMapping]:
    """Return a mapping as FEASIBLE with the given bound, or UNKNOWN without a mapping."""
    if mapping is None:
        return SearchResult(Status.UNKNOWN, None, None, lower_bound, run.seconds, method, stop)
    return SearchResult(Status.FEASIBLE, mapping, round(value), lower_bound, run.seconds, method, stop)


class BestRow:
    """The best of mappings given as array rows, under any accounting with compiled costs."""

    def __init__(
        self,
        problem: LayerProblem,
        objective: MappingObjective,
        accounting: Accounting,
        unrolled: Unrolled,
        rank: RankOfRow | None = None,
    ) -> None:
        self._problem = problem
        self._rank = rank
        self._objective = objective
        executed = None if accounting.counts_from_bounds else problem.layer.padded_to(unrolled.bounds)
        self._costs = LayerCosts(problem, executed, accounting)
        self.value = self._rounded = self._rank_of_best = inf
        self.mapping: LayerMapping | None = None

    def offer(self, chosen: Chosen) -> None:
        """Keep the best row if it improves on all before; break ties by rank, or by energy times cycles."""
        kept: int | None = None
        costs = costs_of_rows(self._costs, chosen, self._problem)
        fit = np.flatnonzero(np.isfinite(costs.energy_pj))
        # An objective multiplies its arguments, so it also takes arrays.
        energies, delays = cast("float", costs.energy_pj[fit]), cast("float", costs.cycles[fit])
        values = np.asarray(self._objective.of(energies, delays), np.float64)
        least = min(self._rounded, np.rint(values).min(initial=inf))
        for at in np.flatnonzero(np.rint(values) <= least).tolist():
            row, value = int(fit[at]), float(values[at])
            energy, cycles, rounded = float(costs.energy_pj[row]), float(costs.cycles[row]), round(value)
            rank = energy * cycles if self._rank is None else self._rank(chosen, row)
            if (rounded, rank) < (self._rounded, self._rank_of_best):
                self._rounded, self._rank_of_best = rounded, rank
                self.value, kept = value, row
        if kept is not None:
            self.mapping = mapping_of(chosen, kept, self._problem)
            check_memories(self._problem, self.mapping)

    def result(self, method: str, run: Run, stop: Stop, lower_bound: int = 0) -> SearchResult[LayerMapping]:
        """Return the best mapping as FEASIBLE with the given bound, or UNKNOWN without a mapping."""
        return unproven(self.value, self.mapping, method, run, stop, lower_bound)

    def proven(self, method: str, run: Run) -> SearchResult[LayerMapping]:
        """Return the best mapping as OPTIMAL, or INFEASIBLE without a mapping."""
        if self.mapping is None:
            return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, method, Stop.COMPLETED)
        value = round(self.value)
        return SearchResult(Status.OPTIMAL, self.mapping, value, value, run.seconds, method, Stop.COMPLETED)


def costs_of_rows(costs_of: LayerCosts, chosen: Chosen, problem: LayerProblem) -> Costs:
    """Return the costs of rows, including INTERLEAVED ones; energy is infinite for mappings that do not fit."""
    costs = costs_of.of_chosen(chosen)
    for row in np.flatnonzero(costs.status == CostStatus.INTERLEAVED).tolist():
        one = costs_of.of([mapping_of(chosen, row, problem)])
        costs.energy_pj[row], costs.cycles[row] = one.energy_pj[0], one.cycles[0]
    return costs


def mapping_of(chosen: Chosen, row: int, problem: LayerProblem) -> LayerMapping:
    """Return one row of the arrays as a mapping."""
    along = list(array_of(problem.accelerator).sizes)
    nest: list[Loop] = []
    places = [0]
    for at in range(chosen.temporal_count[row] + 1):
        for one in range(chosen.spatial_count[row]):
            if chosen.spatial_at[row, one] == at:
                loop = LOOPS[chosen.spatial_loop[row, one]]
                nest.append(Loop(loop, int(chosen.spatial_size[row, one]), along[chosen.spatial_along[row, one]]))
        if at < chosen.temporal_count[row]:
            nest.append(Loop(LOOPS[chosen.temporal_loop[row, at]], int(chosen.temporal_size[row, at])))
            places.append(len(nest))
    kept = (
        tuple(
            Kept(level.memory.name, places[cut])
            for level, cut in zip(problem.levels, chosen.cut[row, number], strict=True)
            if cut >= 0
        )
        for number in range(len(Operand))
    )
    return LayerMapping(tuple(nest), *kept)
