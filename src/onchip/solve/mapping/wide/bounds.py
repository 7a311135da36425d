"""What no mapping is below: of all ways to use the array the least floor, made tighter where it is least.

A way's floor is at first what the units take and each element once on its way; then the least chain of tiles, on
coarser and on finer lattices, for some short loops shared out and not, as either may be the tighter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM, Operand
from onchip.cost.layer.cost import access_of
from onchip.cost.layer.limits import array_of
from onchip.cost.schedule.nest_work import work_of_all
from onchip.ir.layer import LOOPS
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.wide.chain import ADDING, CHANNELS, LEADING, OTHERS, Way
from onchip.solve.mapping.wide.chain_energy import ChainEnergy, element_pj
from onchip.solve.mapping.wide.chain_time import ChainTime
from onchip.solve.mapping.wide.floors import SAFE, floor_of_any
from onchip.solve.mapping.wide.lattice import Lattice
from onchip.solve.mapping.wide.turns import ByWay, first_and_last, waiting_turns
from onchip.solve.mapping.wide.ways import Ways, all_ways
from onchip.solve.run.limits import Run

STAGES: Final = ((400, (4,)), (4_000, (4, 0)), (24_000, (4, 0)))
"""Cells of a lattice, and up to how many iterations loops are shared out."""
MOST_CELLS: Final = 400_000
"""Of all lattices of a bound together."""


@dataclass(slots=True)
class WaysFloor:
    """A run over the ways of a problem, those with the least floor first."""

    problem: LayerProblem
    objective: MappingObjective
    cells: int = 0
    _tightened: list[tuple[float, int, int]] = field(default_factory=list)

    def least(self, ways: Ways, enough: float, run: Run) -> float:
        """Return the least floor of all ways, or one that is enough; what is not looked into keeps its first floor."""
        first = self._first(ways)
        order = np.argsort(first, kind="stable")
        following = 0
        while run.stop is None and self.cells < MOST_CELLS:
            if following < len(order) and not (
                self._tightened and self._tightened[0][0] <= first[order[following]]
            ):
                value, way, stage = float(first[order[following]]), int(order[following]), 0
                following += 1
            else:
                value, way, stage = heappop(self._tightened)
            if value >= enough or stage == len(STAGES):
                return value
            heappush(self._tightened, (max(value, self._of(ways[way], stage)), way, stage + 1))
        left = [float(first[order[following]])] if following < len(order) else []
        return min([*left, *(value for value, _, _ in self._tightened[:1])])

    def _first(self, ways: Ways) -> ByWay:
        energy_pj = FirstEnergy(self.problem).least_pj(ways) if self.objective is not MappingObjective.LATENCY else 1.0
        cycles = waiting_turns(self.problem, ways) + first_and_last(self.problem)
        match self.objective:
            case MappingObjective.LATENCY:
                return cycles
            case MappingObjective.ENERGY:
                return np.asarray(self.objective.of(1.0, 1.0) * energy_pj)
            case MappingObjective.EDP:
                return np.asarray(self.objective.of(1.0, 1.0) * energy_pj * cycles)

    def _of(self, sizes: Ways, stage: int) -> float:
        energy_pj, cycles = 0.0, 0.0
        most_cells, shorts = STAGES[stage]
        for short in shorts:
            way = Way(self.problem, sizes)
            lattice = Lattice.of(way.bounds, sizes, most_cells, short)
            self.cells += prod(lattice.shape)
            if self.objective is not MappingObjective.LATENCY:
                energy_pj = max(energy_pj, ChainEnergy(way, lattice).least_pj)
            if self.objective is not MappingObjective.ENERGY:
                cycles = max(cycles, ChainTime(way, lattice).least_cycles)
        return self.objective.of(energy_pj, cycles)


@dataclass(frozen=True)
class FirstEnergy:
    """By way, what the units take and add up, and each element once through all its memories."""

    problem: LayerProblem

    def least_pj(self, ways: Ways) -> ByWay:
        """Return it in pJ."""
        found = np.full(len(ways), self._once_pj)
        for operand in (Operand(one) for one in self.problem.layer.operands):
            found = found + self._at_units_pj(operand, ways)
        return found

    def _memories(self, operand: Operand) -> Sequence[str]:
        return [*(level.memory.name for level in self.problem.keepers(operand)), self.problem.home(operand)]

    @cached_property
    def _once_pj(self) -> float:
        layer, work = self.problem.layer, work_of_all(self.problem.layer)
        found = layer.macs * (array_of(self.problem.accelerator).mac_energy_pj or 0.0)
        elements = {Operand.INPUT: work.inputs, Operand.WEIGHT: work.weights, Operand.OUTPUT: work.outputs}
        for operand in (Operand(one) for one in layer.operands):
            for lower, upper in pairwise(self._memories(operand)):
                low, high = (access_of(self.problem.accelerator, memory) for memory in (lower, upper))
                if operand is Operand.OUTPUT:
                    each_pj = low.read_energy_pj / low.access_bits + high.write_energy_pj / high.access_bits
                else:
                    each_pj = low.write_energy_pj / low.access_bits + high.read_energy_pj / high.access_bits
                found += elements[operand] * layer.bits(operand) * each_pj
        return found

    def _at_units_pj(self, operand: Operand, ways: Ways) -> ByWay:
        """Of each turn what units want or give, in an instance of the nearest memory once."""
        layer, memory = self.problem.layer, self._memories(operand)[0]
        bounds = np.array(list(layer.bounds.values()))
        inside = np.minimum(self._inside(memory, ways), bounds)
        parts = np.ceil(bounds / inside)
        access = access_of(self.problem.accelerator, memory)
        if operand is Operand.INPUT:
            moved, at_once = self._inputs(inside)
        else:
            moved = np.full(len(ways), float(np.prod(bounds[[*LEADING[operand]]], dtype=np.float64)))
            at_once = np.prod(inside[:, [*LEADING[operand]]], axis=1, dtype=np.float64)
        times = np.prod(parts[:, [*OTHERS[operand]]], axis=1)
        if operand is not Operand.OUTPUT:
            return moved * times * element_pj(access, layer.bits(operand), at_once, is_read=True)
        bits = np.where(times > 1, layer.partial_bits, layer.output_bits)
        found = np.zeros(len(ways))
        for one in (layer.partial_bits, layer.output_bits):
            coming = element_pj(access, one, at_once, is_read=False)
            back = element_pj(access, one, at_once, is_read=True) * (times - 1) * self._adds_up_at_once(ways)
            found = np.where(bits == one, moved * (times * coming + back), found)
        return found

    def _inside(self, memory: str, ways: Ways) -> Ways:
        level = next((one for one in self.problem.levels if one.memory.name == memory), None)
        if memory == DRAM or level is None or level.serves is None:
            return np.asarray(ways.prod(axis=1))
        names = array_of(self.problem.accelerator).sizes
        return np.asarray(ways[:, [at for at, name in enumerate(names) if name in level.serves]].prod(axis=1))

    def _inputs(self, inside: Ways) -> tuple[ByWay, ByWay]:
        """Elements of all turns together, and of one at most."""
        layer = self.problem.layer
        way = Way(self.problem, np.full((1, len(LOOPS)), 2))  # of which no taps are known to be neighbours
        moved = np.full(len(inside), float(prod(layer.bounds[LOOPS[at]] for at in CHANNELS)))
        at_once = np.prod(inside[:, [*CHANNELS]], axis=1, dtype=np.float64)
        for rows in way.rows:
            output, tap = LOOPS.index(rows.axis.output_loop), LOOPS.index(rows.axis.filter_loop)
            sides = inside[:, output].astype(np.float64), inside[:, tap].astype(np.float64)
            moved = moved * rows.moved(*sides, taps_shared_out=False)
            at_once = at_once * rows.most(*sides)
        return moved, at_once

    def _adds_up_at_once(self, ways: Ways) -> ByWay:
        """1 where no sums are added up between memories, so that all come back but the first; else 0."""
        inside = [self._inside(memory, ways)[:, [*ADDING]].prod(axis=1) for memory in self._memories(Operand.OUTPUT)]
        return np.all([one == inside[-1] for one in inside], axis=0).astype(np.float64)


def bound_of_all(problem: LayerProblem, objective: MappingObjective, enough: float, run: Run) -> int:
    """Return what no mapping in which every memory keeps what it holds is below, in the objective's unit.

    No tighter than `enough` asks for, and within the run's time. Raises AcceleratorError where too little is said.
    """
    floor = floor_of_any(problem, objective)
    ways = None if problem.weight_is_an_input or floor >= enough else all_ways(problem)
    if ways is None:
        return floor
    least = WaysFloor(problem, objective).least(ways, enough, run) * SAFE
    return max(floor, int(least)) if least < np.inf else floor
