"""The shares of units that an unrolling uses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, Protocol, TypeAlias, cast

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

Number: TypeAlias = float
"""A number, or in floors of many tiles an array of numbers by tile: numpy adds and multiplies both alike."""
Bound: TypeAlias = int | NDArray[np.int64]
"""The bound of a loop, or its bounds by tile."""
SideBySide: TypeAlias = Callable[[int, Sequence[Bound]], Number]
"""Maximum number of units at work along a dimension of so many units that unrolls loops of these bounds."""


@dataclass(frozen=True, slots=True)
class UnitShares:
    """Upper bounds on sharing among units, and the lower bound `moved`; numbers, or arrays by tile.

    `at_work`: units at work at once. `serving`: units that one instance serves with one element in a cycle, by operand
    and memory. `adding`: products of one sum that a memory of outputs receives in a cycle. `moved`: the fraction that
    the cost model counts of an operand's moves between memories, and of weights that the units read.
    """

    at_work: Number
    serving: Mapping[Operand, Mapping[str, Number]]
    moved: Mapping[Operand, Number]
    adding: Mapping[str, Number]

    def in_one_axis(self, shape: tuple[int, ...]) -> UnitShares:
        """Return the shares as flat arrays, broadcast to `shape` first."""

        def flat(number: Number) -> Number:
            return cast("Number", np.broadcast_to(number, shape).ravel())

        return UnitShares(
            flat(self.at_work),
            {operand: {name: flat(one) for name, one in own.items()} for operand, own in self.serving.items()},
            self.moved,
            {name: flat(one) for name, one in self.adding.items()},
        )


class Sharing(Protocol):
    """Known properties of the mappings that a mapper finds."""

    @property
    def every_memory_keeps(self) -> bool:
        """True if an operand passes each memory that holds it (no bypass)."""

    @property
    def is_of_every_shape(self) -> bool:
        """True if the shares depend on all shapes, not only on the largest."""

    @property
    def divides_loops(self) -> bool:
        """True if unrollings are factors of the loop bounds, so that each shape has different shares."""

    def of(self, shapes: Sequence[Layer]) -> UnitShares:
        """Return the shares of a layer in tiles of these shapes, the largest first."""

    def of_tiles(self, layer: Layer, sizes: Mapping[str, NDArray[np.int64]]) -> UnitShares:
        """Return the shares of many tiles in flat arrays, or of the layer itself without `sizes`.

        `sizes` maps loops to their bounds by tile, which broadcast. All other loops have the layer's bounds.
        """


@dataclass(slots=True)
class AnyUnrolling:
    """Shares over all unrollings that the array supports, counted as the interpreter does.

    With `divides_loops`, unrollings are factors of the loop bounds: 2 of 14 columns, not 4, on an array dimension of 4.
    """

    accelerator: Accelerator
    every_memory_keeps: bool = False
    divides_loops: bool = False
    _same: Mapping[Operand, Mapping[str, tuple[str, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self._same = {operand: self._loops_of_the_same(operand) for operand in Operand}

    @property
    def is_of_every_shape(self) -> bool:
        """False, because larger loop bounds never lower a share."""
        return False

    def of(self, shapes: Sequence[Layer]) -> UnitShares:
        """Return the shares of the largest shape with arbitrary unrolling, which bound those of the other shapes."""
        return self._shares(shapes[0].bounds, _most_in_any_parts)

    def of_tiles(self, layer: Layer, sizes: Mapping[str, NDArray[np.int64]]) -> UnitShares:
        """Return the shares of each tile, with unrollings that are factors of the bounds if `divides_loops`."""
        bounds: Mapping[str, Bound] = {**layer.bounds, **sizes}
        found = self._shares(bounds, most_in_factors if self.divides_loops else _most_in_any_parts)
        return found.in_one_axis(np.broadcast_shapes(*(one.shape for one in sizes.values()))) if sizes else found

    def _shares(self, bounds: Mapping[str, Bound], most: SideBySide) -> UnitShares:
        array = array_of(self.accelerator)
        at_work = prod(
            most(size, [bounds[loop] for loop in loops_along(array, name)]) for name, size in array.sizes.items()
        )
        serving = {operand: self._serving(bounds, operand, most) for operand in Operand}
        return UnitShares(at_work, serving, dict.fromkeys(Operand, 1.0), serving[Operand.OUTPUT])

    def _serving(self, bounds: Mapping[str, Bound], operand: Operand, most: SideBySide) -> Mapping[str, Number]:
        sizes, same = array_of(self.accelerator).sizes, self._same[operand]
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


def _most_in_any_parts(units: int, bounds: Sequence[Bound]) -> Number:
    found = prod(bounds)
    return min(units, found) if isinstance(found, int) else cast("Number", np.minimum(units, found))


def most_in_factors(units: int, bounds: Sequence[Bound]) -> Number:
    """Return the maximum number of units at work if the unrolling of each loop is a factor of its bound.

    Bounds that are arrays broadcast, and the result has their shape.
    """
    found = {1}
    for bound in (one for one in bounds if isinstance(one, int)):
        factors = [factor for factor in range(1, min(units, bound) + 1) if bound % factor == 0]
        found = {one * factor for one in found for factor in factors if one * factor <= units}
    varied = [one for one in bounds if not isinstance(one, int)]
    return _most_within(units, sorted(found), varied) if varied else max(found)


def _most_within(limit: int, products: Sequence[int], bounds: Sequence[NDArray[np.int64]]) -> Number:
    """Return the largest number within a limit that is one of the products times a factor of each bound."""
    if not bounds:
        return products[bisect_right(products, limit) - 1]
    bound = bounds[-1]
    found: Any = 0
    others: dict[int, Number] = {}
    for factor in range(1, min(limit, int(bound.max())) + 1):
        is_factor = bound % factor == 0
        if is_factor.any():
            left = limit // factor
            if left not in others:
                others[left] = _most_within(left, products, bounds[:-1])
            found = np.maximum(found, np.where(is_factor, factor * others[left], 0))
    return cast("Number", found)


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
