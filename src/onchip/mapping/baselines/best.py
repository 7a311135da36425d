"""The best mapping that a baseline mapper has costed, and random tilings of a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf, isfinite
from random import Random
from typing import Final, TypeAlias, cast

import numpy as np

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, even, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS
from onchip.model.accounting.accounting import Accounting
from onchip.model.layer.limits import array_of, check_memories
from onchip.model.layer.tables import Chosen, Costs, CostStatus, LayerCosts, RealCosts, ZigzagCosts
from onchip.model.unrolling.unrolling import Unrolled, prime_counts
from onchip.search.budget.limits import Run

RankOfRow: TypeAlias = Callable[[Chosen, int], float]
"""Tie-breaker among rows of equal value: the row with the lowest rank wins."""

CHUNK: Final = 256
MOST_WITHOUT_ANY: Final = 100_000
"""Random mappers give up if none of the first 100,000 drawn mappings fits."""


class Best:
    """Mapping costs of one layer, and the best mapping offered."""

    def __init__(self, problem: LayerProblem, objective: MappingObjective) -> None:
        self._costs = LayerCosts(problem)
        self._objective = objective
        self.value = inf
        self.mapping: LayerMapping | None = None

    def values(self, mappings: Sequence[LayerMapping]) -> Iterator[tuple[float, LayerMapping]]:
        """Yield each mapping with its value in the objective's unit, infinite if it does not fit."""
        costs = self._costs.of(mappings)
        for mapping, energy, cycles in zip(mappings, costs.energy_pj, costs.cycles, strict=True):
            yield self._objective.of(float(energy), float(cycles)) if isfinite(energy) else inf, mapping

    def offer(self, value: float, mapping: LayerMapping) -> bool:
        """Return True if the mapping is better than all earlier ones; then it is kept."""
        if value >= self.value:
            return False
        self.value, self.mapping = value, mapping
        return True

    def result(self, method: str, run: Run, stop: Stop) -> SearchResult[LayerMapping]:
        """Return the best mapping as FEASIBLE, or UNKNOWN without one; the bound is 0."""
        if self.mapping is None:
            return SearchResult(Status.UNKNOWN, None, None, 0, run.seconds, method, stop)
        return SearchResult(Status.FEASIBLE, self.mapping, round(self.value), 0, run.seconds, method, stop)


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
        self._costs: LayerCosts | ZigzagCosts
        if accounting.units_in_parts:
            self._costs = ZigzagCosts(problem, accounting)
        else:
            self._costs = LayerCosts(problem, problem.layer.padded_to(unrolled.bounds))
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
        if self.mapping is None:
            return SearchResult(Status.UNKNOWN, None, None, lower_bound, run.seconds, method, stop)
        return SearchResult(Status.FEASIBLE, self.mapping, round(self.value), lower_bound, run.seconds, method, stop)

    def proven(self, method: str, run: Run) -> SearchResult[LayerMapping]:
        """Return the best mapping as OPTIMAL, or INFEASIBLE without a mapping."""
        if self.mapping is None:
            return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, method, Stop.COMPLETED)
        value = round(self.value)
        return SearchResult(Status.OPTIMAL, self.mapping, value, value, run.seconds, method, Stop.COMPLETED)


def costs_of_rows(costs_of: LayerCosts | ZigzagCosts, chosen: Chosen, problem: LayerProblem) -> Costs | RealCosts:
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


def in_chunks(mappings: Iterable[LayerMapping]) -> Iterator[list[LayerMapping]]:
    """Yield the mappings in lists of at most CHUNK."""
    rest = iter(mappings)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


@dataclass(frozen=True, slots=True)
class LevelSizes:
    """The loop sizes at each level, DRAM last, and the spatial loops at each level."""

    temporal: tuple[dict[str, int], ...]
    beside: tuple[tuple[Loop, ...], ...]

    def mapping(self, problem: LayerProblem, orders: Sequence[Sequence[str]]) -> LayerMapping:
        """Return the even mapping with these loop orders, innermost first, for each level."""
        parts = [
            [*beside, *(Loop(loop, sizes[loop]) for loop in order if sizes.get(loop, 1) > 1)]
            for sizes, beside, order in zip(self.temporal, self.beside, orders, strict=True)
        ]
        holders = {
            str(operand): [one.memory.name for one in problem.keepers(operand)]
            for operand in Operand
            if operand in problem.layer.operands
        }
        names = [one.memory.name for one in problem.levels]
        return even(list(zip(names, parts[:-1], strict=True)), holders, parts[-1])


def random_tiling(random: Random, problem: LayerProblem) -> LevelSizes:
    """Return a random tiling: each prime factor at any level, or along any array dimension that can take it."""
    array = array_of(problem.accelerator)
    left, beside = dict(array.sizes), dict[tuple[str, str], int]()
    temporal: list[dict[str, int]] = [{} for _ in range(len(problem.levels) + 1)]
    for loop, bound in problem.layer.bounds.items():
        for prime in (prime for prime, count in prime_counts(bound).items() for _ in range(count)):
            fitting = [name for name in left if loop in loops_along(array, name) and prime <= left[name]]
            place = random.randrange(len(fitting) + len(temporal))
            if place < len(fitting):
                name = fitting[place]
                left[name] //= prime
                beside[name, loop] = beside.get((name, loop), 1) * prime
            else:
                sizes = temporal[place - len(fitting)]
                sizes[loop] = sizes.get(loop, 1) * prime
    standing: list[list[Loop]] = [[] for _ in temporal]
    for (name, loop), size in beside.items():
        standing[_level_of(problem, name)].append(Loop(loop, size, name))
    return LevelSizes(tuple(temporal), tuple(map(tuple, standing)))


def random_orders(random: Random, levels: int) -> list[list[str]]:
    """Return a random order of the loops at each level."""
    return [random.sample(LOOPS, len(LOOPS)) for _ in range(levels)]


def _level_of(problem: LayerProblem, along: str) -> int:
    """Return the level below the first memory of inputs that serves a dimension, DRAM's if there is none."""
    start = 0
    for number, (level, kept) in enumerate(zip(problem.levels, problem.kept, strict=True)):
        if Operand.INPUT in kept:
            if level.serves is None or along in level.serves:
                return start
            start = number + 1
    return start
