"""Every tile that given factors of the loops in time can make, and how large it is in each memory.

A tile is a choice of factors, as many of each as it has inside; tiles are numbered in a mixed radix, so that one more
factor of a kind adds that kind's `step`. Holders are the units, the levels as the accelerator lists them, DRAM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from onchip.arch.accelerator import Accelerator
from onchip.cost.layer_limits import array_of
from onchip.cost.layer_tables import Flags, Integers, Reals
from onchip.ir.loopnest import INPUT, LOOPS, OUTPUT, RELEVANT, Layer
from onchip.plan.mapping import Loop

AXES: Final = ("P", "R", "Q", "S")
EPSILON: Final = 1e-9  # parts of units, multiplied, may lie as much below the whole number that they make


@dataclass(frozen=True, slots=True)
class Tiles:
    """Factors of the same loop and size are a kind; `inner` is the product of a loop's factors within a tile."""

    kinds: tuple[Loop, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    inner: dict[str, Integers]

    @property
    def number(self) -> int:
        """How many there are; the last has all factors inside."""
        return prod(count + 1 for count in self.counts)

    @property
    def iterations(self) -> Integers:
        """Of the loops inside."""
        found: Integers = np.prod([self.inner[loop] for loop in LOOPS], axis=0, dtype=np.int64)
        return found

    @property
    def sums_are_left(self) -> Flags:
        """Whether loops outside add to the outputs of the tile."""
        left = [self.inner[loop] < self.inner[loop][-1] for loop in LOOPS if loop not in RELEVANT[OUTPUT]]
        return np.asarray(np.any(left, axis=0))


def tiles_of(factors: Sequence[Loop]) -> Tiles:
    """Of loops in time, in any order."""
    counted = Counter(factors)
    steps: list[int] = []
    digits: list[Integers] = []
    number = prod(count + 1 for count in counted.values())
    for count in counted.values():
        steps.append(prod(one + 1 for one in list(counted.values())[: len(steps)]))
        digits.append(np.arange(number) // steps[-1] % (count + 1))
    inner = {loop: np.ones(number, np.int64) for loop in LOOPS}
    for kind, digit in zip(counted, digits, strict=True):
        inner[kind.dimension] *= kind.size**digit
    return Tiles(tuple(counted), tuple(counted.values()), tuple(steps), inner)


@dataclass(frozen=True, slots=True)
class Sides:
    """What stands side by side: within one instance of each holder by loop, and how many instances there are."""

    within: tuple[dict[str, float], ...]
    apart: tuple[float, ...]


def sides_of(accelerator: Accelerator, beside: Sequence[Loop], parts: dict[str, float]) -> Sides:
    """`parts`: the share of its units that a loop uses, where units count in parts; taken from its longest one."""
    sizes = {(one.dimension, one.along): float(one.size) for one in beside}
    for loop, share in parts.items():
        own = [key for key in sizes if key[0] == loop]
        if own:
            sizes[max(own, key=lambda key: sizes[key])] *= share
    names = set(array_of(accelerator).sizes)
    served = [set[str](), *(names if one.serves is None else set(one.serves) for one in accelerator.levels), names]
    within = tuple(
        {loop: prod(size for (own, along), size in sizes.items() if own == loop and along in serves) for loop in LOOPS}
        for serves in served
    )
    apart = tuple(prod(size for (_, along), size in sizes.items() if along not in serves) for serves in served)
    return Sides(within, apart)


def elements(layer: Layer, tiles: Tiles, within: dict[str, float], operand: str, *, skips: bool) -> Reals:
    """Of each tile of an operand, from bounds alone; whether rows that a stride `skips` are not in it."""
    sizes = {loop: within[loop] * tiles.inner[loop] for loop in LOOPS}
    found = np.ones(tiles.number)
    on_axes = AXES if operand == INPUT else ()
    for loop in RELEVANT[operand]:
        if loop not in on_axes:
            found = found * sizes[loop]
    for axis in layer.axes if operand == INPUT else ():
        outputs, filters = (np.floor(sizes[loop] + EPSILON) for loop in (axis.output_loop, axis.filter_loop))
        positions = (outputs - 1) * axis.stride + (filters - 1) * axis.dilation + 1
        if skips:
            common = np.gcd(axis.stride, axis.dilation)
            stride, dilation = axis.stride // common, axis.dilation // common
            positions = outputs * filters - np.maximum(0, filters - stride) * np.maximum(0, outputs - dilation)
        found = found * np.minimum(positions, axis.size)
    return found
