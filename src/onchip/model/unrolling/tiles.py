"""The tiles that the factors of the temporal loops can form, and their sizes in each memory.

A tile is a number of factors of each kind inside it. Tiles are numbered in a mixed radix, so that one more factor of a
kind adds that kind's `step`. Holders are the MACs, the levels in the accelerator's order, DRAM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from onchip.answer.layer_mapping import Loop
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import MemoryLevel
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, Axis, Layer
from onchip.model.accounting.accounting import Accounting
from onchip.model.layer.tables import Flags, Integers, Reals
from onchip.model.layer.tiles import EPSILON


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of a set of factors; equal factors form a kind. `inner` is a loop's product inside each tile."""

    kinds: tuple[Loop, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    inner: dict[str, Integers]

    @property
    def number(self) -> int:
        """Return the number of tiles; the last has all factors inside."""
        return prod(count + 1 for count in self.counts)

    @property
    def iterations(self) -> Integers:
        """Return for each tile the product of its loops."""
        found: Integers = np.prod([self.inner[loop] for loop in LOOPS], axis=0, dtype=np.int64)
        return found

    @property
    def sums_are_left(self) -> Flags:
        """Return True for tiles whose outputs loops outside add to."""
        return self.is_left([loop for loop in LOOPS if loop not in RELEVANT[OUTPUT]])

    def is_left(self, loops: Sequence[str]) -> Flags:
        """Return True for tiles outside which any of these loops continues."""
        return np.asarray(np.any([self.inner[loop] < self.inner[loop][-1] for loop in loops], axis=0))


def tiles_of(factors: Sequence[Loop]) -> Tiles:
    """Return all tiles that subsets of these temporal loops form, in any order."""
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
class SideBySide:
    """The spatial unrolling within one instance of each holder, by loop, and the number of instances."""

    within: tuple[dict[str, float], ...]
    apart: tuple[float, ...]


def sides_of(
    array: ComputeArray, levels: Iterable[MemoryLevel], beside: Sequence[Loop], parts: Mapping[str, tuple[int, int]]
) -> SideBySide:
    """Return the spatial sizes; `parts` has requested and executed bounds of padded loops; the longest is shortened."""
    sizes = {(one.dimension, one.along): float(one.size) for one in beside}
    for loop, (asked, executed) in parts.items():
        own = [key for key in sizes if key[0] == loop]
        if own:
            longest = max(own, key=lambda key: sizes[key])
            sizes[longest] = sizes[longest] * asked / executed
    names = set(array.sizes)
    served = [set[str](), *(names if one.serves is None else set(one.serves) for one in levels), names]
    within = tuple(
        {loop: prod(size for (own, along), size in sizes.items() if own == loop and along in serves) for loop in LOOPS}
        for serves in served
    )
    apart = tuple(prod(size for (_, along), size in sizes.items() if along not in serves) for serves in served)
    return SideBySide(within, apart)


@dataclass(frozen=True, slots=True)
class TileElements:
    """The element counts of tiles from bounds alone, in an `accounting`; `layer` has the bounds that count.

    With `has_stored_room` tiles of the input take capacity from their first row to their last, as `verify_mapping`
    requires. This includes rows that a stride skips, even if the accounting omits them.
    """

    layer: Layer
    tiles: Tiles
    accounting: Accounting
    has_stored_room: bool = False

    def elements(self, within: dict[str, float], operand: str) -> Reals:
        """Return the elements of each tile of an operand; fractional units are not rounded."""
        sizes: dict[str, Reals] = {loop: self.tiles.inner[loop] * np.float64(within[loop]) for loop in LOOPS}
        return self._of(sizes, operand)

    def room(self, within: dict[str, float], operand: str) -> Reals:
        """Return the elements for which each tile takes capacity."""
        if not self.accounting.parts_have_whole_room and not self.has_stored_room:
            return self.elements(within, operand)
        sizes: dict[str, Reals] = {loop: np.ceil(within[loop] * self.tiles.inner[loop] - EPSILON) for loop in LOOPS}
        return self._of(sizes, operand, is_stored=self.has_stored_room)

    def _of(self, sizes: Mapping[str, Reals], operand: str, *, is_stored: bool = False) -> Reals:
        axes = self.layer.axes if operand == INPUT else ()
        on_axes = {loop for axis in axes for loop in (axis.output_loop, axis.filter_loop)}
        found = np.ones(self.tiles.number)
        for loop in RELEVANT[operand]:
            if loop not in on_axes:
                found = found * sizes[loop]
        for axis in axes:
            positions = self._block(axis, sizes) if is_stored else self._positions(axis, sizes)
            found = found * np.minimum(positions, axis.size)
        return found

    @staticmethod
    def _block(axis: Axis, sizes: Mapping[str, Reals]) -> Reals:
        """Return the positions from the first to the last."""
        outputs, filters = sizes[axis.output_loop], sizes[axis.filter_loop]
        return (outputs - 1) * axis.stride + (filters - 1) * axis.dilation + 1

    def _positions(self, axis: Axis, sizes: Mapping[str, Reals]) -> Reals:
        outputs, filters = sizes[axis.output_loop], sizes[axis.filter_loop]
        if self.accounting.single_taps_are_channels and (self.layer.r, self.layer.s) == (1, 1):
            return outputs * filters
        if not self.accounting.parts_are_cut_late:
            outputs, filters = np.floor(outputs + EPSILON), np.floor(filters + EPSILON)
        positions = (outputs - 1) * axis.stride + (filters - 1) * axis.dilation + 1
        if self.accounting.skipped_rows_are_absent:
            common = np.gcd(axis.stride, axis.dilation)
            stride, dilation = axis.stride // common, axis.dilation // common
            positions = outputs * filters - np.maximum(0, filters - stride) * np.maximum(0, outputs - dilation)
        found: Reals = np.floor(positions + EPSILON)
        return found
