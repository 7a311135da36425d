"""Number of units that an element serves at once, if a rule gives the spatial unrolling.

It models mappers that count as DeFiNES does. Units count in parts, so the elements that a cycle takes from a memory are
known. Only part of the data movement counts, because tile sizes are rounded down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, pairwise, product
from math import floor, prod
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_problem import leaves_something_out
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.layer.unit_shares import AXES, Number, UnitShares, holders
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT, Axis, Layer
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import SideBySide, sides_of
from onchip.model.layer.tiles import EPSILON, nearest, touched
from onchip.model.unrolling.unrolling import Unrolled, UnrollingsOf, divisors, unrolled_as_asked

_BESIDE_WINDOWS: Final = {
    Operand.INPUT: [loop for loop in RELEVANT[INPUT] if loop not in "PQRS"],
    Operand.WEIGHT: RELEVANT[WEIGHT],
    Operand.OUTPUT: RELEVANT[OUTPUT],
}
_LEAST_ROUNDED: Final = 2 / 3
"""Least fraction of a number of at least 1 that remains after rounding to the nearest integer."""


@dataclass(slots=True)
class GivenUnrolling:
    """Unit shares over the unrollings of a rule, counted as DeFiNES does, for mappings that bypass no memory."""

    accelerator: Accelerator
    unrollings: UnrollingsOf
    _known: dict[Layer, tuple[UnitShares, ...]] = field(default_factory=dict)

    @property
    def every_memory_keeps(self) -> bool:
        """True if every memory that holds an operand keeps a tile of it, as in LOMA's mappings."""
        return True

    @property
    def is_of_every_shape(self) -> bool:
        """True, because each shape has its own fractional unrolling."""
        return True

    @property
    def divides_loops(self) -> bool:
        """False, because units count in parts and no loop is divided."""
        return False

    def of_tiles(self, layer: Layer, sizes: Mapping[str, NDArray[np.int64]]) -> UnitShares:
        """Return for each tile the most favourable shares over all unrollings of its shape."""
        if not sizes:
            return self.of((layer,))
        each = np.broadcast_arrays(*sizes.values())
        bounds = zip(*(one.ravel().tolist() for one in each), strict=True)
        of_tiles = [self.of((_in_tile(layer, dict(zip(sizes, one, strict=True))),)) for one in bounds]
        return UnitShares(
            _by_tile(one.at_work for one in of_tiles),
            {
                operand: {name: _by_tile(one.serving[operand][name] for one in of_tiles) for name in serving}
                for operand, serving in of_tiles[0].serving.items()
            },
            {operand: _by_tile(one.moved[operand] for one in of_tiles) for operand in Operand},
            {name: _by_tile(one.adding[name] for one in of_tiles) for name in of_tiles[0].adding},
        )

    def of(self, shapes: Sequence[Layer]) -> UnitShares:
        """Return the most favourable value of each share over all shapes and unrollings."""
        every = [one for shape in shapes for one in self._of_shape(shape)]
        return UnitShares(
            max(one.at_work for one in every),
            {
                operand: {name: max(one.serving[operand][name] for one in every) for name in serving}
                for operand, serving in every[0].serving.items()
            },
            {operand: min(one.moved[operand] for one in every) for operand in Operand},
            {name: max(one.adding[name] for one in every) for name in every[0].adding},
        )

    def _of_shape(self, layer: Layer) -> tuple[UnitShares, ...]:
        if layer not in self._known:
            self._known[layer] = tuple(
                _Parts(layer, self.accelerator, unrolled_as_asked(layer, self.accelerator, one)).shares()
                for one in self.unrollings(layer, self.accelerator)
            )
        return self._known[layer]


def _by_tile(numbers: Iterable[Number]) -> Number:
    return cast("Number", np.array(list(numbers)))


def _in_tile(layer: Layer, bounds: Mapping[str, int]) -> Layer:
    changes: dict[str, Any] = {loop.lower(): bound for loop, bound in bounds.items()}
    return replace(layer, **changes)


class _Parts:
    """A layer unrolled over fractional units. Index 0 of the sides is the units, and the last index is DRAM."""

    def __init__(self, layer: Layer, accelerator: Accelerator, unrolled: Unrolled) -> None:
        self._accelerator = accelerator
        self._macs = layer.macs
        self._axes = layer.axes
        self._turns = unrolled.turns
        self._leaves_something_out = leaves_something_out(accelerator.levels, layer)
        self._sides: SideBySide = sides_of(
            array_of(accelerator), accelerator.levels, unrolled.beside, unrolled.parts(layer)
        )
        windows = [[self._touched(axis, holder) for axis in self._axes] for holder in range(len(self._sides.within))]
        self._windows = [prod(along) for along in windows]
        self._spread = [prod(within[loop] for loops in AXES for loop in loops) for within in self._sides.within]

    def shares(self) -> UnitShares:
        """Return the exact shares of this unrolling, with `moved` a lower bound."""
        cycles, serving, moved = prod(self._turns.values()), dict[Operand, Mapping[str, float]](), {}
        numbers = {level.memory.name: at for at, level in enumerate(self._accelerator.levels, start=1)}
        numbers[DRAM] = len(numbers) + 1
        for operand in Operand:
            chain = [numbers[name] for name, _ in holders(self._accelerator, operand)]
            elements = {at: self._elements(operand, at) for at in (0, *chain)}
            taken = {at: floor(elements[at] + EPSILON) * nearest(self._sides.apart[at]) for at in chain}
            serving[operand] = {
                name: self._macs / (cycles * taken[numbers[name]]) for name, _ in holders(self._accelerator, operand)
            }
            ends = [0, *chain] if operand is Operand.WEIGHT else chain
            pairs = combinations(ends, 2) if self._leaves_something_out else pairwise(ends)
            parts = (self._moved(operand, *pair, elements[pair[1]] / elements[pair[0]]) for pair in pairs)
            moved[operand] = min(parts, default=1.0)
        adding = {
            name: prod(self._sides.within[numbers[name]][loop] for loop in "CRS")
            for name, _ in holders(self._accelerator, Operand.OUTPUT)
        }
        return UnitShares(self._macs / cycles, serving, moved, adding)

    def _elements(self, operand: Operand, holder: int) -> float:
        """Return the number of elements of an operand that one instance supplies or receives in a cycle."""
        found = self._beside_windows(operand, holder)
        return found * self._windows[holder] if operand is Operand.INPUT else found

    def _beside_windows(self, operand: Operand, holder: int) -> float:
        """Return the number of elements along the loops that form no sliding window."""
        within = self._sides.within[holder]
        return prod([within[loop] for loop in _BESIDE_WINDOWS[operand]])

    def _moved(self, operand: Operand, lower: int, upper: int, joint: float) -> float:
        """Return the least fraction of the transfers across a boundary that counts on either side, for any tile below.

        One instance above supplies `joint` tiles below in a cycle.
        """
        apart, rounded = self._sides.apart, _least_rounded(self._beside_windows(operand, lower))
        below, above = (rounded * min(nearest(apart[side]) / apart[side], 1.0) for side in (lower, upper))
        above *= floor(joint + EPSILON) / joint
        if operand is Operand.INPUT:
            kept = prod(self._least_kept(axis, lower) for axis in self._axes)
            below *= kept
            above *= kept * self._windows[upper] / self._windows[lower] / (self._spread[upper] / self._spread[lower])
        return min(below, above, 1.0)

    def _least_kept(self, axis: Axis, lower: int) -> float:
        below, everywhere = self._sides.within[lower], self._sides.within[-1]
        outputs, filters = (
            (self._turns[loop], below[loop], everywhere[loop]) for loop in (axis.output_loop, axis.filter_loop)
        )
        return _least_kept(axis.stride, axis.dilation, outputs, filters)

    def _touched(self, axis: Axis, holder: int) -> int:
        within = self._sides.within[holder]
        return floor(touched(axis.stride, axis.dilation, within[axis.output_loop], within[axis.filter_loop]) + EPSILON)


def _least_rounded(elements: float) -> float:
    """Return the least fraction that remains if any multiple of `elements` is rounded to the nearest integer."""
    return 1.0 if abs(elements - round(elements)) < EPSILON else max(_LEAST_ROUNDED, 1 - 0.5 / elements)


@lru_cache(maxsize=1 << 16)
def _least_kept(
    stride: int, dilation: int, outputs: tuple[int, float, float], filters: tuple[int, float, float]
) -> float:
    """Return the least fraction of the positions touched along an axis that tiles, rounded down, have together.

    `outputs` and `filters` each hold the temporal iterations, the unrolling within an instance, and the whole
    unrolling.
    """
    (turns, below, everywhere), (turns_of_taps, taps_below, taps_everywhere) = outputs, filters
    apart = everywhere / below * taps_everywhere / taps_below
    least = min(
        turns
        // inner
        * (turns_of_taps // taps)
        * floor(touched(stride, dilation, inner * below, taps * taps_below) + EPSILON)
        for inner, taps in product(divisors(turns), divisors(turns_of_taps))
    )
    return least * apart / touched(stride, dilation, turns * everywhere, turns_of_taps * taps_everywhere)
