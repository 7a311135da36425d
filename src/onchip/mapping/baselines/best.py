"""The best mapping that a rival has seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf, isfinite
from typing import Final, TypeAlias

import numpy as np

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Result, Status, Stop
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS
from onchip.model.accounting.accounting import Accounting
from onchip.model.accounting.zigzag_batch import RealCosts, ZigzagCosts
from onchip.model.layer.batch import LayerCosts
from onchip.model.layer.limits import array_of, check_memories
from onchip.model.layer.tables import Chosen, Costs, CostStatus
from onchip.model.unrolling.unrolling import Unrolled
from onchip.search.budget.limits import Run

RankOfRow: TypeAlias = Callable[[Chosen, int], float]
"""Of rows that are equally good the one of the least is the best."""

CHUNK: Final = 256
MOST_WITHOUT_ANY: Final = 100_000
"""Where none of so many mappings drawn at random fits, none is looked for any further."""


class Best:
    """Costs mappings of one layer and keeps the best."""

    def __init__(self, problem: LayerProblem, objective: MappingObjective) -> None:
        self._costs = LayerCosts(problem)
        self._objective = objective
        self.value = inf
        self.mapping: LayerMapping | None = None

    def values(self, mappings: Sequence[LayerMapping]) -> Iterator[tuple[float, LayerMapping]]:
        """In the objective's unit, infinite for those that do not fit."""
        costs = self._costs.of(mappings)
        for mapping, energy, cycles in zip(mappings, costs.energy_pj, costs.cycles, strict=True):
            yield self._objective.of(float(energy), float(cycles)) if isfinite(energy) else inf, mapping

    def offer(self, value: float, mapping: LayerMapping) -> bool:
        """Whether it is the best so far; then it is kept."""
        if value >= self.value:
            return False
        self.value, self.mapping = value, mapping
        return True

    def result(self, method: str, run: Run, stop: Stop) -> Result[LayerMapping]:
        """Nothing is proven: the bound is 0."""
        if self.mapping is None:
            return Result(Status.UNKNOWN, None, None, 0, run.seconds, method, stop)
        return Result(Status.FEASIBLE, self.mapping, round(self.value), 0, run.seconds, method, stop)


class BestRow:
    """The same for mappings in arrays, under any accounting that is compiled."""

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
        self._costs: LayerCosts | ZigzagCosts
        if accounting.units_in_parts:
            self._costs = ZigzagCosts(problem, accounting)
        else:
            self._costs = LayerCosts(problem, problem.layer.padded_to(unrolled.bounds))
        self.value = self._rounded = self._rank_of_best = inf
        self.mapping: LayerMapping | None = None

    def offer(self, chosen: Chosen) -> None:
        """The best row is kept if it is better than those before, of equal ones that of the least rank, or product."""
        kept: int | None = None
        costs = costs_of_rows(self._costs, chosen, self._problem)
        fit = np.flatnonzero(np.isfinite(costs.energy_pj)).tolist()
        for row in fit:
            energy, cycles = float(costs.energy_pj[row]), float(costs.cycles[row])
            value = self._objective.of(energy, cycles)
            if (rounded := round(value)) > self._rounded:
                continue
            rank = energy * cycles if self._rank is None else self._rank(chosen, row)
            if (rounded, rank) < (self._rounded, self._rank_of_best):
                self._rounded, self._rank_of_best = rounded, rank
                self.value, kept = value, row
        if kept is not None:
            self.mapping = mapping_of(chosen, kept, self._problem)
            check_memories(self._problem, self.mapping)

    def result(self, method: str, run: Run, stop: Stop, lower_bound: int = 0) -> Result[LayerMapping]:
        """What there is; nothing is proven beyond the bound."""
        if self.mapping is None:
            return Result(Status.UNKNOWN, None, None, lower_bound, run.seconds, method, stop)
        return Result(Status.FEASIBLE, self.mapping, round(self.value), lower_bound, run.seconds, method, stop)

    def proven(self, method: str, run: Run) -> Result[LayerMapping]:
        """It is the best, or there is none."""
        if self.mapping is None:
            return Result(Status.INFEASIBLE, None, None, 0, run.seconds, method, Stop.COMPLETED)
        value = round(self.value)
        return Result(Status.OPTIMAL, self.mapping, value, value, run.seconds, method, Stop.COMPLETED)


def costs_of_rows(costs_of: LayerCosts | ZigzagCosts, chosen: Chosen, problem: LayerProblem) -> Costs | RealCosts:
    """What rows cost, INTERLEAVED ones among them; energy is infinite for those that do not fit."""
    costs = costs_of.of_chosen(chosen)
    for row in np.flatnonzero(costs.status == CostStatus.INTERLEAVED).tolist():
        one = costs_of.of([mapping_of(chosen, row, problem)])
        costs.energy_pj[row], costs.cycles[row] = one.energy_pj[0], one.cycles[0]
    return costs


def mapping_of(chosen: Chosen, row: int, problem: LayerProblem) -> LayerMapping:
    """A row as a mapping."""
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


def in_chunks(mappings: Iterable[LayerMapping]) -> Iterator[list[LayerMapping]]:
    """Lists of at most CHUNK."""
    rest = iter(mappings)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
