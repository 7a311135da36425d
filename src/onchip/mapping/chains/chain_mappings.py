"""Mappings whose tiles lie in the cells of a chain: they may attain a lower bound.

A chain fixes the position up to which each tile stays resident, but not the order of loops between two positions.
Spatial loops are inside all temporal loops. Between two positions a dimension has one loop, or one loop in two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import combinations, permutations, product
from math import factorial, prod
from random import Random
from typing import Final, TypeAlias

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.arch.memory import Operand
from onchip.ir.layer import LOOPS
from onchip.mapping.prove.unrolled_ways import UnrolledWays
from onchip.model.layer.limits import array_of

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
