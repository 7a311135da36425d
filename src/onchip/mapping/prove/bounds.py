"""Lower bound on all mappings without bypass: branch and bound over spatial unrollings.

A node is a set of spatial unrollings: for each loop a range of units along each dimension of the array. Its lower bound
is that of tile-size chains (`chains/criteria.py`), with each term at its minimum over the ranges. The node with
the least bound is split until it is a single unrolling, which is then bounded on finer lattices.

The chains of single unrollings whose bounds are below the target become mappings, which may attain the bound. A chain
fixes the position up to which each tile stays resident, but not the order of loops between two positions. Spatial loops
are inside all temporal loops. Between two positions a dimension has one loop, or one loop in two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from heapq import heappop, heappush
from itertools import combinations, permutations, product
from math import ceil, factorial, isqrt, prod
from random import Random
from typing import Final, TypeAlias

import numpy as np

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import Operand
from onchip.bounds.layer.floors import SAFE, floor_of_any
from onchip.ir.layer import LOOPS
from onchip.mapping.chains.criteria import ChainEnergy, ChainTime
from onchip.mapping.chains.lattice import Lattice, Ranges
from onchip.mapping.prove.together import Found, least_together
from onchip.mapping.prove.unrolled_ways import UnrolledWays
from onchip.model.layer.limits import array_of
from onchip.search.budget.limits import Run

Place: TypeAlias = tuple[Operand, int]
Turns: TypeAlias = tuple[int, ...]  # temporal iterations inside a position, by dimension
Between: TypeAlias = Sequence[Sequence[Loop]]  # loops between consecutive positions, innermost first
MOST_ORDERS: Final = 60
"""Maximum number of loop orders per chain; above it, orders are sampled."""
MOST_PARTED_ORDERS: Final = 200
"""Maximum number of orders in which a loop may be in two parts."""
MOST_PARTED: Final = 3
"""Maximum number of loops between two positions if one of them is split in two."""
SEED: Final = 1


class TurnsChosen(Enum):
    """The iterations to take from a cell: the maximum, the fewest with the same number of parts, or the minimum."""

    EVEN = auto()
    FEWEST = auto()
    MOST = auto()


@dataclass(frozen=True)
class LeastChain:
    """A chain of cells of one unrolling: by operand and memory number, the coordinate range of each dimension."""

    least: float
    way: UnrolledWays
    cells: Mapping[Place, Sequence[tuple[int, int]]]

    def mappings(self) -> Iterator[LayerMapping]:
        """Yield mappings with their tiles in these cells, or near them if there are none; capacity is not checked."""
        return self._ordered(_orders)

    def mappings_of_parted_loops(self) -> Iterator[LayerMapping]:
        """Yield further mappings, in which one loop is split in two around other loops between the same positions.

        A split loop can lengthen the time in which a tile may be replaced: this time ends where a relevant loop ends.
        """
        return self._ordered(_parted_orders)

    def _ordered(self, orders_of: Callable[[Between], Iterator[Between]]) -> Iterator[LayerMapping]:
        seen = set[tuple[Turns, ...]]()
        for choice in TurnsChosen:
            turns = {place: self._turns(cells, choice) for place, cells in self.cells.items()}
            stops = self._stops(_outwards(turns))
            if stops not in seen:
                seen.add(stops)
                yield from self._in_orders(turns, stops, orders_of)

    def _turns(self, cells: Sequence[tuple[int, int]], choice: TurnsChosen) -> Turns:
        found = []
        for (first, last), own, bound in zip(cells, self.way.units, self.way.bounds, strict=True):
            fewest, all_turns = -(-first // own.most), -(-bound // own.most)
            most = max(min(last // own.most, all_turns), fewest)
            even = max(-(-all_turns // -(-all_turns // most)), fewest)
            found.append({TurnsChosen.FEWEST: fewest, TurnsChosen.EVEN: even, TurnsChosen.MOST: most}[choice])
        return tuple(found)

    def _stops(self, turns: Sequence[Turns]) -> tuple[Turns, ...]:
        """Return for each position a multiple of the one before; the last covers all iterations."""
        found, before = list[Turns](), (1,) * len(LOOPS)
        whole = tuple(-(-bound // own.most) for bound, own in zip(self.way.bounds, self.way.units, strict=True))
        for own in [*turns, whole]:
            each = zip(before, own, whole, strict=True)
            before = tuple(one * min(-(-two // one), -(-all_turns // one)) for one, two, all_turns in each)
            found.append(before)
        return tuple(found)

    def _in_orders(
        self, turns: Mapping[Place, Turns], stops: Sequence[Turns], orders_of: Callable[[Between], Iterator[Between]]
    ) -> Iterator[LayerMapping]:
        between = [
            [Loop(name, two // one) for name, one, two in zip(LOOPS, inner, outer, strict=True) if two > one]
            for inner, outer in zip([(1,) * len(LOOPS), *stops[:-1]], stops, strict=True)
        ]
        beside, own_turns = self._beside(), _outwards(turns)
        for order in orders_of(between):
            nest, ends = list(beside), []
            for loops in order:
                nest.extend(loops)
                ends.append(len(nest))
            cuts = {place: ends[own_turns.index(own)] for place, own in turns.items()}
            yield self._mapping(nest, cuts)

    def _beside(self) -> list[Loop]:
        found, units = list[Loop](), dict.fromkeys(LOOPS, 1)
        for name, sizes in zip(array_of(self.way.problem.accelerator).sizes, self.way.most, strict=True):
            for loop, bound, size in zip(LOOPS, self.way.bounds, sizes, strict=True):
                needed = min(int(size), -(-bound // units[loop]))
                if needed > 1:
                    found.append(Loop(loop, needed, name))
                    units[loop] *= needed
        return found

    def _mapping(self, nest: Sequence[Loop], cuts: Mapping[Place, int]) -> LayerMapping:
        kept, layer = list[tuple[Kept, ...]](), self.way.problem.layer
        for operand in Operand:
            names = self.way.memories(operand)[:-1] if operand in layer.operands else []
            own = [cuts[operand, number] for number in range(len(names))]
            kept.append(tuple(Kept(name, max(own[: at + 1])) for at, name in enumerate(names)))
        sizes = {name: prod(loop.size for loop in nest if loop.dimension == name) for name in LOOPS}
        short = tuple(name for name in LOOPS if sizes[name] > layer.bounds[name])
        return LayerMapping(tuple(nest), *kept, ragged=short).without_loops_of_one()


def _outwards(turns: Mapping[Place, Turns]) -> list[Turns]:
    return sorted(set(turns.values()), key=lambda own: (prod(own), own))


def _orders(between: Between) -> Iterator[Between]:
    """Yield all orders if there are at most MOST_ORDERS, else a random sample."""
    if prod(factorial(len(loops)) for loops in between) <= MOST_ORDERS:
        yield from product(*(permutations(loops) for loops in between))
        return
    random = Random(SEED)
    for _ in range(MOST_ORDERS):
        yield [random.sample(loops, len(loops)) for loops in between]


def _parted_orders(between: Between) -> Iterator[Between]:
    """Yield the orders with a split loop: all, or a sample; more than MOST_PARTED loops keep their order."""
    each = [[*permutations(own), *_parted(own)] if len(own) <= MOST_PARTED else [tuple(own)] for own in between]
    orders: Iterable[Between] = product(*each)
    if prod(map(len, each)) > MOST_PARTED_ORDERS:
        random = Random(SEED)
        orders = ([random.choice(own) for own in each] for _ in range(MOST_PARTED_ORDERS))
    for order in orders:
        if any(len(own) > len(loops) for own, loops in zip(order, between, strict=True)):
            yield order


def _parted(loops: Sequence[Loop]) -> Iterator[tuple[Loop, ...]]:
    """Yield every order with one loop in two parts that are not adjacent."""
    for at, loop in enumerate(loops):
        for inner in (size for size in range(2, loop.size) if loop.size % size == 0):
            parts = Loop(loop.dimension, inner), Loop(loop.dimension, loop.size // inner)
            for own in permutations([*loops[:at], *loops[at + 1 :]]):
                for first, last in combinations(range(len(own) + 1), 2):
                    yield (*own[:first], parts[0], *own[first:last], parts[1], *own[last:])


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the bound: the size of its lattice, its steps and searches, and what they cost of the node budget.

    Without steps, the stage bounds sets of unrollings by each criterion alone. The other stages search the chains of
    single unrollings by all criteria together; each search is over the cells that the one before left.
    """

    cells: int
    steps: int = 0
    searches: int = 0
    nodes: int = 1


STAGES: Final = (
    Stage(2_000),
    Stage(8_000, 1_000_000, 3),
    Stage(20_000, 4_000_000, 3, nodes=4),
    Stage(8_000, 4_000_000, 200, nodes=16),
    Stage(20_000, 20_000_000, 6, nodes=16),
)
"""The last but one refines cells if the search before it completed; the last is for searches that did not."""
CELLS_AND_PAIRS: Final = 8_000_000
"""Maximum product of cells and pairs of boundaries in the last stage but one; the number of criteria grows with the
pairs. For energy one pair counts.
"""
MOST_CELLS: Final = 100_000
"""Maximum number of cells in the last stage but one."""
FIRST_OF_KINDS: Final = 1
"""The first stage that splits the mappings of one unrolling into cases."""
FIRST_OF_SUMS: Final = 2
"""The first stage that also splits by the boundaries over which partial sums move."""
OF_FINER_CELLS: Final = 3
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
        self.nodes += STAGES[stage].nodes
        if run.stop is not None:
            heappush(self._open, _Node(floor, self.nodes, way, stage - 1, left))
            return
        if not STAGES[stage].steps:
            own = max(floor, self._floor(way, STAGES[stage].cells))
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
        own = STAGES[stage]
        cells = own.cells, own.cells
        if stage == OF_FINER_CELLS:
            pairs = 1 if self.objective is MappingObjective.ENERGY else max(way.boundaries, 1) ** 2
            cells = own.cells, max(own.cells, min(CELLS_AND_PAIRS // pairs, MOST_CELLS))
        found = least_together(way, self.objective, enough, cells, own.steps, run, own.searches, left)
        if found.chain:
            self.chains.append(LeastChain(found.least, way, found.chain))
        return found

    def _floor(self, way: UnrolledWays, cells: int) -> float:
        """Return the bound of each criterion alone; the product of both minima for the energy-delay product."""
        lattice = Lattice.of(way.bounds, way.units, cells)
        match self.objective:
            case MappingObjective.ENERGY:
                return self.objective.of(ChainEnergy(way, lattice).least_pj, 0.0)
            case MappingObjective.LATENCY:
                return self.objective.of(0.0, ChainTime(way, lattice).least_cycles)
            case MappingObjective.EDP:
                energy_pj = ChainEnergy(way, lattice).least_pj
                cycles = ChainTime(way, lattice).least_cycles if 0 < energy_pj < np.inf else 1.0
                return self.objective.of(1.0, 1.0) * energy_pj * cycles

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


def bound_of_all(problem: LayerProblem, objective: MappingObjective, value: int, run: Run) -> int:
    """Return a lower bound on the mappings WITHOUT_BYPASS, at most `value`; see `WayBounds.bound`."""
    return WayBounds(problem.without_memories_of_no_use(), objective).bound(value, run)
