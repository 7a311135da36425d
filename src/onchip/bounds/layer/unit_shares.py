"""How many units an element serves at once, at most: what floors of layers' costs depend on, whatever the mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final, Protocol, TypeAlias

from onchip.answer.layer_mapping import loops_along
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.ir.layer import RELEVANT, Layer
from onchip.model.layer.limits import array_of

AXES: Final = (("P", "R"), ("Q", "S"))
"""The two loops of each axis of the input: different pairs of them may want the same position."""

SideBySide: TypeAlias = Callable[[int, Sequence[int]], int]
"""Of so many units along a dimension those at work at most, where they take of loops of these bounds."""


@dataclass(frozen=True, slots=True)
class UnitShares:
    """What is at most so: units at work, and what `moved` is at least so.

    `serving`: by operand and memory, how many units one instance serves with an element in a cycle. `adding`: by memory
    of outputs, how many products of a sum it gets in a cycle. `moved`: the part that is counted of an operand's
    elements that move between memories, and of weights that the units take.
    """

    at_work: float
    serving: Mapping[Operand, Mapping[str, float]]
    moved: Mapping[Operand, float]
    adding: Mapping[str, float]


class Sharing(Protocol):
    """What is known of the mappings that a mapper finds."""

    @property
    def every_memory_keeps(self) -> bool:
        """Whether an operand passes each memory that holds it."""

    @property
    def is_of_every_shape(self) -> bool:
        """Whether all shapes matter, not only the largest."""

    @property
    def divides_loops(self) -> bool:
        """Whether units take whole factors of loops: then no other shape has the shares of one."""

    def of(self, shapes: Sequence[Layer]) -> UnitShares:
        """Of a layer in tiles of these shapes, the largest first."""

    def of_one(self, shape: Layer) -> UnitShares:
        """Of a layer in tiles of this very shape."""


@dataclass(slots=True)
class AnyUnrolling:
    """The units take whatever loops the array unrolls; counted as the interpreter does.

    Where it `divides_loops` side by side are whole factors of them: of 14 columns 2, not 4, on an array of 4.
    """

    accelerator: Accelerator
    every_memory_keeps: bool = False
    divides_loops: bool = False
    _same: Mapping[Operand, Mapping[str, tuple[str, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self._same = {operand: self._loops_of_the_same(operand) for operand in Operand}

    @property
    def is_of_every_shape(self) -> bool:
        """More to unroll is never worse."""
        return False

    def of(self, shapes: Sequence[Layer]) -> UnitShares:
        """Return the shares of the largest shape in any parts, which are at least those of the others."""
        return self._shares(shapes[0].bounds, _most_in_any_parts)

    def of_one(self, shape: Layer) -> UnitShares:
        """Return the shares of one shape, in whole factors where loops are divided."""
        return self._shares(shape.bounds, most_in_factors if self.divides_loops else _most_in_any_parts)

    def _shares(self, bounds: Mapping[str, int], most: SideBySide) -> UnitShares:
        array = array_of(self.accelerator)
        at_work = prod(
            most(size, [bounds[loop] for loop in loops_along(array, name)]) for name, size in array.sizes.items()
        )
        serving = {operand: self._serving(bounds, operand, most) for operand in Operand}
        return UnitShares(at_work, serving, dict.fromkeys(Operand, 1.0), serving[Operand.OUTPUT])

    def _serving(self, bounds: Mapping[str, int], operand: Operand, most: SideBySide) -> Mapping[str, float]:
        sizes, same = array_of(self.accelerator).sizes, self._same[operand]
        units = {name: most(size, [bounds[loop] for loop in same[name]]) for name, size in sizes.items()}
        return {
            name: prod(count for along, count in units.items() if level is None or serves(level, along))
            for name, level in holders(self.accelerator, operand)
        }

    def _loops_of_the_same(self, operand: Operand) -> Mapping[str, tuple[str, ...]]:
        """By dimension, along which units want the same element.

        Of the input also where windows overlap, both loops unrolled.
        """
        array = array_of(self.accelerator)
        unrolled = {loop for name in array.sizes for loop in loops_along(array, name)}
        same = {loop for loop in unrolled if loop not in RELEVANT[operand]}
        if operand is Operand.INPUT:
            same |= {loop for axis in AXES if set(axis) <= unrolled for loop in axis}
        return {name: tuple(loop for loop in loops_along(array, name) if loop in same) for name in array.sizes}


def _most_in_any_parts(units: int, bounds: Sequence[int]) -> int:
    return min(units, prod(bounds))


def most_in_factors(units: int, bounds: Sequence[int]) -> int:
    """Return how many of the units are at work at most, where they take a whole factor of each of these loops."""
    found = {1}
    for bound in bounds:
        factors = [factor for factor in range(1, min(units, bound) + 1) if bound % factor == 0]
        found = {one * factor for one in found for factor in factors if one * factor <= units}
    return max(found)


def holders(accelerator: Accelerator, operand: Operand) -> Iterator[tuple[str, MemoryLevel | None]]:
    """From where units may take the operand, nearest first; DRAM is no level."""
    for level in accelerator.levels:
        if operand in level.memory.holds:
            yield level.memory.name, level
    yield DRAM, None


def serves(level: MemoryLevel, along: str) -> bool:
    """Whether one instance has all units along a dimension of the array."""
    return level.serves is None or along in level.serves
