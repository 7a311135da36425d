"""One operand's boundaries in some ways to use the array: how many elements cross them, how large its tiles are.

All by cell of a lattice: that of the place in the nest up to which a tile stays, the loops right above its cut along
which the same tile is used again included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from math import ceil, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.cost.layer.limits import array_of
from onchip.ir.layer import LOOPS, RELEVANT
from onchip.solve.mapping.wide.dimension import Dimension, Units
from onchip.solve.mapping.wide.lattice import Along, Lattice, Served
from onchip.solve.mapping.wide.rows import AxisRows
from onchip.solve.mapping.wide.ways import Ways

LEADING: Final = {
    operand: tuple(at for at, loop in enumerate(LOOPS) if loop in RELEVANT[operand]) for operand in Operand
}
OTHERS: Final = {operand: tuple(at for at in range(len(LOOPS)) if at not in LEADING[operand]) for operand in Operand}
CHANNELS: Final = tuple(at for at in LEADING[Operand.INPUT] if LOOPS[at] not in "PQRS")
ADDING: Final = OTHERS[Operand.OUTPUT]


class Kind(Enum):
    """Which mappings of one way are meant: `Units.fewest_idle_turns` tells them apart, loop by loop."""

    ANY = auto()
    ALL_AT_WORK = auto()
    SOME_IDLE = auto()


@dataclass(frozen=True)
class UnrolledWays:
    """Some ways to put a layer's loops beside each other: units of each loop along each dimension of the array.

    `least` and `most` are by dimension and loop; where they are the same it is one way. Then it may be of one `kind`
    only; `idle` is the first loop whose units may be, where some are.
    """

    problem: LayerProblem
    least: Ways
    most: Ways
    kind: Kind = Kind.ANY
    idle: int | None = None

    @property
    def is_one(self) -> bool:
        """Return whether nothing is left to choose."""
        return bool((self.least == self.most).all())

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Return the iterations of each loop."""
        return tuple(self.problem.layer.bounds.values())

    @cached_property
    def units(self) -> tuple[Units, ...]:
        """Return by loop how many units stand beside each other."""
        each = zip(self.least.T, self.most.T, strict=True)
        return tuple(
            Units(
                int(low.prod()),
                int(high.prod()),
                tuple(int(one) for one in low if one > 1) if (low == high).all() else None,
                self.kind is Kind.ALL_AT_WORK or (self.idle is not None and loop < self.idle),
            )
            for loop, (low, high) in enumerate(each)
        )

    def kinds(self) -> Iterator[UnrolledWays]:
        """Yield all mappings of one way apart: by the first loop that leaves units idle in some place, or none."""
        yield replace(self, kind=Kind.ALL_AT_WORK)
        for loop, own in enumerate(self.units):
            if own.most > 1:
                yield replace(self, kind=Kind.SOME_IDLE, idle=loop)

    @cached_property
    def whole(self) -> Served:
        """Return what one instance of a memory serves that serves all."""
        return Served((True,) * len(self.most), tuple(one.most for one in self.units), (1,) * len(LOOPS))

    @cached_property
    def levels(self) -> dict[str, MemoryLevel]:
        """Return the memories on the chip by name."""
        return {level.memory.name: level for level in self.problem.levels}

    def served(self, memory: str) -> Served:
        """Return what one instance of a memory, or DRAM, serves."""
        return self._served[memory]

    @cached_property
    def _served(self) -> dict[str, Served]:
        names = array_of(self.problem.accelerator).sizes
        found = {DRAM: self.whole}
        for memory, level in self.levels.items():
            along = np.array([level.serves is None or name in level.serves for name in names])
            sizes = self.most[along].prod(axis=0), self.most[~along].prod(axis=0)
            found[memory] = Served(tuple(along.tolist()), *(tuple(own.tolist()) for own in sizes))
        return found

    def together(self, loops: Sequence[int], served: Served) -> int:
        """Return how many units of these loops an instance serves at most: a dimension's are shared by its loops."""
        others = [at for at in range(len(LOOPS)) if at not in loops]
        most, least = self.most[:, [*loops]].prod(axis=1), self.least[:, others].prod(axis=1)
        units = array_of(self.problem.accelerator).sizes.values()
        each = zip(most, least, units, served.along, strict=True)
        return prod(min(int(high), size // int(low)) for high, low, size, is_served in each if is_served)

    @cached_property
    def fewest_turns(self) -> list[int]:
        """Return by loop how many turns it takes at least."""
        found = [-(-bound // own.most) for bound, own in zip(self.bounds, self.units, strict=True)]
        if self.idle is not None:
            idle = self.units[self.idle].fewest_idle_turns(self.bounds[self.idle])
            found[self.idle] = max(found[self.idle], idle)
        return found

    @property
    def least_turns(self) -> float:
        """Return how often the array is at work, at least."""
        of_loops = self.fewest_turns
        return max(prod(of_loops), ceil(self.problem.layer.macs / self.together(range(len(LOOPS)), self.whole)))

    def memories(self, operand: Operand) -> Sequence[str]:
        """Return those that keep tiles of an operand, nearest the units first, and its home."""
        return [*(level.memory.name for level in self.problem.keepers(operand)), self.problem.home(operand)]

    @cached_property
    def at_units(self) -> Lattice:
        """Return the one place inside all loops in time, where every unit has an element for a cycle."""
        at, none = np.ones(1, np.int64), np.zeros(1)
        each = zip(self.bounds, self.units, strict=True)
        ends = (Dimension(bound, at, at * min(own.most, bound), at, none, shared_out=False) for bound, own in each)
        return Lattice(tuple(ends))

    @cached_property
    def rows(self) -> tuple[AxisRows, ...]:
        """Return the axes of the input with their outputs and taps."""
        layer = self.problem.layer
        return tuple(
            AxisRows(
                axis,
                layer.bounds[axis.output_loop],
                layer.bounds[axis.filter_loop],
                self.units[LOOPS.index(axis.filter_loop)].most == 1,
            )
            for axis in layer.axes
        )


@dataclass(frozen=True)
class OperandChain:
    """How an operand's tiles fall, whatever the order of loops."""

    way: UnrolledWays
    lattice: Lattice
    operand: Operand

    def moved(self, served: Served) -> Along:
        """Return how many elements move in all, to or from instances of so many units each, at least."""
        again = self.lattice.parts(OTHERS[self.operand], served)
        if self.lattice is self.way.at_units:
            all_others = prod(self.way.bounds[at] for at in OTHERS[self.operand])
            again = np.maximum(again, all_others / self.way.together(OTHERS[self.operand], served))
        return self.elements(served) + (again - 1) * self._elements_but_at_the_end(served)

    def elements(self, served: Served) -> Along:
        """Return how many move if each tile moves once."""
        if self.operand is not Operand.INPUT:
            return np.full((1,) * len(LOOPS), float(prod(self.way.bounds[at] for at in LEADING[self.operand])))
        found: Along = np.full((1,) * len(LOOPS), float(prod(self.way.bounds[at] for at in CHANNELS)))
        for rows, sides, (_, tap) in self._sides(served):
            found = found * rows.moved(*sides, taps_shared_out=self.lattice.dimensions[tap].shared_out)
        return found

    def _elements_but_at_the_end(self, served: Served) -> Along:
        """Without those that lie where a tile may stay instead of coming again."""
        lattice = self.lattice
        if self.operand is not Operand.INPUT:
            return self.elements(served) * (1 - lattice.stays(LEADING[self.operand]))
        if not any(lattice.dimensions[at].stays.any() for at in LEADING[Operand.INPUT]):
            return self.elements(served)
        found = prod(self.way.bounds[at] for at in CHANNELS) * (1 - lattice.stays(CHANNELS))
        for rows, sides, (output, tap) in self._sides(served):
            found = found * rows.moved_but_at_the_end(*sides, lattice.stays((output,)), lattice.stays((tap,)))
        return found

    def _sides(self, served: Served) -> Iterator[tuple[AxisRows, tuple[Along, Along], tuple[int, int]]]:
        """The input's axes, the most outputs and taps of a tile, and the loops of both."""
        for rows in self.way.rows:
            output, tap = LOOPS.index(rows.axis.output_loop), LOOPS.index(rows.axis.filter_loop)
            sides = self.lattice.most_size((output,), served), self.lattice.most_size((tap,), served)
            yield rows, sides, (output, tap)

    def largest(self, served: Served) -> Along:
        """Return how many elements the largest tile has, at least, of those that so many units share."""
        if self.operand is not Operand.INPUT:
            return self.lattice.least_size(LEADING[self.operand], served)
        found = self.lattice.least_size(CHANNELS, served)
        for rows in self.way.rows:
            sides = (LOOPS.index(rows.axis.output_loop),), (LOOPS.index(rows.axis.filter_loop),)
            found = found * rows.largest(*(self.lattice.least_size(side, served) for side in sides))
        return found

    def at_once(self, served: Served) -> Along:
        """Return how many elements move at once at most."""
        if self.operand is not Operand.INPUT:
            return self.lattice.most_size(LEADING[self.operand], served)
        found = self.lattice.most_size(CHANNELS, served)
        for rows, sides, _ in self._sides(served):
            found = found * rows.most(*sides)
        return found

    @cached_property
    def tiles(self) -> Along:
        """Return how many different tiles one instance has, at least."""
        return self.lattice.parts(LEADING[self.operand], self.way.whole)

    @cached_property
    def comes_again(self) -> Along:
        """Return how often each tile comes on average, at least."""
        again = self.lattice.parts(OTHERS[self.operand], self.way.whole)
        return 1 + (again - 1) * (1 - self.lattice.places_that_stay(LEADING[self.operand]))

    def is_incomplete(self, above: Served) -> NDArray[np.bool_]:
        """Return whether sums leave before all is added up, for an instance above of so many units."""
        found: NDArray[np.bool_] = self.lattice.parts(ADDING, above) > 1
        return found

    def bits_above(self, above: Served) -> Along:
        """Return the bits of an element, at least, where it comes to or from, in an instance of so many units."""
        layer = self.way.problem.layer
        if self.operand is not Operand.OUTPUT:
            return np.full((1,) * len(LOOPS), float(layer.bits(self.operand)))
        return np.where(self.is_incomplete(above), float(layer.partial_bits), float(layer.output_bits))

    def bits(self, lower: int, above: Served) -> Along:
        """Return its bits, at least, in the memory number `lower` of its chain, up to which it stays."""
        if self.operand is Operand.OUTPUT and lower == 0:
            nearest = self.way.served(self.way.memories(self.operand)[0])
            if any(self.way.bounds[at] > nearest.most[at] for at in ADDING):
                return np.full((1,) * len(LOOPS), float(self.way.problem.layer.partial_bits))
        return self.bits_above(above)

    def room_bits(self, lower: int) -> Along:
        """Return what the largest tile takes at least of the memory of that number; twice if another may come."""
        memories = self.way.memories(self.operand)
        level = self.way.levels[memories[lower]]
        need = self.largest(self.way.served(memories[lower])) * self.bits(lower, self.way.served(memories[lower + 1]))
        if level.double_buffered:
            need = need * np.where(self.lattice.is_whole(LEADING[self.operand]), 1, 2)
        return need

    def fits(self, lower: int) -> NDArray[np.bool_]:
        """Return whether the largest tile has room in the memory of that number, if nothing else is there."""
        memory = self.way.memories(self.operand)[lower]
        found: NDArray[np.bool_] = self.room_bits(lower) <= self.way.problem.room_bits(memory)
        return found
