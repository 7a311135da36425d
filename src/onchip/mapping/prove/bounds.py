"""Lower bound on all mappings without bypass: branch and bound over spatial unrollings.

A node is a set of spatial unrollings: for each loop a range of units along each dimension of the array. Its lower bound
is that of tile-size chains (`chain_energy`, `chain_time`), with each term at its minimum over the ranges. The node with
the least bound is split until it is a single unrolling, which is then bounded on finer lattices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, isqrt, prod
from typing import Final

import numpy as np

from onchip.answer.layer_mapping import loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.bounds.layer.floors import SAFE, floor_of_any
from onchip.ir.layer import LOOPS
from onchip.mapping.chains.chain_energy import ChainEnergy
from onchip.mapping.chains.chain_mappings import LeastChain
from onchip.mapping.chains.chain_time import ChainTime
from onchip.mapping.chains.lattice import SLOPES, Lattice, Ranges, least_product
from onchip.mapping.prove.together import Found, least_together
from onchip.mapping.prove.unrolled_ways import UnrolledWays
from onchip.model.layer.limits import array_of
from onchip.search.budget.limits import Run

STAGES: Final = ((2_000, (4,)), (12_000, (4, 0)), (8_000, ()), (20_000, ()), (8_000, ()), (20_000, ()))
"""Lattice size in cells, and the iterations up to which loops are shared out, for each stage.

The first stage bounds sets of unrollings, the others single unrollings. Later stages search chains by all criteria
together, on lattices without shared-out loops. The last but one refines cells if the search before it completed; the
last has more steps and is for searches that did not.
"""
CELLS_AND_PAIRS: Final = 8_000_000
"""Maximum product of cells and pairs of boundaries in the last stage but one; the number of criteria grows with the
pairs. For energy one pair counts.
"""
MOST_CELLS: Final = 100_000
"""Maximum number of cells in the last stage but one."""
STEPS: Final = {2: 1_000_000, 3: 4_000_000, 4: 4_000_000, 5: 20_000_000}
"""Step limit of a search by all criteria, by stage."""
ROUNDS: Final = {2: 3, 3: 3, 4: 200, 5: 6}
"""Maximum number of searches per stage; each searches the cells that the one before left."""
NODES: Final = {2: 1, 3: 4, 4: 16, 5: 16}
"""Nodes charged for such a search, by stage."""
FIRST_OF_KINDS: Final = 2
"""The first stage that splits the mappings of one unrolling into cases."""
FIRST_OF_SUMS: Final = 3
"""The first stage that also splits by the boundaries over which partial sums move."""
OF_FINER_CELLS: Final = 4
"""The last stage but one, which refines cells."""
MOST_NODES: Final = 400
"""Node limit of a run without a time limit."""


@dataclass(frozen=True, order=True)
class _Node:
    floor: float
    number: int
    way: UnrolledWays = field(compare=False)
    stage: int = field(compare=False)
    left: Ranges = field(compare=False, default=())


@dataclass(slots=True)
class WayBounds:
    """A best-first search over the spatial unrollings of a problem.

    `chains` are the best chains of single unrollings whose bounds were below the target.
    """

    problem: LayerProblem
    objective: MappingObjective
    most_nodes: int = MOST_NODES
    nodes: int = 0
    chains: list[LeastChain] = field(default_factory=list)
    _left_out_above: float = np.inf
    _open: list[_Node] = field(default_factory=list)

    def bound(self, value: int, run: Run, nodes: float = np.inf) -> int:
        """Return a lower bound on the mappings WITHOUT_BYPASS, in the objective's unit; resumes the search.

        Stops after about `nodes` nodes. The bound is at most `value`, the value of a known mapping; values within one
        part in 10^9 count as equal. Raises AcceleratorError if the accelerator's description is incomplete.
        """
        floor = floor_of_any(self.problem, self.objective)
        if self.problem.weight_is_an_input or floor >= value:
            return min(floor, value)
        run.report(value, floor, "lower bound of every mapping")
        least = self.least(value, run, nodes)
        return value if least >= value * SAFE else max(floor, ceil(least * SAFE))

    def chains_below(self, value: int) -> list[LeastChain]:
        """Return the chains met since the last call that are below a value, least first."""
        found = sorted((one for one in self.chains if one.least < value), key=lambda one: one.least)
        self.chains.clear()
        return found

    def least(self, enough: float, run: Run, nodes: float = np.inf) -> float:
        """Raise the lower bound on all unrollings up to about `enough` and return it; resumes the search.

        The target is at most the least `enough` with which coordinates were excluded, since mappings above that may use
        them. Infinite if no node is open.
        """
        enough, until = min(enough, self._left_out_above), self.nodes + nodes
        if not self.nodes:
            self._add(self._root(), 0.0, 0, enough, run)
        while self._open and run.stop is None and self._may_look(run) and self.nodes < until:
            node = self._open[0]
            if node.floor >= enough:
                break
            run.report(None, int(node.floor * SAFE), f"lower bound, {self.nodes} spatial unrollings")
            parts, stage = self._parts(node)
            if stage == len(STAGES):
                break
            heappop(self._open)
            for part in parts:
                self._add(part, node.floor, stage, enough, run, node.left)
        return self._open[0].floor if self._open else np.inf

    def is_done(self, run: Run) -> bool:
        """Return True if nothing is open, the best node has passed its last stage, or the node limit is reached."""
        is_last = not self._open or self._parts(self._open[0])[1] == len(STAGES)
        return is_last or not self._may_look(run)

    def _may_look(self, run: Run) -> bool:
        return run.deadline.is_set or self.nodes < self.most_nodes

    def _parts(self, node: _Node) -> tuple[Iterable[UnrolledWays], int]:
        """Return the cases into which a node's mappings split, and the stage at which to bound them."""
        way, is_last = node.way, node.stage + 1 == len(STAGES)
        if not way.is_one:
            return self._halves(way), 0
        if node.stage >= FIRST_OF_SUMS and way.has_kinds_of_sums:
            return way.kinds_of_sums(), FIRST_OF_SUMS
        kinds = way.told_apart(further=is_last) if node.stage + 1 >= FIRST_OF_KINDS else []
        return (kinds, FIRST_OF_KINDS) if kinds else ([way], node.stage + 1)

    def _add(self, way: UnrolledWays, floor: float, stage: int, enough: float, run: Run, left: Ranges = ()) -> None:
        """Bound an unrolling and add it to the open nodes, unless a loop would have more units than can be at work.

        If the run must stop, the node is added unbounded. For a single unrolling, `left` may restrict the coordinates.
        """
        if any(own.least > 1 and own.least // 2 >= bound for own, bound in zip(way.units, way.bounds, strict=True)):
            return
        self.nodes += NODES.get(stage, 1)
        if run.stop is not None:
            heappush(self._open, _Node(floor, self.nodes, way, stage - 1, left))
            return
        if STAGES[stage][1]:
            own = max(floor, self._floor(way, stage, enough))
        else:
            found = self._together(way, stage, enough, run, left)
            own, left, self._left_out_above = max(floor, found.least), found.left, min(self._left_out_above, enough)
            if not found.had_time:
                stage -= 1  # bounded again when there is more time
            elif stage == OF_FINER_CELLS or (stage + 1 == OF_FINER_CELLS and not found.is_ended):
                stage += 1  # more steps would not raise the bound, or finer cells would not complete
        if own < np.inf:
            heappush(self._open, _Node(own, self.nodes, way, stage, left))

    def _together(self, way: UnrolledWays, stage: int, enough: float, run: Run, left: Ranges) -> Found:
        first_cells, _ = STAGES[stage]
        cells = first_cells, first_cells
        if stage == OF_FINER_CELLS:
            pairs = 1 if self.objective is MappingObjective.ENERGY else max(way.boundaries, 1) ** 2
            cells = first_cells, max(first_cells, min(CELLS_AND_PAIRS // pairs, MOST_CELLS))
        found = least_together(way, self.objective, enough, cells, STEPS[stage], run, ROUNDS[stage], left)
        if found.chain:
            self.chains.append(LeastChain(found.least, way, found.chain))
        return found

    def _floor(self, way: UnrolledWays, stage: int, enough: float) -> float:
        most_cells, shorts = STAGES[stage]
        lattices = [Lattice.of(way.bounds, way.units, most_cells, short) for short in shorts]
        energies = [ChainEnergy(way, lattice) for lattice in lattices]
        match self.objective:
            case MappingObjective.ENERGY:
                return self.objective.of(max(one.least_pj for one in energies), 0.0)
            case MappingObjective.LATENCY:
                return self.objective.of(0.0, cycles_at_least([ChainTime(way, one, enough) for one in lattices]))
            case MappingObjective.EDP:
                unit = self.objective.of(1.0, 1.0)
                return unit * least_energy_delay(energies, enough / unit)

    def _root(self) -> UnrolledWays:
        array = array_of(self.problem.accelerator)
        least = np.ones((len(array.sizes), len(LOOPS)), np.int64)
        most = least.copy()
        for at, (name, units) in enumerate(array.sizes.items()):
            for loop in loops_along(array, name):
                most[at, LOOPS.index(loop)] = min(units, self.problem.layer.bounds[loop])
        return UnrolledWays(self.problem, least, most)

    def _halves(self, way: UnrolledWays) -> Iterator[UnrolledWays]:
        """Yield two halves of the proportionally widest range; a dimension's units limit its other loops."""
        at, loop = np.unravel_index(np.argmax(way.most / way.least), way.most.shape)
        low, high = int(way.least[at, loop]), int(way.most[at, loop])
        middle = min(isqrt(low * high), high - 1)
        units = list(array_of(self.problem.accelerator).sizes.values())[at]
        for first, last in ((middle + 1, high), (low, middle)):
            least, most = way.least.copy(), way.most.copy()
            least[at, loop], most[at, loop] = first, last
            fewest = prod(int(one) for one in least[at])
            if fewest <= units:
                most[at] = np.minimum(most[at], units * least[at] // fewest)
                yield UnrolledWays(self.problem, least, most)


def cycles_at_least(times: Sequence[ChainTime]) -> float:
    """Return the best cycle bound of an unrolling over several lattices; stops once one reaches `enough`."""
    found = 0.0
    for one in times:
        if found < one.enough:
            found = max(found, one.least_cycles)
    return found


def least_energy_delay(energies: Sequence[ChainEnergy], enough: float = np.inf) -> float:
    """Return a lower bound in pJ times cycles, from the minima of both and of their weighted sums.

    All energies are of the same unrolling on different lattices. The search stops at `enough`.
    """
    energy_pj = max(one.least_pj for one in energies)
    if not 0 < energy_pj < np.inf:
        return energy_pj
    times = [ChainTime(one.way, one.lattice, enough / energy_pj) for one in energies]
    cycles = cycles_at_least(times)
    found = energy_pj * cycles
    for energy, time in zip(energies, times, strict=True):
        of_energy = energy.fixed_pj, energy.boundaries
        for slope in (slope * cycles / energy_pj for slope in SLOPES):
            if found >= enough:
                return found
            apart = slope * energy_pj + cycles
            enough_of_sum = max(slope * energy_pj + enough / energy_pj, slope * enough / cycles + cycles)
            least_sum = time.least_with(of_energy, slope, enough_of_sum, apart)
            if not least_sum > apart:
                break
            found = max(found, least_product(energy_pj, cycles, slope, least_sum))
    return found


def bound_of_all(problem: LayerProblem, objective: MappingObjective, value: int, run: Run) -> int:
    """Return a lower bound on the mappings WITHOUT_BYPASS, at most `value`; see `WayBounds.bound`."""
    return WayBounds(problem.without_memories_of_no_use(), objective).bound(value, run)
