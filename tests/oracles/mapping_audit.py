"""Second prover of a mapping's bound, which searches all spatial mappings and tile hierarchies for a better mapping.

A nest is built from the MACs outwards, loop by loop, with the level boundaries of the memories between the loops. The
tiles of a new level boundary are reused until a loop changes them; then they move and are paid for. The next loop
leaves at most one operand unchanged, so that all other operands are paid for at once: a state is the unpaid operand and
its boundaries. `least` is the least cost of the rest of the nest from each tile in each state.

Tile hierarchies whose lower bound by `mapping_audit_terms` is above the claimed bound are pruned. The others become
mappings in every loop order, priced by the cost model. docs/mapping.md proves that no better mapping is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations, product
from math import ceil

import numpy as np

from onchip.answer.document import Claim
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Status
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Operand
from onchip.audits.finding import Ruling
from onchip.ir.layer import LOOPS, Layer
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.clock import Deadline
from onchip.verify.mapping import verify_mapping
from oracles.mapping_audit_terms import (
    CHANGES,
    FEMTO,
    NEVER,
    Grid,
    NestTiling,
    Sizes,
    Terms,
    Whole,
    divisors,
    grid_of,
)

Unpaid = tuple[str, tuple[int, ...]] | None
"""An operand with the indices of its unpaid boundaries, or None."""


@dataclass(slots=True)
class Chains:
    """The tile hierarchies of one spatial mapping; energies are in the terms' unit, without `fixed`."""

    terms: Terms
    grid: Grid
    tiling: NestTiling
    _paid: dict[tuple[str, int], Whole] = field(default_factory=dict)
    _fits: list[tuple[Whole, Whole]] = field(default_factory=list)
    _least: dict[tuple[int, Unpaid], Whole] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for operand, chain in self.terms.chains.items():
            for number in range(1, len(chain) + 1):
                found = self.terms.boundary(operand, number, self.tiling)
                self._paid[operand, number] = np.broadcast_to(found, (self.grid.number,))
        for level in range(len(self.terms.problem.levels)):
            self._fits.append((self._fitting(level, sums_go_on=False), self._fitting(level, sums_go_on=True)))

    def _fitting(self, level: int, *, sums_go_on: bool) -> Whole:
        """Return 0 for tiles whose operands fit in a memory together, NEVER for others."""
        bits = np.full(self.grid.number, self.terms.room_at_home(level))
        for operand, chain in self.terms.chains.items():
            if level in chain:
                bits = bits + self.terms.room(level, operand, self.tiling, goes_on=sums_go_on)
        return np.where(bits > self.terms.usable_bits(level), NEVER, 0)

    def fixed(self) -> int:
        """Return the energy at the MACs, which is independent of tiles."""
        one = {loop: np.ones(1, np.int64) for loop in LOOPS}
        turns = {loop: size[-1:] for loop, size in self.grid.sizes.items()}
        tiling = NestTiling(one, turns, self.tiling.beside)
        return sum(int(self.terms.boundary(operand, 0, tiling)[0]) for operand in self.terms.chains)

    def floor(self) -> int:
        """Return the sum of the least energy of each boundary."""
        return sum(int(found.min()) for found in self._paid.values())

    def least(self) -> int:
        """Return the least energy of all fitting tile hierarchies; NEVER or more if none fits."""
        return int(self._from(0, None)[0])

    def below(self, limit: int) -> Iterator[tuple[int, ...]]:
        """Yield each tile hierarchy, one tile per memory, that some loop order may bring below the limit."""
        yield from dict.fromkeys(self._chains(0, None, 0, 0, limit))

    def _from(self, level: int, unpaid: Unpaid) -> Whole:
        """Return the least cost of the rest with the boundaries of `level` memories set, the last at each tile."""
        key = level, unpaid
        if key not in self._least:
            if unpaid is None:
                last = level == len(self._fits)
                found = np.zeros(self.grid.number, np.int64) if last else self._laid(level, None)
                self._least[key] = self.grid.least_of_larger(found, "".join(LOOPS))
            else:
                found = self._due(unpaid) + self._from(level, None)
                if level < len(self._fits):
                    found = np.minimum(found, self._laid(level, unpaid))
                self._least[key] = self.grid.least_of_larger(np.minimum(found, NEVER), _same(unpaid[0]))
        return self._least[key]

    def _laid(self, level: int, unpaid: Unpaid) -> Whole:
        """Return that cost if the next memory's boundary is at this same tile."""
        options = [due + self._from(level + 1, after) for due, after in self._options(level, unpaid)]
        return np.asarray(np.minimum(np.min(np.stack(options), axis=0), NEVER))

    def _options(self, level: int, unpaid: Unpaid) -> Iterator[tuple[Whole, Unpaid]]:
        """Yield the possible unpaid operands after the next memory's boundary, with the cost of the others."""
        held = {operand: chain.index(level) + 1 for operand, chain in self.terms.chains.items() if level in chain}
        for operand in (None, *held) if unpaid is None else (unpaid[0],):
            due = self._fits[level][operand == Operand.OUTPUT]
            for other, number in held.items():
                due = due + (self._paid[other, number] if other != operand else 0)
            if operand is None:
                yield due, None
            else:
                before = () if unpaid is None else unpaid[1]
                own = (held[operand],) if operand in held else ()
                yield due, (operand, (*before, *own))

    def _due(self, unpaid: tuple[str, tuple[int, ...]]) -> Whole:
        operand, numbers = unpaid
        return np.asarray(np.sum([self._paid[operand, number] for number in numbers], axis=0))

    def _chains(self, level: int, unpaid: Unpaid, tile: int, spent: int, limit: int) -> Iterator[tuple[int, ...]]:
        if level == len(self._fits):
            yield ()
            return
        loops = "".join(LOOPS) if unpaid is None else _same(unpaid[0])
        for larger in self.grid.larger(tile, loops).tolist():
            if unpaid is not None and spent + int(self._due(unpaid)[larger] + self._from(level, None)[larger]) < limit:
                yield from self._chains(level, None, larger, spent + int(self._due(unpaid)[larger]), limit)
            for due, after in self._options(level, unpaid):
                total = spent + int(due[larger])
                if total + int(self._from(level + 1, after)[larger]) < limit:
                    for rest in self._chains(level + 1, after, larger, total, limit):
                        yield (larger, *rest)


def _same(operand: str) -> str:
    """Return the loops that are irrelevant for an operand."""
    return "".join(loop for loop in LOOPS if loop not in CHANGES[operand])


MOST_WAYS = 2_000_000
Way = tuple[tuple[int, ...], ...]
"""Spatial iterations by array dimension and loop, in the order of LOOPS."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The spatial mappings of one layer; `sizes` is indexed by mapping, dimension, loop."""

    dimensions: tuple[str, ...]
    sizes: Whole
    turns: Whole

    @classmethod
    def of(cls, layer: Layer, array: ComputeArray) -> Ways | None:
        """Return all spatial mappings, or None for more than MOST_WAYS."""
        bounds = tuple(layer.bounds[loop] for loop in LOOPS)
        found: list[Way] = []
        for way in _listed(array, tuple(array.sizes), bounds):
            found.append(way)
            if len(found) > MOST_WAYS:
                return None
        sizes = np.array(found, np.int64)
        return cls(tuple(array.sizes), sizes, np.array(bounds) // sizes.prod(axis=1))

    def floors(self, terms: Terms) -> Whole:
        """Return a lower bound on the energy of each spatial mapping, in the terms' unit."""
        turns: Sizes = {loop: self.turns[:, at] for at, loop in enumerate(LOOPS)}
        nothing: Sizes = {loop: np.ones_like(size) for loop, size in turns.items()}
        outputs: Sizes = {loop: turns[loop] if loop in CHANGES["output"] else nothing[loop] for loop in LOOPS}
        beside = {
            (dimension, loop): self.sizes[:, at, number]
            for at, dimension in enumerate(self.dimensions)
            for number, loop in enumerate(LOOPS)
        }
        total = np.full(len(self.sizes), terms.mac_energy + terms.constant())
        for operand, chain in terms.chains.items():
            total = total + terms.boundary(operand, 0, NestTiling(nothing, turns, beside))
            for number in range(1, len(chain) + 1):
                least = terms.boundary(operand, number, NestTiling(turns, turns, beside), is_floor=True)
                if operand == Operand.OUTPUT:  # linear in the number of revisits: the minimum is at one end
                    other = terms.boundary(operand, number, NestTiling(outputs, turns, beside), is_floor=True)
                    least = np.minimum(least, other)
                total = total + least
        return total

    def loops_in_time(self) -> Whole:
        """Return the least cycles of the loops of each spatial mapping."""
        return np.asarray(self.turns.prod(axis=1))


def _listed(array: ComputeArray, names: tuple[str, ...], bounds: tuple[int, ...]) -> Iterator[Way]:
    if not names:
        yield ()
        return
    for along in _along(loops_along(array, names[0]), array.sizes[names[0]], bounds):
        left = tuple(bound // size for bound, size in zip(bounds, along, strict=True))
        for rest in _listed(array, names[1:], left):
            yield (along, *rest)


def _along(loops: tuple[str, ...], units: int, bounds: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not bounds:
        yield ()
        return
    loop = LOOPS[len(LOOPS) - len(bounds)]
    for size in divisors(bounds[0]) if loop in loops else [1]:
        if size <= units:
            for rest in _along(loops, units // size, bounds[1:]):
                yield (size, *rest)


Bounds = dict[str, int]

SAME = 1e-9
"""Relative tolerance within which values count as equal, as in the claim."""
ENERGY, LATENCY, PRODUCT = "energy", "latency", "edp"


@dataclass(frozen=True, slots=True)
class MappingFinding:
    """The ruling on a claimed bound; REFUTED comes with a better mapping and its value."""

    ruling: Ruling
    better_value: int | None
    better: LayerMapping | None
    seconds: float
    detail: str


def audit_mapping(problem: LayerProblem, claim: Claim, seconds: float) -> MappingFinding:
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

    def finding(self) -> MappingFinding:
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

    def _ruled(self, ruling: Ruling, detail: str, better: tuple[float, LayerMapping] | None = None) -> MappingFinding:
        value, mapping = (None, None) if better is None else (round(better[0]), better[1])
        return MappingFinding(ruling, value, mapping, self.deadline.seconds, detail)


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
