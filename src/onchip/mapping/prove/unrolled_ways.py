"""Sets of spatial unrollings: the units of each loop, and the units that each memory serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property, lru_cache
from itertools import pairwise, product
from math import ceil, prod
from typing import Final, TypeAlias

import numpy as np

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.ir.layer import LOOPS, RELEVANT, Axis
from onchip.mapping.chains.dimension import Dimension, Range, Units, idle_turns, most_turns
from onchip.mapping.chains.lattice import AxisRows, Lattice, Served
from onchip.model.layer.limits import array_of
from onchip.model.unrolling.unrolling import Ways

MOST_APART: Final = 32
"""Maximum number of iteration counts, with idle units, that are split into cases at once."""


class Idleness(Enum):
    """The case for a loop: some unit is idle at some position, none is, or unknown.

    If none is idle, the array covers units times iterations there, or the bound. Cases are disjoint: each mapping
    belongs to the first loop that leaves units idle.
    """

    UNKNOWN = auto()
    NONE = auto()
    SOME = auto()


@dataclass(frozen=True)
class LoopKind:
    """The case of one loop; `turns` is the range of executed iterations if cases were split by it."""

    idle: Idleness = Idleness.UNKNOWN
    turns: Range | None = None

    def units(self, least: int, most: int, sizes: tuple[int, ...] | None) -> Units:
        """Return this case's units for a range of spatial unrollings."""
        return Units(least, most, sizes, self.idle is Idleness.NONE, self.turns, self.idle is Idleness.SOME)


Kinds: TypeAlias = tuple[LoopKind, ...]


LEADING: Final = {
    operand: tuple(at for at, loop in enumerate(LOOPS) if loop in RELEVANT[operand]) for operand in Operand
}
OTHERS: Final = {operand: tuple(at for at in range(len(LOOPS)) if at not in LEADING[operand]) for operand in Operand}
CHANNELS: Final = tuple(at for at in LEADING[Operand.INPUT] if LOOPS[at] not in "PQRS")
ADDING: Final = OTHERS[Operand.OUTPUT]


@dataclass(frozen=True, eq=False)
class UnrolledWays:
    """A set of spatial unrollings: the units of each loop along each dimension of the array.

    `least` and `most` are by dimension and loop; if they are equal, it is a single unrolling. It may then stand for one
    case of its mappings. `kinds` gives the case of each loop. `adds_on` says for each boundary above a memory but the
    last, if partial sums cross it.
    """

    problem: LayerProblem
    least: Ways
    most: Ways
    kinds: Kinds = (LoopKind(),) * len(LOOPS)
    adds_on: tuple[bool, ...] | None = None

    @cached_property
    def is_one(self) -> bool:
        """Return True if this is a single unrolling."""
        return bool((self.least == self.most).all())

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Return the iterations of each loop."""
        return tuple(self.problem.layer.bounds.values())

    @cached_property
    def units(self) -> tuple[Units, ...]:
        """Return the range of spatial unrollings of each loop."""
        each = zip(self.least.T, self.most.T, self.kinds, strict=True)
        return tuple(
            kind.units(
                int(low.prod()),
                int(high.prod()),
                tuple(int(one) for one in low if one > 1) if (low == high).all() else None,
            )
            for low, high, kind in each
        )

    def told_apart(self, *, further: bool = False) -> list[UnrolledWays]:
        """Return the disjoint cases of a single unrolling (see `told_apart`), or an empty list."""
        return [replace(self, kinds=one) for one in told_apart(self.kinds, self.bounds, self.units, further=further)]

    def kinds_of_sums(self) -> list[UnrolledWays]:
        """Return the disjoint cases by the boundaries that partial sums cross."""
        return [replace(self, adds_on=one) for one in self._where_sums_are_added_to]

    @property
    def has_kinds_of_sums(self) -> bool:
        """Return True if `kinds_of_sums` would yield several cases and was not applied yet."""
        return self.adds_on is None and len(self._where_sums_are_added_to) > 1

    @cached_property
    def _where_sums_are_added_to(self) -> list[tuple[bool, ...]]:
        """Return the possible `adds_on`: outside a position where sums are complete, only parallel units still add."""
        memories = self.memories(Operand.OUTPUT)
        if all(self.bounds[at] == 1 for at in ADDING):
            return [(False,) * max(len(memories) - 2, 0)]
        is_whole = [all(self.served(one).most_apart[at] == 1 for at in ADDING) for one in memories[1:]]
        return [
            one
            for one in product((False, True), repeat=max(len(memories) - 2, 0))
            if not any(
                outer and not inner and whole
                for (inner, outer), whole in zip(pairwise(one), is_whole[1:], strict=False)
            )
        ]

    @cached_property
    def whole(self) -> Served:
        """Return the units of a memory instance that serves the whole array."""
        return Served((True,) * len(self.most), tuple(one.most for one in self.units), (1,) * len(LOOPS))

    @cached_property
    def levels(self) -> dict[str, MemoryLevel]:
        """Return the on-chip memories by name."""
        return {level.memory.name: level for level in self.problem.levels}

    def served(self, memory: str) -> Served:
        """Return the units that one instance of a memory, or DRAM, serves."""
        return self._served[memory]

    @cached_property
    def _served(self) -> dict[str, Served]:
        names = array_of(self.problem.accelerator).sizes
        found = {DRAM: self.whole}
        known = {(self.whole.along, self.whole.most, self.whole.most_apart): self.whole}
        for memory, level in self.levels.items():
            along = np.array([level.serves is None or name in level.serves for name in names])
            sizes = self.most[along].prod(axis=0), self.most[~along].prod(axis=0)
            says = tuple(along.tolist()), tuple(sizes[0].tolist()), tuple(sizes[1].tolist())
            found[memory] = known.setdefault(says, Served(*says))
        return found

    def together(self, loops: Sequence[int], served: Served) -> int:
        """Return the maximum units of these loops per instance; loops along a dimension share its units."""
        others = [at for at in range(len(LOOPS)) if at not in loops]
        most, least = self.most[:, [*loops]].prod(axis=1), self.least[:, others].prod(axis=1)
        units = array_of(self.problem.accelerator).sizes.values()
        each = zip(most, least, units, served.along, strict=True)
        return prod(min(int(high), size // int(low)) for high, low, size, is_served in each if is_served)

    @cached_property
    def fewest_turns(self) -> list[int]:
        """Return a lower bound on the temporal iterations of each loop."""
        return [own.fewest_turns(bound) for bound, own in zip(self.bounds, self.units, strict=True)]

    @property
    def least_turns(self) -> float:
        """Return a lower bound on the array's iterations."""
        of_loops = self.fewest_turns
        return max(prod(of_loops), ceil(self.problem.layer.macs / self.together(range(len(LOOPS)), self.whole)))

    def memories(self, operand: Operand) -> Sequence[str]:
        """Return the memories that keep an operand's tiles, nearest to the MACs first, and its home."""
        return self._memories[operand]

    @property
    def boundaries(self) -> int:
        """Return the number of memory boundaries of all operands together."""
        return sum(len(one) - 1 for one in self._memories.values())

    @cached_property
    def _memories(self) -> dict[Operand, list[str]]:
        problem = self.problem
        return {
            one: [*(level.memory.name for level in problem.keepers(one)), problem.home(one)]
            for one in map(Operand, problem.layer.operands)
        }

    @cached_property
    def at_units(self) -> Lattice:
        """Return the position inside all temporal loops, where every unit has one element for one cycle."""
        at, none, found = np.ones(1, np.int64), np.zeros(1), list[Dimension]()
        for bound, own in zip(self.bounds, self.units, strict=True):
            turns = bound if own.turns is None else own.turns[1]
            last, fewest, is_known = at * min(own.most, bound), own.fewest_turns(bound), own.known_turns(bound) > 0
            found.append(Dimension(bound, at, last, at, none, at * turns, at * is_known, fewest, own.most))
        return Lattice(tuple(found))

    @cached_property
    def rows(self) -> tuple[AxisRows, ...]:
        """Return the axes of the input with their outputs and taps."""
        layer = self.problem.layer
        return tuple(
            _rows_of(
                axis,
                layer.bounds[axis.output_loop],
                layer.bounds[axis.filter_loop],
                self.units[LOOPS.index(axis.filter_loop)].most == 1,
                all(self.units[LOOPS.index(one)].most == 1 for one in (axis.output_loop, axis.filter_loop)),
            )
            for axis in layer.axes
        )


@lru_cache(maxsize=1 << 8)
def _rows_of(axis: Axis, outputs: int, taps: int, taps_are_neighbours: bool, all_are_neighbours: bool) -> AxisRows:
    """Return an axis' rows, cached with their derived tables, since a split changes few of them."""
    return AxisRows(axis, outputs, taps, taps_are_neighbours, all_are_neighbours)


def told_apart(kinds: Kinds, bounds: Sequence[int], units: Sequence[Units], *, further: bool) -> list[Kinds]:
    """Return the disjoint cases of a single unrolling, or an empty list if it cannot be split.

    Cases split by the first loop that leaves units idle, then by executed iterations: each number separately if units
    are idle, else the fewest and all others. With `further`, these others and all other loops are split as well.
    """
    unknown = [at for at, own in enumerate(kinds) if own.idle is Idleness.UNKNOWN and units[at].most > 1]
    known = [at for at, own in enumerate(kinds) if own.idle is not Idleness.UNKNOWN]
    if not known:
        return list(_by_idleness(kinds, bounds, units, unknown)) if unknown else []
    untold = [at for at in known if kinds[at].turns is None]
    several = [at for at in known if units[at].known_turns(bounds[at]) == 0]
    for loops in (untold, [at for at in several if units[at].any_is_idle], several if further else []):
        if loops:
            return list(_by_turns(kinds, bounds, units, loops))
    return list(_by_idleness(kinds, bounds, units, unknown)) if unknown and further else []


def _by_idleness(kinds: Kinds, bounds: Sequence[int], units: Sequence[Units], loops: Sequence[int]) -> Iterator[Kinds]:
    """Yield the cases by the first of these loops that leaves units idle, then the case without idle units."""
    found = list(kinds)
    for at in loops:
        if idle_turns(bounds[at], replace(units[at], any_is_idle=True)):
            yield (*found[:at], LoopKind(Idleness.SOME), *kinds[at + 1 :])
        found[at] = LoopKind(Idleness.NONE)
    yield tuple(found)


def _by_turns(kinds: Kinds, bounds: Sequence[int], units: Sequence[Units], loops: Sequence[int]) -> Iterator[Kinds]:
    """Yield the cases by the first of these loops with more than the fewest iterations, then the case without one."""
    possible = {at: possible_turns(bounds[at], units[at]) for at in loops}
    others = list(kinds)
    for at, own in possible.items():
        others[at] = replace(kinds[at], turns=(own[0], own[-1]))
    found = list(others)
    for at, (fewest, *more) in possible.items():
        apart = more[:MOST_APART] if units[at].any_is_idle else []
        rest = [(more[len(apart)], more[-1])] if more[len(apart) :] else []
        for turns in [*((one, one) for one in apart), *rest]:
            yield (*found[:at], replace(kinds[at], turns=turns), *others[at + 1 :])
        found[at] = replace(kinds[at], turns=(fewest, fewest))
    yield tuple(found)


def possible_turns(bound: int, units: Units) -> Sequence[int]:
    """Return the possible numbers of iterations of a loop with a known case, fewest first."""
    if units.any_is_idle:
        return [one for one in idle_turns(bound, replace(units, turns=None)) if units.may_take(one)]
    fewest, most = units.turns or (units.fewest_turns(bound), most_turns(bound, units))
    return range(fewest, most + 1)
