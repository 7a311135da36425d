"""Lower bound on all mappings without bypass: branch and bound over spatial unrollings.

A node is a set of spatial unrollings: for each loop a range of units along each dimension of the array. Its lower bound
is that of tile-size chains (`chains/criteria.py`), with each term at its minimum over the ranges. The node with
the least bound is split until it is a single unrolling, which is then bounded on finer lattices by all criteria
together: operands have one loop order, tiles share a memory's capacity, and the time is the maximum of all criteria.

The chains of single unrollings whose bounds are below the target become mappings, which may attain the bound. A chain
fixes the position up to which each tile stays resident, but not the order of loops between two positions. Spatial loops
are inside all temporal loops. Between two positions a dimension has one loop, or one loop in two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
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
from onchip.mapping.chains.chain import OperandChain
from onchip.mapping.chains.criteria import ChainEnergy, ChainTime, Place, Running, Waits
from onchip.mapping.chains.dimension import Range, may_stand_inside, single_cells
from onchip.mapping.chains.lattice import Along, Boundaries, Lattice, Ranges
from onchip.mapping.prove.unrolled_ways import CHANNELS, LEADING, OTHERS, UnrolledWays
from onchip.model.layer.limits import array_of
from onchip.native import least_chain_below
from onchip.search.budget.limits import Run

ROUNDS_IN_ANY_CASE: Final = 3
"""Number of searches, each over the cells that the one before left, before further ones need complete searches."""
MOST_IN_VAIN: Final = 2
"""Number of consecutive splits of the least chain's cells without a gain, after which all cells are split."""
FINER: Final = 2
"""Growth factor of the number of cells from one lattice to the next."""
STEPS_IN_A_SECOND: Final = 2_000_000
"""Lower estimate of search speed, which keeps a limited run within its time."""
LESS_THAN_A_CYCLE: Final = 0.5

COUNTED: Final = {**LEADING, Operand.INPUT: CHANNELS}
"""Dimensions whose parts are the same share of an operand's elements; rows of input tiles overlap."""

Tables = list[Along | None]
ListedWaits = list[list[tuple[Along, Along]]]
Row = tuple[float, Tables, Tables, Tables, bool, ListedWaits, int | None]
"""Row of a criterion: fixed cost, boundary costs, extra cost if no tile stays, further extra cost, True if linear,
waits, and the port whose transfers it counts.
"""


@dataclass(frozen=True)
class Found:
    """A lower bound in the objective's unit, and the cells of each dimension in which better mappings may lie.

    `chain` maps each position of the least chain to coordinate ranges by dimension; empty if unknown. `is_ended`: the
    search completed. `had_time`: the run's time did not cut it short. `left` holds the cells' ranges by dimension.
    """

    least: float
    cells: list[list[int]]
    chain: Mapping[Place, list[Range]] = field(default_factory=dict)
    is_ended: bool = False
    had_time: bool = True
    left: Ranges = ()


@dataclass(frozen=True)
class ChainsTogether:
    """The chains of one unrolling on a lattice."""

    energy: ChainEnergy
    time: ChainTime
    _known: dict[tuple[int, int], tuple[Along | None, Along, Along]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def way(self) -> UnrolledWays:
        """Return the spatial unrolling of these chains."""
        return self.energy.way

    @property
    def lattice(self) -> Lattice:
        """Return the lattice over which chains are searched."""
        return self.energy.lattice

    def least(self, objective: MappingObjective, limit: float, most_steps: int = STEPS_IN_A_SECOND // 2) -> Found:
        """Return a lower bound on all mappings, capped at the limit, which means that none is below it."""
        places = self._places
        if not places:
            return Found(0.0, [])
        unit = objective.of(1.0, 1.0)
        below = limit / unit - (LESS_THAN_A_CYCLE if objective is MappingObjective.LATENCY else 0.0)
        memories = sorted({self._memory(place) for place in places})
        operands = list(dict.fromkeys(operand for operand, _ in places))
        dimensions = self.lattice.dimensions
        found, is_ended, _, points, cells = least_chain_below(
            self.lattice.shape,
            [may_stand_inside(own) for own in dimensions],
            [[at in LEADING[operand] for at in range(len(LOOPS))] for operand in operands],
            [one.stays.tolist() for one in dimensions],
            [one.short_turns.tolist() for one in dimensions],
            [one.units / one.bound for one in dimensions],
            [[at in COUNTED[operand] for at in range(len(LOOPS))] for operand in operands],
            [one.turns.astype(np.float64).tolist() for one in dimensions],
            [single_cells(own, units) for own, units in zip(dimensions, self.way.units, strict=True)],
            [float(self.way.problem.room_bits(memory)) for memory in memories],
            [[place in own for place in places] for own in self.time.places_by_port.values()],
            [one.turns_of_parts.tolist() for one in dimensions],
            [one.last_turns.tolist() for one in dimensions],
            [(one.known_turns > 0).astype(int).tolist() for one in dimensions],
            [(operands.index(place[0]), memories.index(self._memory(place)), *self._tiles(place)) for place in places],
            self._criteria(objective),
            objective is MappingObjective.EDP,
            below,
            most_steps,
        )
        chain = dict(zip(places, map(self._cell, points), strict=True)) if points else {}
        return Found(limit if found >= below else found * unit, cells, chain, is_ended)

    def _criteria(self, objective: MappingObjective) -> list[Row]:
        energy = [self._of_energy()] if objective is not MappingObjective.LATENCY else []
        return energy + (self._of_time() if objective is not MappingObjective.ENERGY else [])

    def _cell(self, point: int) -> list[Range]:
        each = zip(self.lattice.dimensions, np.unravel_index(point, self.lattice.shape), strict=True)
        return [(int(own.first[at]), int(own.last[at])) for own, at in each]

    @cached_property
    def _places(self) -> list[Place]:
        operands = [Operand(one) for one in self.way.problem.layer.operands]
        return [(one, at) for one in operands for at in range(len(self.way.memories(one)) - 1)]

    def _memory(self, place: Place) -> str:
        operand, number = place
        return self.way.memories(operand)[number]

    def _tiles(self, place: Place) -> tuple[Along, list[Along], bool]:
        """Return the capacity that tiles take, their number of arrivals, and True for a double-buffered memory."""
        return self._bits(place), self._comes(place), self.way.levels[self._memory(place)].double_buffered

    def _bits(self, place: Place) -> Along:
        """Return the tile's bits by cell, infinite where it does not fit."""
        operand, number = place
        chain = OperandChain(self.way, self.lattice, operand)
        return np.where(chain.fits(number), chain.room_bits(number), np.inf)

    def _comes(self, place: Place) -> list[Along]:
        """Return lower bounds on the arrivals of tiles, for each of the boundary's two memories."""
        operand, number = place
        sides = dict.fromkeys(self.way.served(one) for one in self.way.memories(operand)[number : number + 2])
        return [self.lattice.parts(OTHERS[operand], one) for one in sides]

    @cached_property
    def _all_move(self) -> ChainsTogether:
        """Return the same chains with no tile staying where loops end short."""
        lattice = self.lattice.where_all_move
        return ChainsTogether(ChainEnergy(self.way, lattice), ChainTime(self.way, lattice))

    def _of_energy(self) -> Row:
        own, moving = self.energy.boundaries, self._all_move.energy.boundaries
        in_part = self._all_move.energy.in_parts.boundaries
        none: ListedWaits = [[] for _ in self._places]
        more, rest = self._more(own, in_part), self._more(own, moving)
        for at, (first, both) in enumerate(zip(more, rest, strict=True)):
            if first is not None and both is not None:
                rest[at] = np.maximum(both - first, 0.0)
        return self.energy.fixed_pj, self._tables(own, skips_zero=False), more, rest, True, none, None

    def _of_time(self) -> list[Row]:
        time, all_move = self.time, self._all_move.time
        both = zip(time.criteria, all_move.criteria, strict=True)
        return [self._row(one[0], time.joined(*one), all_move.joined(*moving)) for one, moving in both]

    def _row(self, run: Running, costs: Boundaries, moving: Boundaries) -> Row:
        ports, none = list(self.time.places_by_port), list[Along | None]([None] * len(self._places))
        port = ports.index(run.port) if run.port in ports else None
        return run.fixed, self._tables(costs), self._more(costs, moving), none, False, self._waits(run.waits), port

    def _tables(self, costs: Boundaries, *, skips_zero: bool = True) -> Tables:
        return [
            costs[place] if place in costs and not (skips_zero and not costs[place].any()) else None
            for place in self._places
        ]

    def _waits(self, waits: Mapping[Place, Waits]) -> ListedWaits:
        return [list(waits.get(at, ())) for at in self._places]

    def _more(self, costs: Boundaries, moving: Boundaries) -> Tables:
        """Return the extra cost of moving tiles by boundary, None if there is none."""
        return [self._more_of(costs[place], moving[place]) if place in costs else None for place in self._places]

    def _more_of(self, costs: Along, moving: Along) -> Along | None:
        """Return the extra cost, cached by identity: many criteria share tables, which the cache keeps alive."""
        known = self._known.get((id(costs), id(moving)))
        if known is None:
            more = None
            if moving is not costs:
                fits = np.isfinite(costs) & np.isfinite(moving)
                more = np.maximum(np.where(fits, moving, 0.0) - np.where(fits, costs, 0.0), 0.0)
            known = more if more is not None and more.any() else None, costs, moving
            self._known[id(costs), id(moving)] = known
        return known[0]


def least_together(
    way: UnrolledWays,
    objective: MappingObjective,
    limit: float,
    cells: tuple[int, int],
    most_steps: int,
    run: Run,
    rounds: int,
    left: Ranges = (),
) -> Found:
    """Return a lower bound on the mappings of one unrolling from ever finer lattices, capped at the limit.

    The first lattice has at most the first number of `cells`, later ones at most the second. If `left` is given, only
    these coordinates are searched. With more than a few `rounds`, only cells of the least chain are split while that
    raises the bound. If the run must stop, returns the bound so far, at least zero.
    """
    (first_cells, most_cells), in_vain = cells, 0
    lattice, best = Lattice.of(way.bounds, way.units, first_cells, left), Found(0.0, [], left=left)
    for number in range(rounds):
        if run.stop is not None or not (number < ROUNDS_IN_ANY_CASE or best.is_ended):
            break
        before = best.least
        steps_in_time = int(min(most_steps, max(run.seconds_left, 0.0) * STEPS_IN_A_SECOND + 1))
        chains = ChainsTogether(ChainEnergy(way, lattice), ChainTime(way, lattice))
        found = chains.least(objective, limit, steps_in_time)
        chain, had_time = found.chain or best.chain, found.is_ended or steps_in_time == most_steps
        best = replace(found, least=max(best.least, found.least), chain=chain, had_time=had_time, left=best.left)
        if best.least >= limit or not found.cells:
            break
        best = replace(best, left=lattice.left(found.cells))
        in_vain = in_vain + 1 if best.least == before else 0
        if rounds > ROUNDS_IN_ANY_CASE and found.chain and in_vain < MOST_IN_VAIN:
            finer = lattice.split_at(way.units, found.cells, found.chain.values())
        else:
            most = max(first_cells, min(most_cells, FINER * prod(lattice.shape)))
            finer, in_vain = lattice.within(way.units, found.cells, most), 0
        if finer.is_part_of(lattice) or prod(finer.shape) > most_cells:
            break
        lattice = finer
    return best


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
    """One stage of the bound.

    `cells` is the size of its lattice, `steps` and `searches` limit its work, and `nodes` is its share of the budget.
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
