"""The shares of units that an unrolling uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import loops_along
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, MemoryLevel, Operand
from onchip.ir.layer import RELEVANT, Layer
from onchip.model.layer.limits import array_of

AXES: Final = (("P", "R"), ("Q", "S"))
"""The two loops of each axis of the input: different pairs of them may want the same position."""
SideBySide: TypeAlias = Callable[[int, Sequence[int]], int]
"""Maximum number of units at work along a dimension of so many units that unrolls loops of these bounds."""


@dataclass(frozen=True, slots=True)
class UnitShares:
    """Upper bounds on sharing among units.

    `at_work`: units at work at once. `serving`: units that one instance serves with one element in a cycle, by operand
    and memory; of outputs, the products of one sum that a memory receives in a cycle.
    """

    at_work: int
    serving: Mapping[Operand, Mapping[str, int]]


@dataclass(slots=True)
class AnyUnrolling:
    """Shares over all unrollings that the array supports, counted as the interpreter does.

    With `every_memory_keeps` an operand passes each memory that holds it. With `divides_loops` unrollings are factors
    of the loop bounds: 2 of 14 columns, not 4, on an array dimension of 4.
    """

    accelerator: Accelerator
    every_memory_keeps: bool = False
    divides_loops: bool = False
    _same: Mapping[Operand, Mapping[str, tuple[str, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self._same = {operand: self._loops_of_the_same(operand) for operand in Operand}

    def of(self, layer: Layer) -> UnitShares:
        """Return the shares of a layer, which also bound those of its tiles unless unrollings are factors."""
        array, bounds, most = array_of(self.accelerator), layer.bounds, self._most
        at_work = prod(
            most(size, [bounds[loop] for loop in loops_along(array, name)]) for name, size in array.sizes.items()
        )
        return UnitShares(at_work, {operand: self._serving(bounds, operand) for operand in Operand})

    @property
    def _most(self) -> SideBySide:
        return most_in_factors if self.divides_loops else lambda units, bounds: min(units, prod(bounds))

    def _serving(self, bounds: Mapping[str, int], operand: Operand) -> Mapping[str, int]:
        sizes, same, most = array_of(self.accelerator).sizes, self._same[operand], self._most
        units = {name: most(size, [bounds[loop] for loop in same[name]]) for name, size in sizes.items()}
        return {
            name: prod(count for along, count in units.items() if level is None or serves(level, along))
            for name, level in holders(self.accelerator, operand)
        }

    def _loops_of_the_same(self, operand: Operand) -> Mapping[str, tuple[str, ...]]:
        """Map each array dimension to its loops along which units may use the same element.

        For inputs this includes both loops of overlapping windows, if both can be unrolled.
        """
        array = array_of(self.accelerator)
        unrolled = {loop for name in array.sizes for loop in loops_along(array, name)}
        same = {loop for loop in unrolled if loop not in RELEVANT[operand]}
        if operand is Operand.INPUT:
            same |= {loop for axis in AXES if set(axis) <= unrolled for loop in axis}
        return {name: tuple(loop for loop in loops_along(array, name) if loop in same) for name in array.sizes}


def most_in_factors(units: int, bounds: Sequence[int]) -> int:
    """Return the maximum number of units at work if the unrolling of each loop is a factor of its bound."""
    found = {1}
    for bound in bounds:
        factors = [factor for factor in range(1, min(units, bound) + 1) if bound % factor == 0]
        found = {one * factor for one in found for factor in factors if one * factor <= units}
    return max(found)


def holders(accelerator: Accelerator, operand: Operand) -> Iterator[tuple[str, MemoryLevel | None]]:
    """Yield the memories that hold the operand, nearest first, with their levels; DRAM comes last, with None."""
    for level in accelerator.levels:
        if operand in level.memory.holds:
            yield level.memory.name, level
    yield DRAM, None


def serves(level: MemoryLevel, along: str) -> bool:
    """Return True if one instance serves all units along a dimension of the array."""
    return level.serves is None or along in level.serves


Array: TypeAlias = NDArray[np.float64]
Serves: TypeAlias = Callable[[str], bool]
"""True if one instance of a memory serves all units along a dimension of the array."""
MOST_UNROLLINGS: Final = 1 << 17
"""Limit on the unrollings of one nest: 1 MB per array."""
_CLASSES: Final = ("NPQ", "K", "CRS")
"""Loops that are irrelevant to weights, to inputs (except through windows), and to outputs."""


@dataclass(frozen=True, slots=True)
class UnrolledUnits:
    """Units along each dimension of the array, by class of loops. Arrays have an element for each unrolling.

    `split` holds the dimensions whose unrollings are enumerated. The other dimensions count with their maximum `most`.
    """

    layer: Layer
    sizes: Mapping[str, int]
    loops: Mapping[str, Sequence[str]]
    most: Mapping[str, tuple[int, ...]]
    split: Mapping[str, Sequence[Array]]

    @classmethod
    def of(cls, array: ComputeArray, layer: Layer, nearest: Sequence[Serves]) -> UnrolledUnits | None:
        """Enumerate the unrollings of dimensions along which a nearest memory serves units; None if too many."""
        loops = {along: loops_along(array, along) for along in array.sizes}
        most = {
            along: tuple(min(size, _product(layer, kind, loops[along])) for kind in _CLASSES)
            for along, size in array.sizes.items()
        }
        chosen = [along for along in array.sizes if any(serves(along) for serves in nearest)]
        parts = [np.array(list(_splits(array.sizes[along], most[along])), dtype=np.float64) for along in chosen]
        count = prod(map(len, parts))
        if count > MOST_UNROLLINGS:
            return None
        grid = np.indices([len(part) for part in parts]).reshape(len(parts), count)
        split = {along: tuple(part[at].T) for along, part, at in zip(chosen, parts, grid, strict=True)}
        return cls(layer, array.sizes, loops, most, split)

    def at_work(self, serves: Serves) -> Array:
        """Return the maximum number of units at work for one instance of a memory."""
        found = np.ones(1)
        for along, kinds in self.split.items():
            if serves(along):
                used = kinds[0] * kinds[1] * kinds[2]
                groups = self.layer.g if "G" in self.loops[along] else 1
                found = found * used * np.clip(self.sizes[along] // used, 1, groups)
        return found

    def sharing(self, operand: Operand, serves: Serves) -> Array:
        """Return the maximum number of these units that read one element, or add to one sum, in a cycle."""
        if operand is Operand.OUTPUT:
            return self._units(2, serves)
        if operand is Operand.WEIGHT:
            return self._units(0, serves)
        return self._units(1, serves) * np.minimum(self._in_windows(serves), self._units(2, serves))

    def additions(self, serves: Serves) -> Array:
        """Return the minimum number of additions to one sum: C, R and S are each split among the units that add up.

        Parts of a loop that these units do not cover at once are added one after the other, or in other instances.
        """
        most = [self.layer.bounds[loop] for loop in _CLASSES[2]]
        found = np.full(prod(most) + 1, float(prod(most)))
        for across in product(*(sorted({-(-bound // parts) for parts in range(1, bound + 1)}) for bound in most)):
            parts = prod(-(-bound // one) for bound, one in zip(most, across, strict=True))
            found[prod(across)] = min(found[prod(across)], parts)
        least: Array = np.minimum.accumulate(found)[self._units(2, serves).astype(np.int64)]
        return least

    def using(self, operand: Operand, serves: Serves) -> Array:
        """Return the maximum number of these units that ever read one input or weight element while it stays."""
        if operand is Operand.WEIGHT:
            return self._units(0, serves)
        return self._units(1, serves) * self._in_windows(serves)

    def adding_beside(self, serves: Serves) -> Array:
        """Return the maximum number of instances of a memory in which one sum may begin."""
        return self._units(2, lambda along: not serves(along))

    def _in_windows(self, serves: Serves) -> Array:
        """Return the maximum number of units that see one input through different windows."""
        unrolled = {loop for loops in self.loops.values() for loop in loops}
        taps = prod(self.layer.bounds[taps] for outputs, taps in AXES if {outputs, taps} <= unrolled)
        return np.minimum(self._units(0, serves), taps)

    def _units(self, kind: int, serves: Serves) -> Array:
        """Return the spatial unrolling of the loops of a class over the dimensions that a memory serves."""
        found = np.ones(1)
        for along in self.sizes:
            if serves(along):
                found = found * (self.split[along][kind] if along in self.split else float(self.most[along][kind]))
        return np.minimum(found, _product(self.layer, _CLASSES[kind], _CLASSES[kind]))


def _product(layer: Layer, kind: str, loops: Sequence[str]) -> int:
    """Return the product of the bounds of the loops that are both in a class and in `loops`."""
    return prod(bound for loop, bound in layer.bounds.items() if loop in kind and loop in loops)


def _splits(size: int, most: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the units along the three classes of loops for each unrolling, including those with idle units."""
    for first in range(1, most[0] + 1):
        for second in range(1, min(most[1], size // first) + 1):
            for third in range(1, min(most[2], size // (first * second)) + 1):
                yield first, second, third
