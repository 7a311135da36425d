"""Audit of a mapping's bound: search all spatial mappings, and for each all tile hierarchies, for a better mapping.

Tile hierarchies whose lower bound by `mapping_terms` is above the claimed bound are pruned. The others become mappings
in every loop order, priced by the cost model. docs/mapping.md proves that no better mapping is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from math import ceil

import numpy as np

from onchip.answer.document import Claim
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Status
from onchip.arch.memory import Operand
from onchip.audits.finding import Finding, Ruling
from onchip.audits.mapping_chains import Chains
from onchip.audits.mapping_terms import FEMTO, NEVER, NestTiling, Terms
from onchip.audits.mapping_tiles import CHANGES, grid_of
from onchip.audits.mapping_ways import Ways
from onchip.ir.layer import LOOPS
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.clock import Deadline
from onchip.verify.mapping import verify_mapping

Bounds = dict[str, int]

SAME = 1e-9
"""Relative tolerance within which values count as equal, as in the claim."""
ENERGY, LATENCY, PRODUCT = "energy", "latency", "edp"


def audit_mapping(problem: LayerProblem, claim: Claim, seconds: float) -> Finding:
    """Rule on whether an even (perfect, uniform) mapping is below the bound, or fits despite a claim of INFEASIBLE.

    Raises AcceleratorError if the accelerator has no array or states no access energies.
    """
    return _MappingAudit(problem.without_memories_of_no_use(), claim, Deadline.after(seconds)).finding()


class _OutOfTimeError(Exception):
    """An error raised when the deadline has passed."""


@dataclass(slots=True)
class _MappingAudit:
    problem: LayerProblem
    claim: Claim
    deadline: Deadline

    def finding(self) -> Finding:
        """Search all spatial mappings in order of their lower bounds."""
        if self.claim.objective not in (ENERGY, LATENCY, PRODUCT):
            return self._ruled(Ruling.UNDECIDED, f"no model of the objective {self.claim.objective}")
        array = self.problem.accelerator.array
        ways = None if array is None else Ways.of(self.problem.layer, array)
        if ways is None:
            return self._ruled(Ruling.UNDECIDED, "too many ways to use the array")
        try:
            better = self._better(ways)
        except _OutOfTimeError:
            return self._ruled(Ruling.UNDECIDED, "the time is over")
        if better is None:
            return self._ruled(Ruling.CONFIRMED, f"for even mappings, in {len(ways.sizes)} ways to use the array")
        return self._ruled(Ruling.REFUTED, "a better mapping", better)

    @property
    def _limit(self) -> float:
        """Return the value below which a mapping refutes the bound."""
        if self.claim.status is Status.INFEASIBLE:
            return float("inf")
        return self.claim.lower_bound - max(0.5, SAME * self.claim.lower_bound)

    def _better(self, ways: Ways) -> tuple[float, LayerMapping] | None:
        terms = Terms(self.problem)
        floors, cycles = ways.floors(terms), ways.loops_in_time()
        for at in np.argsort(floors if self.claim.objective != LATENCY else cycles, kind="stable").tolist():
            limit = self._energy_limit(terms, int(cycles[at]))
            if floors[at] < limit:
                self._ensure_time()
                better = self._better_in(terms, ways, at, limit)
                if better is not None:
                    return better
        return None

    def _energy_limit(self, terms: Terms, cycles: int) -> int:
        """Return the energy, in the terms' unit, from which a spatial mapping with that many cycles is no better."""
        most = self._limit
        if most == float("inf"):
            return NEVER
        if self.claim.objective == LATENCY:
            return NEVER if cycles < most else -NEVER
        energy = most if self.claim.objective == ENERGY else most / cycles
        return min(NEVER, ceil(energy * terms.unit * (1 + 2.0**-49)))

    def _better_in(self, terms: Terms, ways: Ways, way: int, limit: int) -> tuple[float, LayerMapping] | None:
        sizes = ways.sizes[way].tolist()
        beside = [
            Loop(loop, size, name)
            for name, own in zip(ways.dimensions, sizes, strict=True)
            for loop, size in zip(LOOPS, own, strict=True)
            if size > 1
        ]
        grid = grid_of(tuple(ways.turns[way].tolist()))
        turns = {loop: size[-1:] for loop, size in grid.sizes.items()}
        arrays = {(str(one.along), one.dimension): np.array([one.size]) for one in beside}
        chains = Chains(terms, grid, NestTiling(grid.sizes, turns, arrays))
        left = limit - terms.mac_energy - terms.constant() - chains.fixed() if limit < NEVER else NEVER
        if chains.floor() >= left or chains.least() >= left:
            return None
        for chain in chains.below(left):
            tiles = [{loop: int(size[tile]) for loop, size in grid.sizes.items()} for tile in (0, *chain, -1)]
            is_timed = self.claim.objective != ENERGY
            for mapping in mappings_of(self.problem, beside, tiles, is_timed=is_timed):
                self._ensure_time()
                value = self._value(mapping)
                if value is not None and value < self._limit:
                    return value, mapping
        return None

    def _value(self, mapping: LayerMapping) -> float | None:
        """Return the value by the cost model; None for an illegal mapping."""
        try:
            cost = layer_cost(self.problem, mapping)
        except MappingError:
            return None
        energy, cycles = cost.energy_pj * FEMTO, cost.cycles
        value = {ENERGY: energy, LATENCY: cycles, PRODUCT: energy * cycles}[self.claim.objective]
        if value < self._limit and verify_mapping(self.problem, mapping):
            return None
        return value

    def _ensure_time(self) -> None:
        if self.deadline.is_past:
            raise _OutOfTimeError

    def _ruled(self, ruling: Ruling, detail: str, better: tuple[float, LayerMapping] | None = None) -> Finding:
        value, mapping = (None, None) if better is None else (round(better[0]), better[1])
        return Finding(ruling, ceil(self.claim.lower_bound), value, mapping, self.deadline.seconds, detail)


def mappings_of(
    problem: LayerProblem, beside: Sequence[Loop], tiles: Sequence[Bounds], *, is_timed: bool
) -> Iterator[LayerMapping]:
    """Yield the mappings whose memories' tiles, nearest the MACs first and DRAM last, span the given temporal loops.

    Without a timed objective only the innermost class of an order matters.
    """
    parts = []
    for inner, outer in pairwise(tiles):
        loops = [Loop(loop, outer[loop] // inner[loop]) for loop in LOOPS if outer[loop] > inner[loop]]
        parts.append(list(_orders(loops, is_timed=is_timed)))
    for orders in product(*parts):
        yield _mapping(problem, beside, orders)


def _orders(loops: Sequence[Loop], *, is_timed: bool) -> Iterator[list[Loop]]:
    classes: dict[str, list[Loop]] = {}
    for loop in loops:
        same = "".join(operand for operand, changing in CHANGES.items() if loop.dimension not in changing)
        classes.setdefault(same, []).append(loop)
    every = list(permutations(classes.values()))
    firsts = {id(order[0]) if order else 0: order for order in reversed(every)}
    for order in every if is_timed else firsts.values():
        yield [loop for own in order for loop in own]


def _mapping(problem: LayerProblem, beside: Sequence[Loop], orders: Sequence[Sequence[Loop]]) -> LayerMapping:
    """Build a mapping in which spatial loops are directly above the last input tile that does not span them."""
    inputs = problem.keepers(Operand.INPUT)
    above: dict[Loop, int] = {}
    for loop in beside:
        passed = [
            number
            for number, level in enumerate(problem.levels)
            if level in inputs and level.serves is not None and loop.along not in level.serves
        ]
        above[loop] = max(passed, default=-1)
    nest = [loop for loop in beside if above[loop] < 0]
    cuts = []
    for number, order in enumerate(orders):
        nest.extend(order)
        cuts.append(len(nest))
        nest.extend(loop for loop in beside if above[loop] == number)
    kept = (
        tuple(
            Kept(level.memory.name, _settled(nest, cut, CHANGES[operand]))
            for level, cut in zip(problem.levels, cuts, strict=False)
            if operand in problem.layer.operands and level in problem.keepers(operand)
        )
        for operand in Operand
    )
    return LayerMapping(tuple(nest), *kept)


def _settled(nest: Sequence[Loop], cut: int, changing: str) -> int:
    """Return the level boundary, moved above the adjacent temporal loops that are irrelevant for the operand."""
    found = cut
    for at in range(cut, len(nest)):
        if nest[at].along is None:
            if nest[at].dimension in changing:
                break
            found = at + 1
    return found
